# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# Rhebok's processes, listeners and configuration, as `rackup -s Rhebok` runs an app.
class RhebokProcessesTest < Minitest::Test
  APP = File.join(__dir__, "support/processes.ru")

  def rhebok(*options, app: APP, **others, &block)
    arguments = ["-s", "Rhebok", "-E", "production", *options.flat_map { |option| ["-O", option] }]
    TestServer.open(by: :rackup, app: app, arguments: arguments, **others, &block)
  end

  def ticks(pid)
    File.read("/proc/#{pid}/stat").split[13, 2].sum { |number| Integer(number, 10) }
  end

  def test_a_slow_stop_takes_one_worker_after_the_other
    rhebok("MaxWorkers=3", "SpawnInterval=1") do |server|
      server.wait_for_workers(3)
      server.signal(:USR1)
      [2, 1].each do |left|
        server.wait_for_workers(left)
        assert_equal 200, server.get("/pid").status
      end
      server.close_connections
      server.wait_end
      assert_equal 0, server.status.exitstatus
    end
  end

  def test_a_parent_that_waits_for_its_workers_uses_no_time
    rhebok("MaxWorkers=2") do |server|
      connection = server.connection
      connection.send_request("GET", "/slow/request")
      Waiting.wait_until("the slow request") { server.events("slow").any? }
      server.signal(:TERM)
      Waiting.wait_until("a parent at rest") do
        before = ticks(server.pid)
        sleep 0.3
        ticks(server.pid) == before
      end
      FileUtils.touch(File.join(server.directory, "request"))
      assert_equal "slow", connection.response.body
    end
  end

  def test_a_signal_when_a_worker_has_just_died
    rhebok("MaxWorkers=1", "SpawnInterval=60") do |server|
      server.wait_for_workers(1).each { |pid| Process.kill(:KILL, pid) }
      server.wait_for_workers(0)
      server.signal(:TERM)
      assert_equal 0, server.wait_end
    end
  end

  def test_hosts_and_ports_that_server_starter_names
    listener = TCPServer.new("127.0.0.1", 0)
    other = TCPServer.new("127.0.0.1", 0)
    ports = [listener, other].map { |socket| socket.local_address.ip_port }
    env = { "SERVER_STARTER_PORT" => "127.0.0.1:#{ports[0]}=#{listener.fileno};#{ports[1]}=#{other.fileno}" }
    app = 'run ->(env) { [200, {}, [env.values_at("SERVER_NAME", "SERVER_PORT").join(" ")]] }'
    rhebok("MaxWorkers=2", app: "#{app}\n", env: env, keep: { listener => listener, other => other }, wait: false) do |_server|
      seen = ports.map { |port| Connection.new(TCPSocket.new("127.0.0.1", port)).get("/", "Host" => "a:#{port}").body }
      assert_equal(ports.map { |port| "a #{port}" }, seen)
    end
  ensure
    [listener, other].each(&:close)
  end

  def test_addresses_of_the_newer_protocol
    app = 'run ->(env) { [200, {}, [env.values_at("REMOTE_ADDR", "REMOTE_PORT").join(" ")]] }'
    port = FreePort.next
    rhebok("MaxWorkers=1", "Host=::1", "Port=#{port}", app: "#{app}\n", wait: false) do |server|
      server.wait_for_log(/listening on/i)
      connection = Connection.new(TCPSocket.new("::1", port))
      assert_equal "::1 #{connection.socket.local_address.ip_port}", connection.get("/").body
      connection.close
    end
  end

  def test_every_word_of_the_configuration_can_be_used
    file = <<~RUBY
      max_workers 1
      reuseport true
      chunked_transfer true
      oobgc true
      max_gc_per_request 2
      min_gc_per_request 1
    RUBY
    rhebok("ConfigFile=rhebok.rb", files: { "rhebok.rb" => file }) do |server|
      5.times { assert_equal 200, server.get("/pid").status }
      server.wait_for_workers(1)
    end
  end

  def test_a_client_that_trickles_its_head_is_given_up
    rhebok("MaxWorkers=1", "Timeout=1") do |server|
      connection = server.connection
      connection.write("GET / HTTP/1.1\r\n")
      Waiting.wait_until("the server to give up") do
        connection.write("X-Slow: yes\r\n") == false || connection.socket.wait_readable(0.05)
      end
      assert_match(%r{\A(HTTP/1.1 408 .*)?\z}m, connection.rest)
    end
  end

  def test_workers_do_not_outlive_their_parent
    rhebok("MaxWorkers=2") do |server|
      workers = server.wait_for_workers(2)
      Process.kill(:KILL, server.pid)
      Waiting.wait_until("the workers to end") { workers.none? { |pid| File.exist?("/proc/#{pid}") } }
      TCPServer.new("127.0.0.1", server.port).close
    end
  end

  def test_hooks_run_in_the_parent_and_in_the_worker
    file = <<~RUBY
      max_workers 1
      before_fork { ENV["FROM_PARENT"] = Process.pid.to_s }
      after_fork { ENV["FROM_WORKER"] = Process.pid.to_s }
    RUBY
    app = 'run ->(_env) { [200, {}, [[ENV["FROM_PARENT"], ENV["FROM_WORKER"], Process.pid].join(" ")]] }'
    rhebok("ConfigFile=rhebok.rb", app: "#{app}\n", files: { "rhebok.rb" => file }) do |server|
      pid, = server.wait_for_workers(1)
      assert_equal "#{server.pid} #{pid} #{pid}", server.get("/").body
    end
  end

  def test_a_worker_answers_as_many_requests_as_it_is_told
    rhebok("MaxWorkers=1", "MaxRequestPerChild=6", "MinRequestPerChild=3") do |server|
      pids = []
      Waiting.wait_until("three workers") do
        pids << server.get("/pid").body
        pids.uniq.size >= 3
      end
      assert_operator pids.tally.values[0..-2].min, :>=, 3
    end
  end
end
