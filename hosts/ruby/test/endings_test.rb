# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/connection"
require_relative "support/test_server"
require_relative "support/waiting"

# A worker that ends normally ends as a Ruby program does, for every cause.
class EndingsTest < Minitest::Test
  APP = <<~'RUBY'
    require "tempfile"
    def note(text) = File.open(ENV.fetch("PROBE_EVENTS"), "a") { |file| file.syswrite("#{text}\n") }
    at_exit { note("loaded #{Process.pid}") }
    at_exit { sleep } if ENV["HANGS"]
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/prepare"
        unless $buffered
          $buffered = File.open(File.join(ENV.fetch("TEST_DIRECTORY"), "buffered.#{Process.pid}"), "w")
          $buffered.write("kept")
          $temporary = Tempfile.new("oribi-ending")
          note("temporary #{$temporary.path}")
          pid = Process.pid
          ObjectSpace.define_finalizer($finalized = Object.new, proc { note("finalized #{pid}") })
          at_exit { note("handled #{pid}") }
        end
        [200, {}, [Process.pid.to_s]]
      when "/exit" then exit(3)
      when "/background"
        started = Queue.new
        Thread.new do
          started.push(1)
          sleep
        ensure
          note("ensured #{Process.pid}")
        end
        started.pop
        [200, {}, [Process.pid.to_s]]
      when "/fork"
        fork { note("child #{Process.pid}") }.then { |pid| Process.wait(pid) }
        fork
        [200, {}, [Process.pid.to_s]]
      else [200, {}, [Process.pid.to_s]]
      end
    end)
  RUBY

  WAYS = {
    term: ->(server) { server.signal(:TERM) },
    quit: ->(server) { server.signal(:QUIT) },
    hup: ->(server) { server.signal(:HUP) },
    recycling: ->(server) { 10.times { server.get("/") } },
    exit: ->(server) { server.get("/exit") }
  }.freeze

  WAYS.each do |name, way|
    [1, 3].each do |threads|
      define_method(:"test_everything_is_kept_by_#{name}_with_#{threads}_threads") do
        settings = { workers: 1, threads: threads }
        settings[:max_requests] = 5 if name == :recycling
        TestServer.open(app: APP, settings: settings) do |server|
          pid = server.get("/prepare").body
          server.close_connections
          way.call(server)
          wait_for_end(server, pid)
          check_end(server, pid)
        end
      end
    end
  end

  def test_threads_of_the_app_run_their_ensure
    TestServer.open(app: APP) do |server|
      pid = server.get("/background").body
      server.finish
      assert_equal [pid], server.events("ensured")
    end
  end

  def test_a_child_that_the_app_forked_does_not_end_as_the_worker_does
    TestServer.open(app: APP) do |server|
      pid = server.get("/prepare").body
      assert_equal pid, server.get("/fork").body
      # The block's child is Ruby's own to end, and so are the handlers that it has inherited.
      assert_equal [server.events("child").first], server.events("loaded")
      server.finish
      assert_equal 1, server.events("loaded").count(pid)
    end
  end

  def test_an_end_that_hangs_is_cut_off
    TestServer.open(app: APP, settings: { workers: 1, graceful_timeout: 1 }, env: { "HANGS" => "1" }) do |server|
      worker, = server.wait_for_workers(1)
      server.close_connections
      server.signal(:HUP)
      Waiting.wait_until("the end of the worker") { !File.exist?("/proc/#{worker}") }
      Process.kill(:KILL, server.pid)
    end
  end

  def test_the_pid_file_of_rackup_stays_when_a_worker_ends
    TestServer.open(app: APP, by: :rackup, arguments: ["-P", "rackup.pid", "-O", "workers=1"]) do |server|
      path = File.join(server.directory, "rackup.pid")
      worker = server.get("/").body
      server.close_connections
      server.signal(:HUP)
      ended = -> { server.events("loaded").include?(worker) && !File.exist?("/proc/#{worker}") }
      Waiting.wait_until("the end of the worker", &ended)
      assert_equal server.pid.to_s, File.read(path)
      server.finish
      refute_path_exists path
    end
  end

  private

  def wait_for_end(server, pid)
    Waiting.wait_until(-> { "the end of #{pid}; the log says:\n#{server.log}" }) do
      server.ended?
      !File.exist?("/proc/#{pid}")
    end
  end

  def check_end(server, pid)
    %w[handled loaded finalized].each { |event| assert_equal 1, server.events(event).count(pid), "#{event} in #{pid}" }
    assert_equal "kept", File.read(File.join(server.directory, "buffered.#{pid}"))
    temporary = server.events("temporary").find { |path| path.include?("-#{pid}-") }
    refute_path_exists temporary
  end
end
