# frozen_string_literal: true

# Property: a Rails app as `rails new` makes it, with a database, uploads, streams and Action Cable, works under every way to
# start Oribi as it does without a server; in clear text, or with ORIBI_TEST_TLS=on over TLS.

require "minitest/autorun"
$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "net/http"
require "proxy"
require "rails_app"
require "server_process"
require "web_socket_client"

class RailsTest < Minitest::Test
  # Workers and threads.
  ONE_WORKER = [1, 5].freeze
  TWO_WORKERS = [2, 1].freeze

  # The ways to start the app on a port. A command without the numbers of workers and threads takes them from the environment,
  # and from config/puma.rb, which Rails has generated for Puma.
  COMMANDS = {
    "oribi config.ru" => lambda do |port, workers, threads|
      %W[#{ServerProcess::ORIBI} config.ru --host 127.0.0.1 --port #{port} --workers #{workers} --threads #{threads}]
    end,
    "rackup -s oribi" => ->(port, *) { %W[bundle exec rackup -s oribi -o 127.0.0.1 -p #{port}] },
    "rails server -u oribi" => ->(port, *) { %W[bin/rails server -u oribi -b 127.0.0.1 -p #{port}] }
  }.freeze

  # The same where it encrypts, in the words of each.
  ENCRYPTED_COMMANDS = {
    "oribi config.ru" => lambda do |port, workers, threads|
      listen = "https://127.0.0.1:#{port}?cert=#{Certificate.file}"
      %W[#{ServerProcess::ORIBI} config.ru --listen #{listen} --workers #{workers} --threads #{threads}]
    end,
    "rackup -s oribi" => lambda do |port, *|
      %W[bundle exec rackup -s oribi -o 127.0.0.1 -p #{port} -O SslCert=#{Certificate.file}]
    end,
    "rails server -u oribi" => lambda do |port, *|
      %W[bin/rails server -u oribi -b ssl://127.0.0.1:#{port}?cert=#{Certificate.file}&key=#{Certificate.file}]
    end
  }.freeze

  def setup
    @folder = Dir.mktmpdir
  end

  def teardown
    assert_predicate @server.stop, :success?, @server.log_end if @server
    FileUtils.rm_rf(@folder)
  end

  def start(command, mode = "production", shape = ONE_WORKER, variables = {})
    port = FreePort.next
    environment = {
      "RAILS_ENV" => mode, "RACK_ENV" => mode, "WEB_CONCURRENCY" => shape[0].to_s, "RAILS_MAX_THREADS" => shape[1].to_s,
      **RailsApp.database_in(@folder), **RailsApp::ENVIRONMENT, **variables
    }
    encrypted = Certificate.wanted?
    commands = encrypted ? ENCRYPTED_COMMANDS : COMMANDS
    words = commands.fetch(command).call(port, *shape)
    @server = ServerProcess.new(*words, port:, directory: RailsApp.folder, environment:, encrypted:)
  end

  # Runs the app's own tests with the server.
  def assert_own_tests_pass_live
    scheme = @server.encrypted? ? { "LIVE_SCHEME" => "https" } : {}
    assert_own_tests_pass({ "LIVE_URL" => url, **scheme })
  end

  # A client of the server itself.
  def with_client(&)
    Net::HTTP.start("127.0.0.1", @server.port, use_ssl: @server.encrypted?, &)
  end

  # Runs the tests that the app itself has; none may fail, be skipped or be missing.
  def assert_own_tests_pass(environment = {})
    output = RailsApp.run("bin/rails", "test", environment:)
    assert_match(/^[1-9]\d* runs, [1-9]\d* assertions, 0 failures, 0 errors, 0 skips$/, output)
  rescue RuntimeError => e
    flunk "#{e.message}\n#{@server&.log_end}"
  end

  # The address of the app: with ORIBI_TEST_HTTP2=on that of a proxy that speaks HTTP/2 with the server.
  def url
    return @server.url unless Proxy.over_http2?

    @proxy ||= Proxy.before(@server)
    @proxy.url
  end

  def get(path)
    Net::HTTP.get_response(URI("#{url}#{path}"))
  end

  def test_the_app_without_a_server
    assert_own_tests_pass
  end

  COMMANDS.each_key do |command|
    define_method("test_#{command} with one worker and five threads") do
      start(command, "production", ONE_WORKER)
      assert_own_tests_pass_live
      clients = assert_subscribers_are_echoed
      assert_all_subscribers_hear(clients)
      # One stays, which keeps nothing from ending.
      clients.first.close
    end

    define_method("test_#{command} with two workers") do
      start(command, "production", TWO_WORKERS)
      assert_own_tests_pass_live
      assert_subscribers_are_echoed.each(&:close)
    end
  end

  # Action Cable takes the sockets, and its own thread waits for them.
  def test_one_worker_with_requests_in_fibers
    start("oribi config.ru", "production", [1, 1], { "ORIBI_FIBERS" => "50" })
    assert_own_tests_pass_live
    assert_subscribers_are_echoed.each(&:close)
  end

  def test_a_live_stream_is_sent_as_it_is_written
    start("oribi config.ru")
    go = "#{@folder}/go"
    received = +""
    with_client do |http|
      http.request_get("/live/5?until=#{go}") do |response|
        response.read_body do |piece|
          # The app waits for this: a stream that is held back until its end never ends.
          FileUtils.touch(go)
          received << piece
        end
      end
    end
    assert_equal (0..5).map { |number| "line #{number}\n" }.join, received, @server.log_end
  end

  def test_a_page_beside_four_streams_that_wait
    start("oribi config.ru")
    go = "#{@folder}/go"
    started = Queue.new
    streams = Array.new(4) do
      Thread.new do
        with_client do |http|
          http.request_get("/live/5?until=#{go}") { |response| response.read_body { started << true } }
        end
      end
    end
    # A failed thread would send nothing.
    streams.each { |stream| stream.abort_on_exception = true }
    4.times { started.pop }
    assert_equal "visit 1", get("/visit").body
    FileUtils.touch(go)
    streams.each(&:join)
  end

  # An app that insists on https gets this scheme, and redirects other requests there.
  def test_an_app_that_insists_on_https
    start("oribi config.ru", "production", ONE_WORKER, { "FORCE_SSL" => "1" })
    response = get("/visit")
    if @server.encrypted?
      assert_equal ["200", "visit 1"], [response.code, response.body]
      assert_match(/max-age=/, response["strict-transport-security"])
      assert_match(/; secure/i, response["set-cookie"])
      assert_match(%r{\Ahttps://}, get("/address").body)
    else
      assert_equal "301", response.code
      assert_match(%r{\Ahttps://}, response["location"])
    end
  end

  def test_the_app_knows_its_address
    start("rails server -u oribi")
    host = URI(url)
    scheme = @server.encrypted? ? "https" : "http"
    assert_equal "#{scheme}://127.0.0.1:#{host.port}/notes ssl #{@server.encrypted?}", get("/address").body
  end

  def test_errors_in_production
    start("oribi config.ru")
    response = get("/failure")
    assert_equal "500", response.code
    refute_match(/out of order/, response.body)
    assert_equal File.read("#{RailsApp.folder}/public/500.html"), response.body.force_encoding(Encoding::UTF_8)
    assert_match(/This page is out of order/, @server.log_text)
    assert_equal "404", get("/nowhere").code
    forged = Net::HTTP.post_form(URI("#{url}/notes"), "note[text]" => "forged")
    assert_equal "422", forged.code
    assert_equal "visit 1", get("/visit").body, "and it goes on"
  end

  def test_errors_in_development
    start("rails server -u oribi", "development")
    response = get("/failure")
    assert_equal "500", response.code
    assert_match(/This page is out of order/, response.body)
    assert_match(/failures_controller\.rb/, response.body)
    assert_match(/No route matches/, get("/nowhere").body)
  end

  # A request that has become a WebSocket no longer keeps others from loading classes again.
  def test_an_edit_in_development_with_a_subscriber
    start("oribi config.ru", "development")
    client = subscribe
    assert_equal "visit 1", get("/visit").body
    edited("app/controllers/visits_controller.rb", "visit ", "look ") { assert_equal "look 1", get("/visit").body }
    assert_equal "visit 1", get("/visit").body
    client.close
  end

  private

  # Yields with one text of a file of the app replaced by another one.
  def edited(path, text, other)
    path = "#{RailsApp.folder}/#{path}"
    before = File.read(path)
    assert_includes before, text
    File.write(path, before.gsub(text, other))
    yield
  ensure
    File.write(path, before)
  end

  IDENTIFIER = { channel: "EchoChannel" }.to_json

  # Returns the subscribers.
  def assert_subscribers_are_echoed
    clients = Array.new(2) { subscribe }
    clients.each_with_index do |client, number|
      assert_equal "Zoë #{number}", ask(client, action: "echo", text: "Zoë #{number}")["echo"]
    end
    long = "x" * 60_000
    assert_equal long, ask(clients[0], action: "echo", text: long)["echo"]
    assert_equal "visit 1", get("/visit").body, "and pages are served meanwhile"
    clients
  end

  def assert_all_subscribers_hear(clients)
    say(clients[0], action: "announce", text: "to all")
    clients.each { |client| assert_equal "to all", hear(client)["announcement"] }
  end

  # A client of the channel.
  def subscribe
    scheme = URI(@server.url).scheme
    host = "127.0.0.1:#{@server.port}"
    client = WebSocketClient.new(@server.connect, host, "/cable", protocol: "actioncable-v1-json", scheme:)
    assert_predicate client, :accepted?, client.status
    assert_equal "actioncable-v1-json", client.fields["sec-websocket-protocol"]
    assert_equal "welcome", hear_raw(client)["type"]
    client.send_text({ command: "subscribe", identifier: IDENTIFIER }.to_json)
    assert_equal "confirm_subscription", hear_raw(client)["type"]
    client
  end

  def say(client, data)
    client.send_text({ command: "message", identifier: IDENTIFIER, data: data.to_json }.to_json)
  end

  def ask(client, data)
    say(client, data)
    hear(client)
  end

  def hear(client)
    hear_raw(client).fetch("message")
  end

  # The next message other than a sign of life.
  def hear_raw(client)
    loop do
      message = JSON.parse(client.receive || flunk("the server has closed"))
      return message unless message["type"] == "ping"
    end
  end
end
