# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# Requests that only wait, and say so: another thread of their worker runs others, beyond --threads.
class IoBoundTest < Minitest::Test
  APP = File.join(__dir__, "support/io_bound.ru")

  # With an edge and without; `most` threads for requests that wait.
  def serve(threads: 1, most: 1, edges: %w[off on], **settings)
    edges.each do |edge|
      common = { workers: 1, threads: threads, max_io_threads: most, edge: edge, respawn_interval: "10ms" }
      TestServer.open(app: APP, settings: { **common, **settings }) do |server|
        yield server
        refute_match(/panicked|\[BUG\]|answers no request/, server.log)
      end
    end
  end

  def start(server, *targets)
    targets.map { |target| server.connection.tap { |connection| connection.send_request("GET", target) } }
  end

  def hold(server, *targets)
    connections = start(server, *targets)
    files = targets.map { |target| File.join(server.directory, "#{File.basename(target)}.holds") }
    Waiting.wait_until(-> { "the apps to be called; the log says:\n#{server.log}" }) { files.all? { |file| File.exist?(file) } }
    connections
  end

  def release(server, *names)
    FileUtils.touch(names.map { |name| File.join(server.directory, name) })
  end

  def bodies(connections)
    connections.map { |connection| connection.response.body }
  end

  # The threads in excess have ended, and those that requests may take are there.
  def assert_threads(server, number, message = nil)
    Waiting.wait_until(-> { "#{number} threads #{message}; the log says:\n#{server.log}" }) do
      server.get("/threads").body == number.to_s
    end
  end

  def test_requests_that_only_wait_make_room_for_others
    serve(most: 2) do |server|
      3.times do |round|
        names = %w[a b].map { |name| "#{name}#{round}" }
        held = hold(server, "/oribi/hold/#{names[0]}", "/puma/hold/#{names[1]}")
        20.times { assert_equal "fine", server.get("/fine").body }
        release(server, *names)
        assert_equal names, bodies(held)
        assert_threads(server, 1)
      end
    end
  end

  def test_requests_beyond_the_bound_count_as_others_do
    serve do |server|
      first, second = hold(server, "/oribi/hold/first", "/oribi/hold/second")
      waiting = start(server, "/note/third")
      release(server, "first")
      assert_equal ["first"], bodies([first])
      assert_equal ["noted"], bodies(waiting), "the second one waits instead of the first"
      assert_equal %w[first third], server.wait_for_events("ends", 2)
      release(server, "second")
      assert_equal ["second"], bodies([second])
      assert_threads(server, 1)
    end
  end

  def test_requests_without_a_mark_do_not_exceed_the_threads
    serve(most: 5) do |server|
      holding = hold(server, "/hold/first")
      waiting = start(server, "/note/second")
      release(server, "first")
      assert_equal %w[first noted], bodies(holding + waiting)
      assert_equal %w[first second], server.wait_for_events("ends", 2)
      assert_equal "1", server.get("/threads").body
    end
  end

  # An app may leave the work for a request to a thread of its own.
  def test_a_thread_of_the_app_may_mark_the_request
    serve do |server|
      held = hold(server, "/thread/hold/a")
      assert_equal "fine", server.get("/fine").body
      release(server, "a")
      assert_equal ["a"], bodies(held)
      assert_threads(server, 1)
    end
  end

  def test_a_request_is_marked_once_and_until_its_end
    serve do |server|
      assert_equal "[true]", server.get("/twice").body
      assert_equal "false", server.get("/child").body, "nothing is marked in a child"
      server.get("/late")
      assert_equal ["false"], server.wait_for_events("late", 1)
      held = hold(server, "/oribi/hold/a")
      assert_equal "fine", server.get("/fine").body
      release(server, "a")
      assert_equal ["a"], bodies(held)
    end
  end

  def test_the_mark_lasts_while_the_body_is_sent
    serve do |server|
      held = hold(server, "/oribi/body/a")
      assert_equal "fine", server.get("/fine").body
      release(server, "a")
      assert_equal ["begun a"], bodies(held)
      assert_threads(server, 1)
    end
  end

  def test_the_mark_ends_when_the_app_has_hijacked_the_socket
    serve(edges: %w[off]) do |server|
      held = hold(server, "/oribi/hijack/a")
      # The thread of the app waits besides that of the server.
      assert_threads(server, 2)
      release(server, "a")
      assert_equal ["hijacked"], bodies(held)
      assert_threads(server, 1)
    end
  end

  # However a request ends, its mark ends with it, and no thread is lost.
  %w[fail throw kill raise return].each do |ending|
    define_method(:"test_the_mark_of_a_request_ends_after_#{ending}") do
      [1, 2].each do |threads|
        serve(threads: threads) do |server|
          10.times { assert_equal 500, server.get("/oribi/#{ending}").status, server.log }
          names = Array.new(threads) { |number| "#{ending}#{number}" }
          held = hold(server, *names.map { |name| "/oribi/hold/#{name}" })
          assert_equal "fine", server.get("/fine").body
          release(server, *names)
          assert_equal names, bodies(held)
          Waiting.wait_until("the end of the threads in excess") { server.get("/threads").body.to_i.between?(1, threads) }
        end
      end
    end
  end

  def test_a_marked_request_that_takes_too_long_is_interrupted
    serve(most: 2, request_timeout: "200ms") do |server|
      before = server.get("/pid").body
      3.times do
        connections = start(server, "/oribi/sleep", "/puma/sleep", "/thread/sleep", "/oribi/sleep")
        assert_equal [504] * 4, connections.map { |connection| connection.response.status }, server.log
      end
      assert_equal before, server.get("/pid").body
      assert_threads(server, 1)
    end
  end

  { TERM: "the server stops", HUP: "the app is loaded again" }.each do |signal, event|
    define_method(:"test_marked_requests_are_answered_when_#{event.tr(" ", "_")}") do
      serve(most: 2) do |server|
        before = server.get("/pid").body
        held = hold(server, "/oribi/hold/a", "/oribi/hold/b")
        server.signal(signal)
        if signal == :HUP
          Waiting.wait_until("another worker") { server.get("/pid").body != before }
        else
          server.wait_for_log(/stopping|TERM/i)
        end
        release(server, "a", "b")
        assert_equal %w[a b], bodies(held), server.log
        server.close_connections
        server.signal(:TERM) if signal == :HUP
        assert_equal 0, server.wait_end, server.log
      end
    end
  end

  def test_the_boot_request_cannot_be_marked
    serve(boot_request: "/oribi") do |server|
      held = hold(server, "/oribi/hold/a")
      assert_equal "fine", server.get("/fine").body
      release(server, "a")
      assert_equal ["a"], bodies(held)
      assert_threads(server, 1)
    end
  end

  def test_without_threads_for_them_no_request_can_be_marked
    serve(most: 0) { |server| assert_equal "", server.get("/keys").body }
    serve { |server| assert_equal "oribi.io_bound puma.mark_as_io_bound", server.get("/keys").body }
  end

  def test_many_requests_with_and_without_a_mark
    random = Random.new(1)
    targets = %w[/fine /twice /thread /oribi/fail /oribi/kill /oribi/raise /puma /child /threads /late]
    serve(threads: 2, most: 3) do |server|
      connections = Array.new(20) { server.connection }
      10.times do
        sent = Array.new(connections.size) { targets.sample(random: random) }
        connections.zip(sent) { |connection, target| connection.send_request("GET", target) }
        statuses = connections.map { |connection| connection.response.status }
        assert_equal(sent.map { |target| target.match?(/fail|kill|raise/) ? 500 : 200 }, statuses, server.log)
      end
      Waiting.wait_until("the end of the threads in excess") { server.get("/threads").body.to_i.between?(1, 2) }
    end
  end
end
