# frozen_string_literal: true

require_relative "native_server"

class NativeDeferredTest < Minitest::Test
  RACK3 = NativeServer::RACK.first >= 3

  def serve(app, **options, &block)
    NativeServer.open(app, **options, &block)
  end

  def test_after_reply_comes_after_the_response
    app = lambda do |env|
      gate = Queue.new
      env["rack.after_reply"] << -> { warn "first #{gate.size}" } << -> { raise "fails" } << -> { warn "last" }
      [200, {}, ["x"]]
    end
    serve(app) do |server|
      assert_equal "x", server.get("/").content
      server.wait_for_log(/first 0.*rack.after_reply failed.*fails.*last/m)
    end
  end

  def test_the_response_does_not_wait
    app = lambda do |env|
      path = env["QUERY_STRING"]
      env["rack.after_reply"] << -> { sleep 0.01 until File.exist?(path) } unless path.empty?
      [200, {}, ["x"]]
    end
    Dir.mktmpdir do |directory|
      serve(app) do |server|
        assert_equal "x", server.get("/?#{directory}/file").content
        File.write("#{directory}/file", "")
        assert_equal "x", server.get("/").content
      end
    end
  end

  def test_response_finished
    return unless RACK3 # it is younger

    app = lambda do |env|
      2.times do |number|
        env["rack.response_finished"] << lambda do |its_env, status, headers, error|
          warn "#{number} #{its_env.equal?(env)} #{status.inspect} #{headers.inspect} #{error.inspect}"
        end
      end
      raise "wrong" if env["PATH_INFO"] == "/raise"

      [201, { "x" => "y" }, ->(stream) { stream.close }]
    end
    serve(app) do |server|
      server.get("/")
      server.wait_for_log(/1 true 201 \{"x" ?=> ?"y"\} nil\n0 true 201/)
      server.get("/raise")
      server.wait_for_log(/1 true nil nil #<RuntimeError: wrong>\n0 true nil nil #</)
    end
  end

  def test_exit_after_the_response_replaces_the_worker
    app = lambda do |env|
      env["rack.after_reply"] << -> { exit(4) } if env["PATH_INFO"] == "/exit"
      [200, {}, [Process.pid.to_s]]
    end
    serve(app) do |server|
      before = server.get("/exit").content
      server.wait_until("another worker") { server.get("/").content != before }
    end
  end

  COLLECTIONS = ->(_) { [200, {}, ["#{Process.pid} #{GC.stat(:major_gc_count)}"]] }

  # Returns the number of garbage collections of the worker, once the worker is idle: it puts a collection off while clients
  # wait.
  def collections(server)
    worker, count = server.get("/").content.split
    server.wait_until("the worker to rest") { File.read("/proc/#{worker}/stat").include?(") S ") }
    count.to_i
  end

  def test_garbage_is_collected_every_so_many_requests
    serve(COLLECTIONS, out_of_band: { every: 3 }) do |server|
      counts = Array.new(10) { collections(server) }
      assert_equal 3, counts.last - counts.first, counts.inspect
    end
  end

  def test_the_interval_is_drawn_for_each_worker
    serve(COLLECTIONS, out_of_band: { every: 4, at_random_from: 2 }) do |server|
      counts = Array.new(13) { collections(server) }
      assert_includes 3..6, counts.last - counts.first, counts.inspect
    end
  end

  def test_collecting_leaves_a_disabled_collector_disabled
    app = lambda do |env|
      GC.disable if env["PATH_INFO"] == "/disable"
      [200, {}, [GC.disable.to_s]]
    end
    serve(app, out_of_band: { every: 1 }) do |server|
      server.get("/disable")
      assert_equal "true", server.get("/").content
    end
  end

  def test_hooks
    hooks = %i[before_fork after_fork worker_stopping server_ready out_of_band].to_h do |moment|
      [moment, [->(*worker) { warn "#{moment} #{worker.inspect}" }, ->(*) { raise "#{moment} fails" }]]
    end
    serve(->(_) { [200, {}, []] }, settings: { workers: 2 }, hooks: hooks) do |server|
      server.get("/")
      server.wait_for_log(/out_of_band \[[12]\]/)
      server.wait_for_log(/after_fork \[2\]/)
      server.wait_for_log(/after_fork \[1\]/)
      server.terminate
      log = server.log
      [/before_fork \[1\]/, /before_fork \[2\]/, /worker_stopping \[2\]/, /server_ready \[\]/].each do |word|
        assert_match word, log
      end
      hooks.each_key { |moment| assert_match(/a hook of #{moment} failed|an #{moment} hook failed/, log) }
    end
  end

  def test_workers_do_not_draw_the_same_numbers
    app = ->(_) { [200, {}, ["#{Process.pid} #{rand(1 << 60)}"]] }
    serve(app, settings: { workers: 2, max_requests: 1 }) do |server|
      answers = server.wait_until("two workers") do
        @answers = [*@answers, server.get("/").content.split]
        @answers.uniq(&:first) if @answers.uniq(&:first).size > 3
      end
      assert_equal answers.map(&:last).uniq.size, answers.size
    end
  end
end
