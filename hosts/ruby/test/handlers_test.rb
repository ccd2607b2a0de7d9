# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# rackup really started, by each name of the server.
class HandlersTest < Minitest::Test
  APP = <<~RUBY
    run lambda { |env|
      facts = %w[SERVER_NAME SERVER_PORT REMOTE_ADDR PATH_INFO rack.multithread].map { |name| "\#{name}=\#{env[name]}" }
      text = [*facts, "pid=\#{Process.pid}", "rack_env=\#{ENV['RACK_ENV']}", "hooks=\#{$oribi_test}"].join("\\n")
      [200, { "content-type" => "text/plain" }, env["PATH_INFO"] == "/stream" ? Enumerator.new { |out| out << text } : [text]]
    }
  RUBY

  # The command of the seed's benchmark, except for its number of workers.
  def test_rhebok_with_its_options
    rackup("-s", "Rhebok", "-O", "MaxWorkers=2", "-O", "MaxRequestPerChild=0", "-O", "OobGC", "-E", "production") do |server|
      response = server.get("/a%20b")
      assert_equal 200, response.status
      assert_equal "/a%20b", fact(response, "PATH_INFO")
      assert_equal "false", fact(response, "rack.multithread")
      server.wait_for_workers(2)
      server.wait_for_log(/listening on .*workers: 2/)
    end
  end

  def test_every_name_of_the_server
    %w[oribi Oribi rhebok Rhebok].each do |name|
      rackup("-s", name, "-E", "none") { |server| assert_equal 200, server.get("/").status, name }
    end
  end

  def test_requests_and_workers_have_rhebok_s_defaults
    rackup("-s", "Rhebok", "-E", "production", "-O", "LogLevel=debug") { |server| server.wait_for_workers(5) }
  end

  def test_a_worker_is_replaced_after_its_requests
    rackup("-s", "Rhebok", "-E", "production", "-O", "MaxWorkers=1", "-O", "MaxRequestPerChild=2") do |server|
      first = fact(server.get("/"), "pid")
      Waiting.wait_until("another worker") { fact(server.get("/"), "pid") != first }
    end
  end

  def test_a_path_is_a_socket_for_everyone
    rackup("-s", "Rhebok", "-E", "production", "-O", "MaxWorkers=1", unix: true) do |server|
      assert_equal 0o777, File.stat(server.path).mode & 0o777
      response = server.get("/")
      assert_equal "127.0.0.1", fact(response, "REMOTE_ADDR")
      assert_equal 200, response.status
    end
  end

  def test_host_and_port_of_the_environment_of_the_app_are_told_apart
    rackup("-s", "Rhebok", "-E", "production", "-O", "MaxWorkers=1") do |server|
      response = server.get("/", "Host" => "127.0.0.1:#{server.port}")
      assert_equal server.port.to_s, fact(response, "SERVER_PORT")
      refute_match(/:/, fact(response, "SERVER_NAME"))
    end
  end

  # Sockets of start_server: all of them, and an address is host and port.
  def test_every_socket_from_above_is_served_and_named_right
    Dir.mktmpdir do |directory|
      path = File.join(directory, "x.sock")
      above = [TCPServer.new("127.0.0.1", 0), TCPServer.new("127.0.0.1", 0), UNIXServer.new(path)]
      ports = above.first(2).map { |socket| socket.addr[1] }
      env = { "SERVER_STARTER_PORT" => "127.0.0.1:#{ports[0]}=#{above[0].fileno};#{ports[1]}=#{above[1].fileno};" \
                                       "#{path}=#{above[2].fileno}" }
      rackup("-s", "Rhebok", "-E", "production", env: env, keep: above.to_h { |io| [io, io] }, wait: false) do
        ports.each do |port|
          response = get(TCPSocket.new("127.0.0.1", port), "Host" => "a:#{port}")
          assert_equal port.to_s, fact(response, "SERVER_PORT")
          refute_match(/:/, fact(response, "SERVER_NAME"))
        end
        assert_equal "127.0.0.1", fact(get(UNIXSocket.new(path)), "REMOTE_ADDR")
      end
    ensure
      above&.each(&:close)
    end
  end

  def test_content_of_unknown_length_is_chunked_when_it_is_asked_for
    { "Timeout=9" => nil, "ChunkedTransfer" => "chunked", "Chunked_Transfer=true" => "chunked" }.each do |option, expected|
      rackup("-s", "Rhebok", "-E", "production", "-O", "MaxWorkers=1", "-O", option) do |server|
        response = server.get("/stream")
        framing = [response.status, response["transfer-encoding"], response["connection"]]
        assert_equal [200, expected, expected ? nil : "close"], framing
        assert_match(/^rack_env=/, response.body)
      end
    end
    rackup("-s", "oribi", "-E", "production") { |server| assert_equal "chunked", server.get("/stream")["transfer-encoding"] }
  end

  def test_connections_are_kept
    rackup("-s", "Rhebok", "-E", "production", "-O", "MaxWorkers=1") do |server|
      connection = server.connection
      pids = Array.new(3) { fact(connection.get("/"), "pid") }
      assert_equal 1, pids.uniq.size
    end
  end

  def test_a_file_wins_over_rhebok_s_command_line_and_its_hooks_are_called
    file = <<~RUBY
      max_workers 1
      timeout 20
      $oribi_test = []
      before_fork { $oribi_test << "before:\#{Process.pid}" }
      after_fork { raise "no harm" }
      after_fork { $oribi_test << "after:\#{Process.pid}" }
    RUBY
    words = ["-s", "Rhebok", "-E", "production", "-O", "ConfigFile=rhebok.rb", "-O", "MaxWorkers=3"]
    rackup(*words, files: { "rhebok.rb" => file }) do |server|
      response = server.get("/")
      server.wait_for_workers(1)
      hooks = "[\"before:#{server.pid}\", \"after:#{fact(response, 'pid')}\"]"
      assert_equal hooks, fact(response, "hooks")
      server.wait_for_log(/no harm/)
      assert_match(/^oribi: configuration read from rhebok\.rb$/, server.log)
    end
  end

  def test_oribi_finds_its_file_and_the_command_line_wins
    files = { "oribi.rb" => "workers 2\nthreads 2\nfrobnicate\n" }
    rackup("-s", "oribi", "-E", "production", "-O", "Workers=1", files: files) do |server|
      assert_equal "true", fact(server.get("/"), "rack.multithread")
      server.wait_for_log(/workers: 1, threads: 2/)
      assert_match(/^oribi: configuration read from oribi\.rb$/, server.log)
      assert_match(/^oribi: oribi\.rb:3: `frobnicate` is not honoured/, server.log)
    end
  end

  def test_an_unknown_option_is_said_and_a_bad_one_ends
    rackup("-s", "oribi", "-O", "Wrkers=2", "-E", "production") do |server|
      server.wait_for_log(/^oribi: unknown setting `Wrkers`; did you mean `workers`\?$/)
    end
    server = TestServer.new(by: :rackup, app: APP, arguments: ["-O", "Workers=many"], wait: false)
    assert_equal 1, server.wait_end
    assert_match(/^oribi: bad value `many` for Workers: expected a whole number/, server.log)
  ensure
    server&.kill
  end

  def test_a_listener_that_is_taken_is_a_failure
    taken = TCPServer.new("127.0.0.1", 0)
    server = TestServer.new(by: :rackup, app: APP, arguments: ["-p", taken.addr[1].to_s], wait: false)
    assert_equal 1, server.wait_end
    assert_match(/Address already in use/i, server.log)
  ensure
    server&.kill
    taken&.close
  end

  def test_help_names_the_options
    { "Rhebok" => ["-O MaxWorkers=NUMBER", "-O ChunkedTransfer", "-O ConfigFile=PATH"],
      "oribi" => ["-O MaxRequests=NUMBER", "-O KeepaliveTimeout=TIME", "-O OobGC"] }.each do |name, options|
      command = [RbConfig.ruby, "-I", File.join(TestServer::HOST_ROOT, "lib"), "-S", "rackup", "-s", name, "-h"]
      text = IO.popen(TestServer::CLEAN, command, &:read)
      options.each { |option| assert_includes text, option }
      refute_match(/Warning:/, text)
    end
  end

  private

  def rackup(*arguments, **options, &block)
    TestServer.open(by: :rackup, app: APP, arguments: arguments, **options, &block)
  end

  def get(socket, fields = {})
    connection = Connection.new(socket)
    connection.get("/", fields)
  ensure
    connection.close
  end

  def fact(response, name)
    response.body[/^#{Regexp.escape(name)}=(.*)$/, 1]
  end
end
