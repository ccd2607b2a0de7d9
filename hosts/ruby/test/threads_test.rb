# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# Ruby threads in one worker.
class ThreadsTest < Minitest::Test
  GATES = File.join(__dir__, "support/gates.ru")

  def serve(threads, **settings, &block)
    TestServer.open(app: GATES, settings: { workers: 1, threads: threads, **settings }, &block)
  end

  # Sends requests on connections of their own and returns these.
  def begin_requests(server, targets)
    targets.map { |target| server.connection.tap { |connection| connection.send_request("GET", target) } }
  end

  def bodies(connections)
    connections.map { |connection| connection.response.body }
  end

  def wait_for_waiting(server, name, count)
    Waiting.wait_until("#{count} waiting requests") { server.get("/waiting/#{name}").body == count.to_s }
  end

  def test_as_many_requests_run_at_once_as_there_are_threads
    serve(4) do |server|
      threads = bodies(begin_requests(server, ["/meet/all/4"] * 4))
      assert_equal 4, threads.uniq.size
      assert_equal "true", server.get("/flag").body
    end
  end

  def test_waiting_apps_hold_up_nobody_while_a_thread_is_free
    serve(4) do |server|
      waiting = begin_requests(server, ["/wait/a"] * 3)
      wait_for_waiting(server, "a", 3)
      100.times { assert_equal "fine", server.get("/fine").body }
      3.times { server.get("/open/a") }
      assert_equal ["opened"] * 3, bodies(waiting)
    end
  end

  def test_more_requests_than_threads_wait_for_a_thread
    serve(4) do |server|
      meeting = begin_requests(server, ["/meet/all/4"] * 3)
      others = begin_requests(server, ["/fine"] * 20)
      assert_equal ["fine"] * 20, bodies(others)
      assert_equal 200, server.get("/meet/all/4").status
      assert_equal 3, bodies(meeting).uniq.size
    end
  end

  def test_an_app_that_computes_leaves_time_for_others
    serve(2) do |server|
      spinning = begin_requests(server, ["/spin"])
      assert_equal "fine", server.get("/fine").body
      assert_equal ["spun"], bodies(spinning)
    end
  end

  def test_a_pipelining_client_is_answered_in_order
    serve(4) do |server|
      connection = server.connection
      connection.write(Array.new(200) { |number| Connection.text("GET", number.even? ? "/count/x" : "/fine") }.join)
      200.times { |number| assert_equal number.even? ? (number / 2).to_s : "fine", connection.response.body }
    end
  end

  def test_many_clients_at_once
    serve(4) do |server|
      connections = Array.new(40) { server.connection }
      25.times do
        connections.each { |connection| connection.send_request("GET", "/count/x") }
        assert_equal [200], connections.map { |connection| connection.response.status }.uniq
      end
      assert_equal "1000", server.get("/total/x").body
    end
  end

  def test_threads_are_started_when_they_are_needed
    serve("1:8") do |server|
      few = server.get("/threads").body.to_i
      assert_equal 8, bodies(begin_requests(server, ["/meet/all/8"] * 8)).uniq.size
      assert_operator server.get("/threads").body.to_i, :>, few
      assert_equal "true", server.get("/flag").body
    end
  end

  def test_one_thread_is_the_main_thread
    serve(1) do |server|
      seen = Array.new(3) { server.get("/thread").body }
      assert_equal 1, seen.uniq.size
      assert_match(/\Atrue /, seen.first)
      assert_equal "false", server.get("/flag").body
    end
  end

  def test_a_request_keeps_its_thread
    serve(4) do |server|
      locals = Array.new(20) { |number| server.get("/local/#{number}").body }
      assert_operator locals.count("nil"), :<=, 4
    end
  end

  def test_a_thread_that_is_killed_from_outside_is_replaced
    [1, 4].each do |threads|
      serve(threads) do |server|
        8.times { assert_equal 500, server.get("/kill").status, server.log }
        assert_equal "fine", server.get("/fine").body
        assert_equal threads, bodies(begin_requests(server, ["/meet/all/#{threads}"] * threads)).uniq.size
      end
    end
  end

  def test_an_exception_from_outside_is_the_requests
    [1, 4].each do |threads|
      serve(threads) do |server|
        8.times { assert_equal 500, server.get("/raise").status }
        server.wait_for_log(/raised from outside/)
        assert_equal "fine", server.get("/fine").body
      end
    end
  end

  # The process ends, since the app wants that, but not before requests that have begun are answered.
  %w[exit trap abort kill twice].each do |way|
    define_method(:"test_the_end_of_the_main_thread_by_#{way}_waits_for_requests") do
      serve(4, respawn_interval: "10ms") do |server|
        before = server.get("/pid").body
        held = begin_requests(server, %w[/hold/first /hold/second])
        files = %w[first second].map { |name| File.join(server.directory, name) }
        Waiting.wait_until("the apps to be called") { files.all? { |file| File.exist?("#{file}.holds") } }
        assert_equal "told", server.get("/main/#{way}").body
        Waiting.wait_until("another worker") { server.get("/pid").body != before }
        FileUtils.touch(files)
        assert_equal %w[held held], bodies(held), server.log
        server.close_connections
        Waiting.wait_until("the end of the worker") { !server.workers.include?(before.to_i) }
        refute_match(/was killed by|ended with exit status|\[BUG\]|panicked/, server.log)
        assert_equal 0, server.stop
      end
    end
  end

  def test_a_server_that_stops_lets_all_threads_finish
    serve(4) do |server|
      meeting = begin_requests(server, ["/meet/all/4"] * 3)
      last = server.connection
      # It is under way when the server gets the order to stop: the others can only finish if it is still answered.
      last.write("GET /meet/all/4 HTTP/1.1\r\nHost: a\r\n")
      assert_equal "fine", server.get("/fine").body
      server.signal(:TERM)
      server.wait_for_log(/stopping|TERM/i)
      last.write("\r\n")
      assert_equal [200] * 4, [*meeting, last].map { |connection| connection.response.status }
      assert_equal 0, server.stop
    end
  end
end
