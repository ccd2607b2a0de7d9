# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# --request-warning, --request-timeout and --request-kill: their effect on an app that takes too long, on its client and on
# the log.
class DeadlinesTest < Minitest::Test
  APP = File.join(__dir__, "support/deadlines.ru")
  # Calls that Ruby can interrupt.
  WAYS = %w[loop until rescue sleep read queue regex flock child].freeze

  # With one thread, which is the main thread, and with several; in each shape of the server.
  def serve(edges: %w[off on], **settings)
    [1, 4].product(edges).each do |count, edge|
      common = { workers: 1, threads: count, edge: edge, respawn_interval: "10ms" }
      TestServer.open(app: APP, settings: { **common, **settings }) do |server|
        server.get("/")
        before = server.get("/process").body
        yield server, -> { assert_equal before, server.get("/process").body, server.log }
        8.times { assert_equal "probe\n", server.get("/").body, server.log }
        refute_match(/panicked|\[BUG\]|answers no request/, server.log)
      end
    end
  end

  WAYS.each do |way|
    define_method(:"test_an_app_stuck_in_#{way}_is_interrupted_and_its_worker_goes_on") do
      serve(request_timeout: "200ms") do |server, same_worker|
        3.times do |number|
          id = "#{way}#{number}"
          assert_equal 504, server.get("/stuck?way=#{way}&id=#{id}").status, server.log
          assert_equal ["ensured"], server.wait_for_events(id, 1)
          same_worker.call
        end
        server.wait_for_log(%r{GET /stuck: the app has run for 0.2 s and is interrupted:\\n\\tfrom .*deadlines\.ru:\d+:in })
        refute_match(/handle_interrupt/, server.log, "the server's own frames are not the app's")
      end
    end
  end

  def test_a_warning_tells_where_the_app_is
    serve(request_warning: "100ms") do |server, same_worker|
      %w[slow busy].each do |path|
        assert_equal path, server.get("/#{path}?seconds=0.5").body
        server.wait_for_log(%r{GET /#{path}: the app has run for 0.1 s and goes on:\\n\\tfrom .*deadlines\.ru:\d+:in })
      end
      assert_equal 2, server.log.scan("and goes on").size
      refute_match(/handle_interrupt/, server.log)
      same_worker.call
    end
  end

  def test_an_app_may_rescue_the_exception_by_its_name
    serve(request_timeout: "200ms") do |server, same_worker|
      server.get("/stuck/rescued?way=sleep&id=named")
      assert_equal ["Oribi::RequestTimeout: the request has taken longer than it may"], server.wait_for_events("named", 1)
      same_worker.call
    end
  end

  def test_an_app_may_put_the_exception_off
    serve(request_timeout: "200ms") do |server, same_worker|
      assert_equal 504, server.get("/stuck/masked?seconds=0.6&id=masked").status
      assert_equal ["finished"], server.wait_for_events("masked", 1)
      same_worker.call
    end
  end

  def test_a_response_that_has_begun_is_cut
    serve(request_timeout: "200ms") do |server, same_worker|
      response = server.get("/stuck/each?way=sleep&id=cut")
      assert_equal 200, response.status
      refute response.complete?
      assert_equal "close", server.wait_for_events("cut", 2).last
      same_worker.call
    end
  end

  # An edge has the whole response then, and the supervisor watches the app.
  def test_the_close_of_a_body_is_interrupted_too
    serve(request_timeout: "200ms") do |server, same_worker|
      assert_equal "content", server.get("/stuck/close?way=loop&id=close").body
      same_worker.call
    end
  end

  # The order may arrive at any moment of the end of a request.
  def test_the_next_request_is_never_hit
    serve(request_timeout: "50ms") do |server, same_worker|
      statuses = 150.times.map do |number|
        status = server.get("/#{number.even? ? 'slow' : 'busy'}?seconds=#{0.045 + (number * 0.0001)}").status
        assert_equal "probe\n", server.get("/").body
        status
      end
      assert_empty statuses - [200, 504]
      same_worker.call
    end
  end

  def test_an_app_moves_its_deadline
    serve(request_timeout: "300ms") do |server, same_worker|
      assert_equal "late", server.get("/deadline?time=none&seconds=0.8").body
      assert_equal "late", server.get("/deadline?time=10&seconds=0.8").body
      assert_equal 504, server.get("/deadline?time=0.1&seconds=5").status
      assert_equal 504, server.get("/slow?seconds=5").status
      assert_equal "the deadline of a request can be moved by the thread that answers it, while it does so",
                   server.get("/deadline/elsewhere").body
      same_worker.call
    end
  end

  %w[c c-locked].each do |way|
    define_method(:"test_a_worker_that_is_stuck_in_#{way.tr("-", "_")}_is_ended") do
      serve(request_timeout: "200ms", request_kill: "600ms", graceful_timeout: "1s") do |server|
        before = server.get("/process").body
        server.get("/stuck?way=#{way}") rescue Connection::Ended # rubocop:disable Style/RescueModifier -- no edge, no answer
        Waiting.wait_until("another worker") { server.get("/process").body != before }
      end
    end
  end
end
