# frozen_string_literal: true

# Property: a Sinatra app answers under Oribi according to its routes, straight and behind a proxy, with threads and with
# processes; in clear text, or with ORIBI_TEST_TLS=on over TLS, where curl speaks HTTP/2.

require "minitest/autorun"
$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "digest"
require "net/http"
require "open3"
require "securerandom"
require "proxy"
require "server_process"

class SinatraTest < Minitest::Test
  APP = File.expand_path("sinatra", __dir__)
  LIBRARY = { "RUBYLIB" => "#{ServerProcess::ROOT}/hosts/ruby/lib", "RACK_ENV" => "production" }.freeze

  CURLS_STATUS = "%{http_code}" # rubocop:disable Style/FormatStringToken -- it is curl that reads it

  # The command that starts the app on a port, with so many workers and threads.
  COMMANDS = {
    "oribi" => lambda do |port, workers, threads|
      %W[#{ServerProcess::ORIBI} config.ru --host 127.0.0.1 --port #{port} --workers #{workers} --threads #{threads}]
    end,
    "rackup" => lambda do |port, workers, threads|
      %W[rackup -s oribi -o 127.0.0.1 -p #{port} -O Workers=#{workers} -O Threads=#{threads}]
    end
  }.freeze

  # The same where it encrypts.
  ENCRYPTED_COMMANDS = {
    "oribi" => lambda do |port, workers, threads|
      listen = "https://127.0.0.1:#{port}?cert=#{Certificate.file}"
      %W[#{ServerProcess::ORIBI} config.ru --listen #{listen} --workers #{workers} --threads #{threads}]
    end,
    "rackup" => lambda do |port, workers, threads|
      options = ["SslCert=#{Certificate.file}", "Workers=#{workers}", "Threads=#{threads}"]
      %W[rackup -s oribi -o 127.0.0.1 -p #{port}] + options.flat_map { |option| ["-O", option] }
    end
  }.freeze

  def setup
    @folder = Dir.mktmpdir
  end

  def teardown
    assert_predicate @server.stop, :success?, @server.log_end if @server && !@server.exit_status
    FileUtils.rm_rf(@folder)
  end

  def start(command, workers: 1, threads: 5, environment: {})
    port = FreePort.next
    encrypted = Certificate.wanted?
    commands = encrypted ? ENCRYPTED_COMMANDS : COMMANDS
    launch(commands.fetch(command).call(port, workers, threads), environment, port:, encrypted:)
  end

  def launch(command, environment = {}, **address)
    @server = ServerProcess.new(*command, **address, directory: APP, environment: LIBRARY.merge(environment))
  end

  COMMANDS.each_key do |command|
    { "one worker and five threads" => [1, 5], "two workers" => [2, 1] }.each do |name, (workers, threads)|
      define_method("test_#{command} with #{name}, straight and behind a proxy") do
        start(command, workers:, threads:)
        proxy = Proxy.before(@server)
        [@server, proxy].each do |front|
          assert_routes(front)
          assert_uploads(front)
          assert_session(front)
          assert_stream(front)
        end
        assert_predicate proxy.stop(:QUIT), :success?
      end
    end
  end

  def test_one_worker_with_requests_in_fibers
    start("oribi", threads: 1, environment: { "ORIBI_FIBERS" => "50" })
    assert_routes(@server)
    assert_uploads(@server)
    assert_session(@server)
    assert_stream(@server)
  end

  def test_behind_a_proxy_on_a_unix_socket
    socket = "#{@folder}/app.sock"
    launch([ServerProcess::ORIBI, "config.ru", "--listen", socket, "--workers", "2"], socket:)
    proxy = Proxy.before(@server)
    assert_routes(proxy)
    assert_uploads(proxy)
    assert_predicate proxy.stop(:QUIT), :success?
  end

  def test_an_app_that_serves_itself
    %i[INT TERM].each do |signal|
      port = FreePort.next
      launch(["ruby", "itself.rb", port.to_s], port:)
      assert_routes(@server)
      assert_predicate @server.stop(signal), :success?, @server.log_end
      refute_match(/error/i, @server.log_text)
    end
  end

  # Sinatra stops its server in an at_exit handler, which workers inherit.
  def test_an_app_that_serves_itself_outlives_its_workers
    port = FreePort.next
    launch(["ruby", "itself.rb", port.to_s, "Workers=1", "MaxRequests=2"], port:)
    answers = Array.new(12) { curl(@server.url) }
    assert_equal [answers.first] * answers.size, answers
    assert_equal "200", answers.first.first
    refute_match(/stopping/, @server.log_text)
    # Each worker says this when it ends.
    assert_operator @server.log_text.scan("has ended").size, :>, 3
  end

  def test_an_app_that_stops_itself
    port = FreePort.next
    launch(["ruby", "itself.rb", port.to_s], port:)
    assert_equal ["200", "Good bye\n"], curl("#{@server.url}/stop")
    assert ServerProcess.wait_until { @server.exit_status }
    assert_predicate @server.exit_status, :success?, @server.log_end
  end

  def test_a_stream_is_sent_as_it_is_written
    start("oribi")
    go = "#{@folder}/go"
    received = +""
    Net::HTTP.start("127.0.0.1", @server.port, use_ssl: @server.encrypted?) do |http|
      http.request_get("/stream/3?until=#{go}") do |response|
        response.read_body do |piece|
          # The app waits for this: a stream that is held back until its end never ends.
          FileUtils.touch(go)
          received << piece
        end
      end
    end
    assert_equal lines(0..3), received
  end

  def test_an_error_in_production
    start("oribi")
    response = get(@server, "/failure")
    assert_equal "500", response.code
    refute_match(/out of order/, response.body)
    assert_match(/This page is out of order/, @server.log_text)
    assert_equal "Hello from Sinatra\n", get(@server, "/").body
  end

  def test_an_error_in_development
    start("rackup", environment: { "RACK_ENV" => "development" })
    response = get(@server, "/failure")
    assert_equal "500", response.code
    assert_match(/This page is out of order/, response.body)
    assert_match(/app\.rb/, response.body)
  end

  private

  def get(front, path)
    Net::HTTP.get_response(URI("#{front.url}#{path}"))
  end

  # The status and the content of what curl is answered.
  def curl(*arguments)
    output, status = Open3.capture2("curl", "--silent", "--show-error", "--write-out", CURLS_STATUS, *arguments,
                                    binmode: true)
    assert_predicate status, :success?, arguments.join(" ")
    [output[-3..], output[...-3].force_encoding(Encoding::UTF_8)]
  end

  def assert_routes(front)
    assert_equal ["200", "Hello from Sinatra\n"], curl("#{front.url}/")
    assert_equal ["200", ""], curl("--head", "--output", File::NULL, "#{front.url}/")
    assert_equal ["200", "Hello, Zoë +!\n"], curl("#{front.url}/hello/Zo%C3%AB%20%2B")
    assert_equal ["200", "Hello, Zoë +!\n"], curl("--data-urlencode", "name=Zoë +", "#{front.url}/form")
    assert_equal ["404", "Nothing here\n"], curl("#{front.url}/nowhere")
    address = front.url.sub("http:", @server.encrypted? ? "https:" : "http:")
    assert_equal ["200", "#{address}/x\n"], curl("#{front.url}/address/x")
    assert_equal "#{address}/hello/again", get(front, "/redirect")["location"]
    # The proxies of the tests encrypt nothing for clients, so an app that gets https as its scheme redirects past them.
    assert_equal ["200", "Hello, again!\n"], curl("--location", "#{front.url}/redirect") if front.url == address
    teapot = get(front, "/halt")
    assert_equal %w[418 teapot], [teapot.code, teapot["x-reason"]]
    assert_equal "short and stout\n", teapot.body
  end

  def assert_uploads(front)
    [1000, 5 << 20].each do |size|
      file = "#{@folder}/some.bin"
      content = SecureRandom.bytes(size)
      File.binwrite(file, content)
      digest = "#{size} bytes, sha256 #{Digest::SHA256.hexdigest(content)}\n"
      assert_equal ["200", "some.bin: #{digest}"], curl("--form", "file=@#{file}", "#{front.url}/upload")
      type = ["--header", "Content-Type: application/octet-stream"]
      assert_equal ["200", digest], curl(*type, "--header", "Expect: 100-continue", "--upload-file", file, "#{front.url}/raw")
      assert_equal ["200", digest],
                   curl(*type, "--header", "Transfer-Encoding: chunked", "--upload-file", file, "#{front.url}/raw")
      # Sent by sendfile without a process in between.
      assert_equal content, Net::HTTP.get(URI("#{front.url}/file?path=#{file}"))
    end
  end

  def assert_session(front)
    cookie = nil
    (1..3).each do |number|
      response = Net::HTTP.get_response(URI("#{front.url}/visit"), cookie ? { "Cookie" => cookie } : {})
      assert_equal "visit #{number}\n", response.body
      cookie = response["set-cookie"][/\A[^;]*/]
    end
  end

  def assert_stream(front)
    [1, 2000].each { |count| assert_equal ["200", lines(0..count)], curl("#{front.url}/stream/#{count}") }
  end

  def lines(numbers)
    numbers.map { |number| "line #{number}\n" }.join
  end
end
