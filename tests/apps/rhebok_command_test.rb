# frozen_string_literal: true

# Property: the command line that Rhebok was run and measured with works unchanged, behind a proxy on a Unix socket and under
# start_server, which replaces a generation under load without a lost request.

require "minitest/autorun"
$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "proxy"
require "server_process"
require "steady_load"

class RhebokCommandTest < Minitest::Test
  COMMAND = %w[rackup -s Rhebok -O MaxWorkers=8 -O MaxRequestPerChild=0 -E production].freeze
  APP = File.expand_path("rhebok", __dir__)
  LIBRARY = { "RUBYLIB" => "#{ServerProcess::ROOT}/hosts/ruby/lib" }.freeze

  def setup
    @folder = Dir.mktmpdir
    @socket = "#{@folder}/app.sock"
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def start(*command, **address)
    @server = ServerProcess.new(*command, **address, directory: APP, environment: LIBRARY)
  end

  def assert_ends(server, signal = :TERM)
    assert_predicate server.stop(signal), :success?, server.log_end
  end

  def test_behind_a_proxy_on_a_unix_socket
    start(*COMMAND, "-O", "Path=#{@socket}", "config.ru", socket: @socket)
    proxy = Proxy.before(@server)
    load = SteadyLoad.new(proxy, "/")
    load.run(2000)
    load.stop
    assert_empty load.losses
    assert_equal 8, @server.workers.size, "workers of MaxWorkers=8"
    assert_ends(proxy, :QUIT)
    assert_ends(@server)
  end

  def test_under_start_server_behind_a_proxy
    start("start_server", "--path", @socket, "--interval", "1", "--", *COMMAND, "config.ru", socket: @socket)
    proxy = Proxy.before(@server)
    assert_generations_change_without_a_loss(proxy)
    assert_ends(proxy, :QUIT)
    assert_ends(@server)
  end

  def test_under_start_server_on_a_port
    port = FreePort.next
    start("start_server", "--port", "127.0.0.1:#{port}", "--interval", "1", "--", *COMMAND, "config.ru", port:)
    assert_generations_change_without_a_loss(@server)
    assert_ends(@server)
  end

  # The command that Rhebok's manual recommends, which never worked: its workers all ended a second later.
  def test_a_slow_restart_under_start_server
    port = FreePort.next
    command = %w[rackup -s Rhebok -O MaxWorkers=3 -O MaxRequestPerChild=0 -O SpawnInterval=1 -E production config.ru]
    start("start_server", "--port", "127.0.0.1:#{port}", "--interval", "1", "--signal-on-hup", "USR1", "--", *command, port:)
    assert_generations_change_without_a_loss(@server, 3)
    assert_equal 2, @server.log_text.scan("stopping slowly: 3 workers, one every 1 s").size
    assert_ends(@server)
  end

  def test_threads_under_start_server
    port = FreePort.next
    command = %w[rackup -s oribi -O Workers=2 -O Threads=5 -E production config.ru]
    start("start_server", "--port", "127.0.0.1:#{port}", "--interval", "1", "--", *command, port:)
    assert_generations_change_without_a_loss(@server, 2)
    assert_ends(@server)
  end

  private

  # HUP makes start_server start the next generation and end this one, twice.
  def assert_generations_change_without_a_loss(front, workers = 8)
    load = SteadyLoad.new(front, "/")
    load.run(200)
    assert_match(/generation 1$/, load.latest)
    [2, 3].each do |generation|
      # With an interval between them, they are not all there at first.
      assert ServerProcess.wait_until { workers_below_start_server.size == workers }, @server.log_end
      before = workers_below_start_server
      @server.signal(:HUP)
      assert ServerProcess.wait_until { (workers_below_start_server & before).empty? }, @server.log_end
      load.run(500)
      assert_match(/generation #{generation}$/, load.latest)
    end
    assert ServerProcess.wait_until { workers_below_start_server.size == workers }, @server.log_end
    load.stop
    assert_empty load.losses
  end

  # Without the supervisors, which have no children either when their workers are not there yet, or no longer.
  def workers_below_start_server
    @server.workers - @server.children
  end
end
