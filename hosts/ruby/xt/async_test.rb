# frozen_string_literal: true

# Property: handlers use the gem async as with a server of its own. Needs setup/async-run.sh.

require "minitest/autorun"
require_relative "../test/support/test_server"

class AsyncTest < Minitest::Test
  APP = File.join(__dir__, "async.ru")

  def serve(fibers: 100, **settings, &block)
    TestServer.open(app: APP, settings: { fibers: fibers, **settings }, &block)
  end

  def ask(server, target)
    server.connection.tap { |connection| connection.send_request("GET", target) }
  end

  def bodies(connections)
    connections.map { |connection| connection.final_response.body }
  end

  def wait_for_open(server, name, count)
    Waiting.wait_until(-> { "#{count} in #{name}; the log says:\n#{server.log}" }) do
      server.get("/open/#{name}").body == count.to_s
    end
  end

  def test_a_request_is_a_task
    serve do |server|
      {
        "/tasks" => "012", "/current" => "true Oribi::AsyncScheduler", "/sync" => "sync", "/limited" => "2",
        "/timeout" => "over", "/streamed" => "0123456789"
      }.each { |target, body| assert_equal [body], bodies(Array.new(5) { ask(server, target) }).uniq, server.log }
    end
  end

  # The upstream server answers only when all its clients are there.
  def test_a_client_of_async_fetches_for_many_requests_at_once
    upstream = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new do
      clients = Array.new(20) { upstream.accept }
      clients.each do |client|
        nil until client.gets == "\r\n"
        client.write("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 7\r\n\r\nfetched")
        client.close
      end
    end
    serve do |server|
      assert_equal ["fetched"], bodies(Array.new(20) { ask(server, "/fetch/#{upstream.addr[1]}") }).uniq, server.log
    end
  ensure
    thread&.kill
    upstream&.close
  end

  def test_the_tasks_of_a_client_that_has_gone_are_stopped
    serve do |server|
      clients = Array.new(3) { ask(server, "/endless") }
      clients.each { |client| nil until client.take_line == "first\n" }
      clients.each(&:reset)
      %w[endless child].each do |name|
        server.wait_for_events(name, 3).each { |event| assert_match(/\AAsync::(Stop|Cancel)\z/, event) }
        wait_for_open(server, name, 0)
      end
      refute_match(/Stop|Cancel/, server.log)
    end
  end

  def test_a_request_that_takes_too_long_is_interrupted_with_its_tasks
    serve(request_timeout: 1, edge: "on") do |server|
      assert_equal 504, server.get("/late").status
      assert_equal ["Oribi::RequestTimeout"], server.wait_for_events("late", 1)
      server.wait_for_events("child", 1)
      assert_equal "in time", server.get("/patient").body, "a task of the request moves its deadline"
    end
  end

  def test_inner_fibers_belong_to_their_request
    serve { |server| assert_equal ["nilnil"], bodies(Array.new(5) { ask(server, "/inner") }).uniq, server.log }
  end

  def test_failures_are_those_of_one_request
    serve do |server|
      others = Array.new(5) { ask(server, "/sleep/0.2") }
      assert_equal 500, server.get("/fail").status
      assert_match(%r{GET /fail: .*a task has failed}, server.log)
      assert_equal 500, server.get("/stop").status
      assert_equal ["slept"], bodies(others).uniq
    end
  end

  def test_a_request_that_stops_all_tasks_does_not_stop_the_worker
    serve do |server|
      worker, = server.wait_for_workers(1)
      %w[/stop-all /close].each { |target| assert_equal 500, server.get(target).status }
      assert_match(%r{GET /close: .*cannot be replaced}, server.log)
      assert_equal "slept", server.get("/sleep/0.01").body
      before = processor_time(worker)
      sleep 1
      assert_operator processor_time(worker) - before, :<, 20, "hundredths of a second while nothing happens"
      assert_equal [worker], server.workers
    end
  end

  # Of a process, in ticks.
  def processor_time(pid)
    File.read("/proc/#{pid}/stat").split(") ").last.split.values_at(11, 12).sum(&:to_i)
  end

  def test_tasks_go_on_behind_a_response
    serve do |server|
      assert_equal "begun", server.get("/transient").body
      assert_equal "answered", server.get("/behind/a").body
      assert_equal ["a"], server.wait_for_events("behind", 1)
      assert_equal "1", server.get("/open/transient").body, "also where no request is open"
      server.finish
      assert_equal 1, server.events("transient").size, "and end with the worker"
      refute_match(/BUG|signal|cannot|blocked/, server.log)
    end
  end

  def test_open_answers_are_finished_when_the_server_reloads_and_stops
    serve do |server|
      before = server.wait_for_workers(1)
      waiting = Array.new(10) { ask(server, "/sleep/1") }
      assert_equal "slept", server.get("/sleep/0.01").body
      server.signal(:HUP)
      assert_equal ["slept"], bodies(waiting).uniq
      Waiting.wait_until("another worker") { server.workers.size == 1 && server.workers != before }
      waiting = Array.new(10) { ask(server, "/sleep/0.5") }
      assert_equal "slept", server.get("/sleep/0.01").body
      server.signal(:TERM)
      assert_equal ["slept"], bodies(waiting).uniq
    end
  end

  def test_loop_none_is_the_scheduler_of_oribi
    serve(loop: "none") { |server| assert_equal "Oribi::Scheduler", server.get("/scheduler").body }
  end
end
