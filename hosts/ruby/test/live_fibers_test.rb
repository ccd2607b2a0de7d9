# frozen_string_literal: true

# Property: a client is that of its event in all fibers that the handler uses.

require "minitest/autorun"
require_relative "support/test_server"

class LiveFibersTest < Minitest::Test
  APP = <<~'RUBY'
    module Inner
      def self.on_open(client)
        client.write("opened")
        client.write(Enumerator.new { |places| places << client.subscribe("news") << 1 }.next)
        Fiber.new { client.write("in a fiber") }.resume
        client.write((Thread.new { client.subscribe("others") }.value rescue $!.class))
      end
    end

    run(lambda do |env|
      env["rack.upgrade"] = Inner if env["rack.upgrade?"]
      Thread.report_on_exception = false
      [200, {}, []]
    end)
  RUBY

  def test_a_client_is_that_of_its_event_in_inner_fibers_and_in_no_thread
    [{}, { fibers: 10 }].each do |settings|
      TestServer.open(app: APP, settings: { edge: "on", **settings }) do |server|
        connection = server.connection
        connection.send_request("GET", "/", { "Accept" => "text/event-stream" })
        nil until (first = connection.take_line).start_with?("data: ")
        lines = Array.new(6) { connection.take_line.chomp } - [""]
        assert_equal ["data: opened", "data: news", "data: in a fiber", "data: Oribi::Error"], [first.chomp, *lines], server.log
      end
    end
  end
end
