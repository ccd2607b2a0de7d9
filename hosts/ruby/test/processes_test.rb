# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# Workers: start, end and replacement.
class ProcessesTest < Minitest::Test
  APP = File.join(__dir__, "support/processes.ru")

  def serve(**settings, &block)
    TestServer.open(app: APP, settings: { workers: 1, **settings }, &block)
  end

  def events(server, name)
    server.events(name).map { |line| line.split.map { |word| Integer(word, exception: false) || word } }
  end

  def wait_for_other_workers(server, before)
    Waiting.wait_until(-> { "other workers than #{before}, there are #{server.workers}:\n#{server.log}" }) do
      now = server.workers
      now if now.size == before.size && (now & before).empty?
    end
  end

  def test_a_worker_says_what_it_is
    serve(app_name: "shop.ru") do |server|
      title = File.read("/proc/#{server.get("/").body}/cmdline").delete("\0").strip
      assert_equal "oribi: worker 1 shop.ru", title
    end
  end

  def test_a_worker_says_that_it_retires
    serve(app_name: "shop.ru", threads: 2) do |server|
      worker = server.get("/pid").body
      client = begin_slow(server, "retire")
      server.signal(:HUP)
      Waiting.wait_until(-> { "a worker that retires" }) { File.read("/proc/#{worker}/cmdline").include?("shop.ru (retiring)") }
      finish(server, "retire")
      assert_equal "slow", client.response.body
    end
  end

  # Begins a request that ends when `finish` is called with its name.
  def begin_slow(server, name)
    connection = server.connection
    connection.send_request("GET", "/slow/#{name}")
    Waiting.wait_until("the slow request") { server.events("slow").include?(name) }
    connection
  end

  def finish(server, name)
    FileUtils.touch(File.join(server.directory, name))
  end

  def test_the_app_is_loaded_once_by_the_parent
    serve(workers: 3) do |server|
      workers = server.wait_for_workers(3)
      # Behind an edge, one worker answers requests that are sent one after the other.
      answering = Waiting.wait_until("all workers to answer") do
        clients = Array.new(12) { Thread.new { Array.new(5) { server.get("/pid").body.to_i } } }
        seen = clients.flat_map(&:value).uniq
        seen if seen.size == 3
      end
      assert_equal workers.sort, answering.sort
      assert_equal [[server.pid]], events(server, "loaded")
      assert_equal server.pid.to_s, server.get("/ppid").body
    end
  end

  def test_workers_draw_different_random_numbers
    serve(workers: 4) do |server|
      seen = Array.new(40) { server.get("/random").body }
      assert_equal seen.size, seen.uniq.size
    end
  end

  # ---- Hooks ---------------------------------------------------------------------------------------------------------

  def test_hooks_run_in_their_processes_and_order
    serve(workers: 2) do |server|
      pid = server.pid
      workers = server.wait_for_workers(2)
      server.wait_for_events("server_ready", 1)
      server.wait_for_events("after_fork", 2)
      assert_equal [[1, pid], ["again", 1, pid], [2, pid], ["again", 2, pid]], events(server, "before_fork")
      assert_equal workers.sort, events(server, "after_fork").map(&:last).sort
      assert_equal [1, 2], events(server, "after_fork").map(&:first).sort
      assert_equal [[0, pid]], events(server, "server_ready")
      assert_empty events(server, "worker_stopping")
      server.close_connections
      server.signal(:TERM)
      server.wait_end
      assert_equal workers.sort, events(server, "worker_stopping").map(&:last).sort
    end
  end

  def test_before_fork_runs_again_for_each_replacement
    serve(workers: 1) do |server|
      worker, = server.wait_for_workers(1)
      server.wait_for_events("after_fork", 1)
      Process.kill(:KILL, worker)
      wait_for_other_workers(server, [worker])
      assert_equal [[1, server.pid]] * 2, events(server, "before_fork").reject { |event| event.first == "again" }
      server.wait_for_events("after_fork", 2)
    end
  end

  def test_at_exit_handlers_run_in_each_process
    serve(workers: 2) do |server|
      pid = server.pid
      workers = server.wait_for_workers(2)
      server.get("/pid")
      server.close_connections
      server.signal(:TERM)
      assert_equal 0, server.wait_end
      assert_equal [*workers, pid].sort, events(server, "at_exit").flatten.sort
    end
  end

  # ---- Replacing -----------------------------------------------------------------------------------------------------

  def test_a_worker_that_is_killed_is_replaced
    serve(workers: 2) do |server|
      before = server.wait_for_workers(2)
      before.each { |pid| Process.kill(:KILL, pid) }
      after = wait_for_other_workers(server, before)
      assert_includes after, server.get("/pid").body.to_i
      assert_match(/signal 9|SIGKILL|killed/i, server.log)
    end
  end

  def test_a_worker_whose_app_exits_answers_and_is_replaced
    serve(workers: 1) do |server|
      before = server.wait_for_workers(1)
      assert_equal 500, server.get("/exit").status
      after = wait_for_other_workers(server, before)
      assert_includes after, server.get("/pid").body.to_i
      server.wait_for_log(/exit\(3\) was called/)
    end
  end

  def test_a_worker_whose_app_ends_the_process_is_replaced
    serve(workers: 1, respawn_interval: "10ms") do |server|
      before = server.wait_for_workers(1)
      # No process is left to answer, except an edge.
      begin
        assert_equal 502, server.get("/exit!").status
      rescue Connection::Ended
        refute TestServer::EDGE
      end
      assert_includes wait_for_other_workers(server, before), server.get("/pid").body.to_i
    end
  end

  def test_a_worker_answers_its_share_of_requests_and_is_replaced
    serve(workers: 1, max_requests: 5) do |server|
      pids = []
      # A worker keeps answering until its successor is ready, which may take any time.
      Waiting.wait_until(-> { "three workers; these have answered: #{pids.tally}" }) do
        pids << server.get("/pid").body
        pids.uniq.size >= 3
      end
      counts = pids.tally.values
      assert_operator counts.min(counts.size - 1).last, :>=, 5, "no worker but the last leaves before it has had its share"
    end
  end

  def test_no_request_is_lost_while_workers_are_replaced
    serve(workers: 2, max_requests: 10, threads: 2) do |server|
      clients = Array.new(4) do
        Thread.new { Array.new(100) { server.get("/pid").status } }
      end
      assert_equal({ 200 => 400 }, clients.flat_map(&:value).tally)
    end
  end

  # ---- Signals -------------------------------------------------------------------------------------------------------

  def test_term_finishes_what_is_being_answered
    [1, 4].each do |threads|
      serve(workers: 2, threads: threads) do |server|
        connection = begin_slow(server, "request")
        idle = server.connection
        idle.get("/pid")
        server.signal(:TERM)
        server.wait_for_log(/TERM|stopping/i)
        # The supervisor logs the signal before the process that serves the clients gets it.
        assert_predicate idle, :ended?
        refute server.ended?
        finish(server, "request")
        response = connection.response
        assert_equal %w[slow close], [response.body, response["Connection"]]
        connection.close
        assert_equal 0, server.wait_end
      end
    end
  end

  def test_a_second_int_ends_at_once
    serve(workers: 2) do |server|
      connection = begin_slow(server, "never")
      server.signal(:INT)
      server.wait_for_log(/INT|stopping/i)
      Waiting.wait_until("the end") do
        server.signal(:INT) unless server.ended?
        server.ended?
      end
      assert connection.ended?
    end
  end

  def test_quit_is_graceful_too
    serve(workers: 2) do |server|
      connection = begin_slow(server, "request")
      server.signal(:QUIT)
      finish(server, "request")
      assert_equal "slow", connection.response.body
      connection.close
      assert_equal 0, server.wait_end
    end
  end

  def test_hup_replaces_the_workers_and_loses_nothing
    serve(workers: 2) do |server|
      before = server.wait_for_workers(2)
      connection = begin_slow(server, "request")
      server.signal(:HUP)
      Waiting.wait_until("a new worker") { (server.workers - before).any? }
      assert_equal 200, server.get("/pid").status
      finish(server, "request")
      assert_equal "slow", connection.response.body
      server.close_connections
      wait_for_other_workers(server, before)
    end
  end

  def test_ttin_and_ttou_change_the_number_of_workers
    serve(workers: 1) do |server|
      server.wait_for_workers(1)
      server.signal(:TTIN)
      server.wait_for_workers(2)
      server.signal(:TTIN)
      server.wait_for_workers(3)
      server.signal(:TTOU)
      server.wait_for_workers(2)
      assert_equal 200, server.get("/pid").status
    end
  end

  def test_a_trap_of_the_app_is_its_own
    [1, 4].each do |threads|
      serve(threads: threads) do |server|
        pid = server.get("/trap/first").body.to_i
        Process.kill(:USR2, pid)
        Waiting.wait_until("the trap") { server.events("trapped").any? }
        assert_equal pid.to_s, server.get("/pid").body
      end
    end
  end

  def test_signals_to_a_child_of_the_app_are_its_own
    [1, 4].each do |threads|
      serve(threads: threads) do |server|
        %i[TERM INT QUIT].each_with_index do |signal, index|
          child, worker = server.get("/child").body.split.map(&:to_i)
          server.wait_for_events("child", index + 1)
          Process.kill(signal, child)
          Waiting.wait_until("the end of the child by #{signal}") { !File.exist?("/proc/#{child}") }
          assert_includes events(server, "child_ensured"), [child] unless signal == :QUIT
          assert_equal worker.to_s, server.get("/pid").body
        end
      end
    end
  end

  def test_workers_do_not_outlive_their_parent
    serve(workers: 2) do |server|
      workers = server.wait_for_workers(2)
      Process.kill(:KILL, server.pid)
      Waiting.wait_until("the workers to end") { workers.none? { |pid| File.exist?("/proc/#{pid}") } }
      assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", server.port) }
    ensure
      server.ended?
    end
  end

  # ---- Where it listens ----------------------------------------------------------------------------------------------

  def test_several_listeners_at_once
    socket = File.join(Dir.tmpdir, "oribi-test-#{Process.pid}.sock")
    port = FreePort.next
    settings = { workers: 2, listen: ["127.0.0.1:#{port}", socket] }
    TestServer.open(app: APP, settings: settings, wait: false) do |server|
      server.wait_for_events("server_ready", 1)
      [TCPSocket.new("127.0.0.1", port), UNIXSocket.new(socket)].each do |client|
        connection = Connection.new(client)
        assert_equal 200, connection.get("/pid").status
        connection.close
      end
    end
    refute File.exist?(socket)
  end

  def test_sockets_that_server_starter_hands_down
    first = TCPServer.new("127.0.0.1", 0)
    path = File.join(Dir.tmpdir, "oribi-starter-#{Process.pid}.sock")
    second = UNIXServer.new(path)
    port = first.local_address.ip_port
    entries = "127.0.0.1:#{port}=#{first.fileno};#{path}=#{second.fileno}"
    env = { "SERVER_STARTER_PORT" => entries, "SERVER_STARTER_GENERATION" => "1" }
    TestServer.open(app: APP, settings: { workers: 2, listen: [] }, env: env, wait: false,
                    keep: { first => first, second => second }) do |server|
      2.times do |number|
        connection = Connection.new(number.zero? ? TCPSocket.new("127.0.0.1", port) : UNIXSocket.new(path))
        assert_equal 200, connection.get("/pid").status
        connection.close
      end
      assert_equal 0, server.stop
      assert File.exist?(path), "it belongs to the starter"
      assert Connection.new(TCPSocket.new("127.0.0.1", port)), "the listener must not be shut down"
    end
  ensure
    [first, second].compact.each(&:close)
    FileUtils.rm_f(path) if path
  end
end
