# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# Timeouts, Thread#kill, Thread#raise and traps, wherever the server is in its work: the client never gets half a response that
# looks complete, and the worker continues.
class InterruptsTest < Minitest::Test
  APP = File.join(__dir__, "support/interrupts.ru")
  WAYS = %w[kill raise].freeze

  # With one thread, which is the main thread, and with several.
  def serve(**settings)
    [1, 4].each do |threads|
      TestServer.open(app: APP, settings: { workers: 1, threads: threads, respawn_interval: "10ms", **settings }) do |server|
        yield server, threads
        8.times { assert_equal "probe\n", server.get("/").body, server.log }
        refute_match(/panicked|\[BUG\]/, server.log)
        server.close_connections
      end
    end
  end

  def test_an_app_that_waits
    serve do |server|
      WAYS.each do |way|
        4.times { assert_equal 500, server.get("/interrupt/sleep?way=#{way}").status }
        assert_equal 500, server.get("/interrupt/ensure?way=#{way}&id=ensure-#{way}").status
        assert_equal ["ensured"], server.events("ensure-#{way}")
      end
      server.wait_for_log(/raised from outside/)
    end
  end

  def test_a_body_that_waits_for_its_client
    serve(output_spool_size: "off") do |server|
      WAYS.product(%w[each stream]).each do |way, kind|
        connection = server.connection
        connection.send_request("GET", "/flood/#{kind}?way=#{way}&id=#{way}-#{kind}")
        Waiting.wait_until("close") { server.events("#{way}-#{kind}").last == "close" }
        refute connection.response.complete?
      end
    end
  end

  def test_a_timeout_while_the_client_does_not_read
    serve(output_spool_size: "off") do |server|
      connection = server.connection
      connection.send_request("GET", "/flood/timeout?id=timeout")
      assert_equal %w[each timeout close], server.wait_for_events("timeout", 3)
      refute connection.response.complete?
    end
  end

  def test_what_was_to_be_written_when_a_timeout_came_is_written
    serve(output_spool_size: "off") do |server|
      connection = server.connection
      connection.send_request("GET", "/flood/rescued?id=rescued")
      assert_equal "rescued", server.wait_for_events("rescued", 1).first
      response = connection.response
      assert response.complete?
      assert_match(/\Ax+\|rest\z/, response.body)
      assert_equal 0, (response.body.bytesize - 5) % 1_000_000
    end
  end

  def test_close_and_callbacks
    serve do |server|
      WAYS.each do |way|
        assert_equal "content", server.get("/interrupt/close?way=#{way}&id=close-#{way}").body
        assert_equal %w[each close], server.wait_for_events("close-#{way}", 2)
        assert_equal "replied", server.get("/interrupt/after?way=#{way}&id=after-#{way}").body
      end
      assert_equal ["second"], server.wait_for_events("after-raise", 1)
    end
  end

  def test_interrupts_that_come_too_late
    serve do |server, threads|
      (threads == 1 ? ["raise"] : WAYS).each do |way|
        10.times { assert_includes [200, 500], server.get("/interrupt/late?way=#{way}").status }
        Waiting.wait_until("the last interruption") { server.get("/interrupt/late/done").status == 200 }
      end
    end
  end

  # The end of the main thread is the end of the process, even in the middle of a request.
  def test_a_worker_whose_main_thread_is_killed_between_requests_is_replaced
    TestServer.open(app: APP, settings: { workers: 1, respawn_interval: "10ms" }) do |server|
      before = server.wait_for_workers(1)
      server.get("/interrupt/late?way=kill")
      Waiting.wait_until("another worker") { server.workers.any? && (server.workers & before).empty? }
      assert_equal "probe\n", server.get("/").body
    end
  end

  def test_traps
    serve do |server|
      3.times { |number| assert_equal "[true]", server.get("/trap?id=#{number}").body }
    end
  end

  def test_a_trap_that_raises_between_requests
    serve do |server|
      5.times do
        pid = server.get("/trap/raises").body.to_i
        Process.kill(:USR2, pid)
        Waiting.wait_until("an answer") { server.get("/").status == 200 }
      end
    end
  end

  def test_many_timeouts
    serve do |server|
      2.times { assert_equal({ over: 25, done: 25 }.inspect, server.get("/timeout/many").body) }
    end
  end
end
