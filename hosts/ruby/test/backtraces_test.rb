# frozen_string_literal: true

require "minitest/autorun"
require "json"
require_relative "support/test_server"

# `oribi ctl backtrace`: where apps are, without their noticing.
class BacktracesTest < Minitest::Test
  APP = File.join(__dir__, "support/backtraces.ru")
  LINES = File.readlines(APP)
  # Ruby's frames name a method in one of two ways.
  SPIN = /\A#{Regexp.escape(APP)}:#{LINES.index { |line| line.include?("def spin") } + 2}:in [`'](?:Places[.#])?spin'\z/
  DEEP = /\A#{Regexp.escape(APP)}:#{LINES.index { |line| line.include?("def deep") } + 2}:in [`'](?:Places[.#])?deep'\z/

  # A server whose app waits for the end of the test.
  def serve(edge, **settings)
    common = { edge: edge, control: "control", respawn_interval: "10ms" }
    TestServer.open(app: APP, unix: true, settings: { **common, **settings }) do |server|
      @server = server
      Waiting.wait_until(-> { "the control socket; the log says:\n#{server.log}" }) { steered? }
      yield server
      refute_match(/panicked|\[BUG\]|cannot be reported/, server.log)
    ensure
      release
    end
  end

  def release
    FileUtils.touch(File.join(@server.directory, "release"))
  end

  def hold
    FileUtils.rm_f(File.join(@server.directory, "release"))
  end

  def control
    File.join(@server.directory, "control")
  end

  # The control socket comes some time after the listener.
  def steered?
    UNIXSocket.new(control).close
    true
  rescue Errno::ENOENT, Errno::ECONNREFUSED
    false
  end

  # A connection on which the server has been asked.
  def question(worker = nil)
    socket = UNIXSocket.new(control)
    socket.tap { socket.puts(["backtrace", worker].compact.join(" ")) }
  end

  def answer(socket)
    socket.wait_readable(Waiting::PATIENCE) or raise Waiting::TimeOver, "no answer"
    JSON.parse(socket.gets)
  ensure
    socket.close
  end

  # The output of ctl for the workers.
  def ask(worker = nil)
    answer(question(worker)).then { |said| said["workers"] || raise(ArgumentError, said["error"]) }
  end

  # Asks until the block returns something true for the answer, and returns that.
  def ask_until(what, worker = nil)
    seen = nil
    Waiting.wait_until(-> { "#{what}: #{JSON.generate(seen)}; the log says:\n#{@server.log}" }) { yield(seen = ask(worker)) }
  end

  # The threads that have reported their position.
  def telling(workers)
    workers.flat_map { |worker| worker["threads"] }.select { |thread| thread["frames"] }
  end

  # Begins requests, each on a connection of its own.
  def begin_requests(*targets)
    targets.map { |target| @server.connection.tap { |connection| connection.send_request("GET", target) } }
  end

  def bodies(connections)
    connections.map { |connection| connection.response.body }
  end

  # Threads whose app has reached its loop. Ruby's own methods also have frames.
  def spinning(workers)
    telling(workers).select { |thread| thread["frames"].first(2).any?(SPIN) }
  end

  %w[off on].each do |edge|
    define_method(:"test_a_loop_is_told_with_its_file_line_and_methods_and_goes_on_with_edge_#{edge}") do
      serve(edge) do |server|
        pid = server.get("/process").body.to_i
        { "deep" => [SPIN, DEEP, DEEP, DEEP], "strings" => [SPIN, /\Ahostile\\x1b\]0;name:7:in /],
          "evil" => [SPIN, /:in [`'](?:Places[.#])?evil[!-~]+'\z/], "blocks" => [SPIN] }.each do |name, patterns|
          request = begin_requests("/#{name}?secret")
          thread = ask_until(name) { |workers| spinning(workers).first if workers.first["trace"] == "told" }
          assert_equal [pid, "GET /#{name}"], thread.values_at("thread", "request")
          assert_empty thread["frames"].grep(/handle_interrupt/), "the server's own frames are not the app's"
          frames = thread["frames"].drop_while { |frame| !SPIN.match?(frame) }
          patterns.zip(frames) { |pattern, frame| assert_match pattern, frame }
          assert_equal 1, frames.grep(/:in [`'](?:Probe[.#])?call'\z/).size, "up to the app itself"
          release
          assert_equal [name], bodies(request)
          hold
        end
      end
    end

    define_method(:"test_of_endless_frames_some_are_told_with_edge_#{edge}") do
      serve(edge) do
        request = begin_requests("/endless")
        thread = ask_until("endless") { |workers| spinning(workers).find { |spins| spins["frames"].size > 99 } }
        assert_equal 100, thread["frames"].size
        assert_operator thread["left_out"], :>=, 200
        release
        assert_equal ["endless"], bodies(request)
      end
    end

    define_method(:"test_an_app_that_waits_is_told_and_waits_as_long_as_it_has_said_with_edge_#{edge}") do
      [1, 4].each do |threads|
        serve(edge, workers: 4 / threads, threads: threads) do
          requests = begin_requests("/sleeps", "/selects", "/joins", "/child")
          told = ask_until("all") { |workers| telling(workers).then { |those| those if those.size == 4 } }
          assert_equal %w[child joins selects sleeps], told.map { |thread| thread["request"].delete_prefix("GET /") }.sort
          20.times { ask }
          assert_empty bodies(requests).map(&:to_f).reject { |seconds| seconds >= 1.99 }, "nothing has woken it"
        end
      end
    end

    define_method(:"test_threads_tell_each_for_itself_with_edge_#{edge}") do
      serve(edge, threads: 3) do
        requests = begin_requests("/deep", "/blocks")
        told = ask_until("two") { |workers| spinning(workers).then { |those| those if those.size == 2 } }
        assert_equal ["GET /blocks", "GET /deep"], told.map { |thread| thread["request"] }.sort
        assert_equal 2, told.map { |thread| thread["thread"] }.uniq.size
        release
        assert_equal %w[deep blocks], bodies(requests)
      end
    end

    define_method(:"test_idle_stopped_and_killed_workers_with_edge_#{edge}") do
      serve(edge, workers: 2) do
        idle = ask_until("idle") { |workers| workers if workers.map { |worker| worker["trace"] } == %w[idle idle] }
        pid = idle.first["pid"]
        assert_equal([[2], [1]], [2, pid].map { |which| ask(which).map { |worker| worker["number"] } })
        assert_raises(ArgumentError) { ask(77) }
        Process.kill(:STOP, pid)
        ask_until("stopped", 1) { |workers| workers.first["trace"] == "stopped" }
        assert_equal 2, ask.size
        Process.kill(:CONT, pid)
        request = begin_requests("/deep")
        busy = ask_until("busy") { |workers| workers.find { |worker| spinning([worker]).any? } }
        questions = Array.new(5) { question }
        Process.kill(:KILL, busy["pid"])
        told = questions.flat_map { |asked| telling(answer(asked)["workers"]) }
        told.each { |thread| assert_operator thread["frames"].size, :>, 3, "whole or not at all" }
        # An edge may have given it to another worker.
        release
        ask_until("another worker") do |workers|
          workers.size == 2 && workers.all? { |worker| worker["trace"] == "idle" && worker["pid"] != busy["pid"] }
        end
        request.each(&:close)
      end
    end

    define_method(:"test_questions_under_load_leave_every_answer_right_with_edge_#{edge}") do
      [1, 3].each do |threads|
        serve(edge, workers: 2, threads: threads) do |server|
          over = false
          clients = Array.new(2) do |client|
            Thread.new do
              (0..).each do |number|
                break if over

                assert_equal "#{client}-#{number} 792", server.get("/quick?#{client}-#{number}").body
              end
            end
          end
          assert_equal([2], Array.new(30) { ask.size }.uniq)
          assert_equal([2], Array.new(10) { question }.map { |asked| answer(asked)["workers"].size }.uniq)
        ensure
          over = true
          clients.each(&:value)
        end
      end
    end

    define_method(:"test_an_exception_from_another_thread_is_not_lost_with_edge_#{edge}") do
      serve(edge) do
        5.times do
          request = begin_requests("/timeout").first
          Waiting.wait_until("the answer") { ask && request.socket.to_io.wait_readable(0) }
          assert_equal "timeout", request.response.body
        end
      end
    end
  end
end
