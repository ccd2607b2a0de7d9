# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# For every possible end of a request, Rack's promises to apps are kept: the body is closed exactly once, and work for after the
# response is done once. The next request finds no trace of the request before it.
class EndsTest < Minitest::Test
  APP = File.join(__dir__, "support/ends.ru")
  ENDS = File.read(APP)[/^  ENDS = \{\n(.*?)^  \}\.freeze/m, 1].scan(/^    "([a-z0-9-]+)" => /).flatten.freeze
  # Ends at which nothing was sent before the body failed.
  REFUSED = %w[status headers unframed each-raises-first piece-raises call-raises-first app-raises app-throws nil].freeze
  # A response that is cut, so it must not look whole.
  CUT = %w[short long each-raises-later call-raises-later throw late].freeze

  SHAPES = { "one thread" => { threads: 1 }, "three threads" => { threads: 3 }, "fibers" => { fibers: 10, edge: "on" } }.freeze
  HANDLERS = { "" => {}, " and an error handler" => { "HANDLER" => "1" } }.freeze

  SHAPES.each do |shape, threads|
    HANDLERS.each do |name, environment|
      define_method(:"test_promises_with_#{shape}#{name}") do
        settings = { workers: 1, respawn_interval: "10ms", request_timeout: "1h", **threads }
        TestServer.open(app: APP, settings: settings, env: environment, extras: { "rack_version" => [3, 0] }) do |server|
          ENDS.each { |one| check(server, "GET", one, environment) }
          %w[each call file partial].each { |one| check(server, "HEAD", one, environment) }
          refute_match(/panicked|\[BUG\]|worker \d+ (?:died|was ended by signal)/, server.log)
        end
      end
    end
  end

  # A server that stops answers its requests, and keeps its promises.
  def test_promises_when_the_server_stops
    app = <<~'RUBY'
      require "uri"
      run(lambda do |env|
        note = ->(text) { File.open(ENV.fetch("PROBE_EVENTS"), "a") { |file| file.syswrite("stop #{text}\n") } }
        gate = File.join(ENV.fetch("TEST_DIRECTORY"), "gate")
        body = Object.new
        body.define_singleton_method(:each) do |&take|
          take.call("one")
          sleep 0.005 until File.exist?(gate)
          take.call("two")
        end
        body.define_singleton_method(:close) { note.call("close") }
        env["rack.response_finished"] << ->(*) { note.call("finished") }
        env["rack.after_reply"] << -> { note.call("reply") }
        [200, {}, env["PATH_INFO"] == "/" ? [] : body]
      end)
    RUBY
    TestServer.open(app: app, settings: { workers: 1 }, extras: { "rack_version" => [3, 0] }) do |server|
      connection = server.connection
      connection.send_request("GET", "/body")
      nil until connection.take_line == "one\r\n"
      server.signal(:TERM)
      server.wait_for_log(/TERM|stop|end/i)
      FileUtils.touch(File.join(server.directory, "gate"))
      assert_match(/two/, connection.rest)
      server.wait_end
      assert_equal %w[close finished reply], server.events("stop").sort
    end
  end

  private

  def next_id
    @sequence = @sequence.to_i + 1
    "end-#{@sequence}"
  end

  def check(server, method, one, environment)
    id = next_id
    answer = ask(server, method, "/#{one}?id=#{id}", one)
    body = !one.start_with?("app-") && one != "nil"
    promised = ["finished", "reply", *("close" if body)].sort
    said = -> { "#{method} #{one}: #{server.events(id)}\n#{server.log}" }
    Waiting.wait_until(said) { (promised - server.events(id)).empty? }
    # After the next request nothing more can come.
    assert_equal "probe", follow(server, id), said
    assert_equal promised, server.events(id).sort - ["handled"], said
    assert_operator server.events(id).count("handled"), :<=, 1, said
    check_answer(answer, method, one, environment, said)
  rescue Waiting::TimeOver => e
    flunk "#{method} #{one}: #{e.message}"
  end

  def check_answer(answer, method, one, environment, said)
    return if method == "HEAD"

    if REFUSED.include?(one)
      assert_match(%r{\AHTTP/1.1 500 }, answer, said)
      assert_match(/sorry/, answer, said) if environment["HANDLER"] && !%w[headers unframed].include?(one)
    elsif CUT.include?(one)
      refute_match(/\r\n0\r\n\r\n\z/, answer, said)
    end
  end

  # The whole answer. The connection ends with it.
  def ask(server, method, target, one)
    connection = server.connection
    connection.send_request(method, target, { "Connection" => "close" })
    return connection.rest unless one.start_with?("gone")

    connection.take_bytes(100_000)
    connection.reset
    ""
  ensure
    connection&.close unless one.start_with?("gone")
  end

  # Some ends also end the worker, with the requests that it had accepted.
  def follow(server, id)
    Waiting.wait_until(-> { "an answer behind #{id}\n#{server.log}" }) do
      answer = server.get("/?id=#{id}")
      answer.body if answer.status == 200
    rescue Connection::Ended
      nil
    end
  end
end
