# frozen_string_literal: true

require_relative "native_server"
require "io/wait"
require "timeout"

class NativeStreamTest < Minitest::Test
  RACK3 = NativeServer::RACK.first >= 3

  def serve(app, **options, &block)
    NativeServer.open(app, **options, &block)
  end

  # ---- Bodies that are called ----

  def test_a_body_that_is_called
    body = lambda do |stream|
      written = stream.write("a", "b", 1)
      stream << "c" << nil << "d"
      stream.flush
      stream.write(written.to_s)
      stream.close
      stream.close
    end
    serve(->(_) { [200, { "x-a" => "1" }, body] }) do |server|
      response = server.get("/")
      assert_equal [200, "1", "ab1cd3"], [response.status, response["x-a"], response.content]
    end
  end

  def test_each_wins_over_call
    body = ["each"].each
    def body.call(stream) = stream.write("call")
    serve(->(_) { [200, {}, body] }) { |server| assert_equal "each", server.get("/").content }
  end

  def test_a_stream_reads_the_content
    body = lambda do |stream|
      stream.write(stream.read(2), "-", stream.read, "-", stream.read(1).inspect)
      stream.close_read
      stream.write(stream.read.inspect, stream.closed?.to_s)
      stream.close_write
    end
    serve(->(_) { [200, {}, body] }) do |server|
      assert_equal 'he-llo-nil""false', server.post("/", "hello").content
      assert_equal '-nil""false', server.get("/").content.sub("--", "-")
    end
  end

  def test_a_closed_stream_takes_no_more
    body = lambda do |stream|
      stream.close
      begin
        stream.write("x")
      rescue IOError => e
        warn "refused: #{e.message}"
      end
    end
    serve(->(_) { [200, {}, body] }) do |server|
      assert_equal "", server.get("/").content
      server.wait_for_log(/refused: closed stream/)
    end
  end

  def test_a_stream_that_fails_is_cut
    body = lambda do |stream|
      stream.write("x" * 10)
      raise "in the middle"
    end
    serve(->(_) { [200, {}, body] }) do |server|
      socket = server.connect
      socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      text = socket.read
      assert_includes text, "xxx"
      refute_includes text, "0\r\n\r\n"
      server.wait_for_log(/in the middle/)
    end
  end

  def test_a_client_that_has_gone_is_a_broken_pipe
    body = lambda do |stream|
      loop { stream.write("x" * 1_000_000) }
    rescue Errno::EPIPE
      warn "gone"
    end
    serve(->(_) { [200, {}, body] }) do |server|
      # Some go while the app writes, and some while it waits for them.
      20.times do |number|
        socket = server.connect
        socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        socket.readpartial(10)
        socket.close
        server.wait_until("the end of the stream") { server.log.scan("gone").size > number }
      end
    end
  end

  # Writes without end, until it may not.
  def self.write_for_a_moment(&write)
    Timeout.timeout(0.2) { loop { write.call("x" * 100_000) } }
  rescue Timeout::Error
    warn "timed out"
  end

  def test_a_slow_client_does_not_outlast_a_timeout
    called = ->(stream) { NativeStreamTest.write_for_a_moment { |piece| stream.write(piece) } }
    each = Enumerator.new { |yielder| NativeStreamTest.write_for_a_moment { |piece| yielder << piece } }
    [called, each].product([1, 3]) do |body, threads|
      serve(->(_) { [200, {}, body] }, settings: { threads: threads, output_spool_size: "off" }) do |server|
        socket = server.connect
        socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        server.wait_for_log(/timed out/)
        socket.close
      end
    end
  end

  def test_a_stream_that_another_thread_goes_on_with
    closed = Queue.new
    app = lambda do |env|
      next [200, {}, [closed.size.to_s]] if env["PATH_INFO"] == "/closed"

      body = lambda do |stream|
        Thread.new do
          3.times { |number| stream.write(number.to_s) && Thread.pass }
          stream.close
        end
      end
      body.define_singleton_method(:close) { closed << true }
      [200, {}, body]
    end
    serve(app) do |server|
      20.times { assert_equal "012", server.get("/").content }
      assert_equal "20", server.get("/closed").content
    end
  end

  # The body's close is also called.
  def test_a_stream_that_nobody_has_when_its_body_returns_is_complete
    [1, 3].each do |threads|
      closed = Queue.new
      app = lambda do |env|
        next [200, {}, [closed.size.to_s]] if env["PATH_INFO"] == "/closed"

        body = ->(stream) { 3.times { |number| stream.write(number.to_s) } }
        body.define_singleton_method(:close) { closed << true }
        [200, {}, body]
      end
      serve(app, settings: { threads: threads }) do |server|
        20.times { assert_equal "012", server.get("/").content }
        assert_equal "20", server.get("/closed").content
      end
    end
  end

  def test_a_stream_that_is_dropped_behind_its_call_is_cut
    app = lambda do |env|
      GC.start if env["PATH_INFO"] == "/collect"
      later = ->(stream) { Thread.new { stream.write("x") } }
      env["PATH_INFO"] == "/" ? [200, {}, later] : [200, {}, []]
    end
    serve(app) do |server|
      sockets = Array.new(10) { server.connect }
      sockets.each { |socket| socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n") }
      server.wait_until("the log's word") do
        server.get("/collect")
        server.log.include?("the app dropped a stream without closing it")
      end
      refute_includes sockets.first.read, "0\r\n\r\n"
    end
  end

  # ---- Hijacking ----

  def test_full_hijack
    app = lambda do |env|
      io = env["rack.hijack"].call
      raise "not the same" unless env["rack.hijack"].call.equal?(io)
      raise "no hijack_io" if !RACK3 && !env["rack.hijack_io"]

      io.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n#{io.class.name[0, 2]}")
      io.close
      [500, {}, ["ignored"]]
    end
    serve(app) { |server| assert_equal "UN", server.get("/").content }
    serve(Rack::Lint.new(app)) { |server| assert_equal "UN", server.get("/").content } unless RACK3
  end

  def test_a_hijacked_socket_can_be_kept
    app = lambda do |env|
      io = env["rack.hijack"].call
      Thread.new do
        io.write("ready\n")
        while io.wait_readable(10) && (line = io.gets)
          io.write(line.upcase)
          break if line == "end\n"
        end
        io.close
      end
      nil
    end
    serve(app) do |server|
      socket = server.connect
      socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      assert_equal "ready\n", socket.gets
      %w[one two end].each do |word|
        socket.puts(word)
        assert_equal "#{word.upcase}\n", socket.gets
      end
      assert_nil socket.gets
      refute_match(/error/, server.log)
    end
  end

  def test_an_app_that_raises_after_hijacking
    app = lambda do |env|
      env["rack.hijack"].call.write("mine")
      raise "after that"
    end
    serve(app) do |server|
      socket = server.connect
      socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      server.wait_for_log(/after that/)
      assert_equal "mine", socket.readpartial(100)
    end
  end

  def test_partial_hijack
    callable = lambda do |io|
      io.write("from the callable")
      io.flush
      io.close
    end
    app = ->(_) { [202, { "x-a" => "1", "rack.hijack" => callable }, ["ignored"]] }
    [app, Rack::Lint.new(app)].each do |each_app|
      serve(each_app) do |server|
        response = server.get("/")
        assert_equal [202, "1", "from the callable", "close"],
                     [response.status, response["x-a"], response.content, response["connection"]]
        assert_nil response["rack.hijack"]
      end
    end
  end

  def test_partial_hijack_with_an_invalid_header
    app = ->(_) { [200, { "x-a" => "b\rc", "rack.hijack" => ->(io) { io.close } }, []] }
    serve(app) do |server|
      assert_equal 500, server.get("/").status
      server.wait_for_log(/x-a/)
    end
  end

  def test_an_upgrade
    return unless RACK3 # rack.protocol is younger

    app = lambda do |env|
      body = lambda do |stream|
        stream.write(stream.gets.upcase)
        stream.close
      end
      [101, { "rack.protocol" => env["rack.protocol"].first }, body]
    end
    serve(app) do |server|
      socket = server.connect
      socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo, other\r\n\r\n")
      head = +""
      head << socket.gets until head.end_with?("\r\n\r\n")
      socket.puts("hello")
      assert_equal "HELLO\n", socket.read
      assert_match(%r{\AHTTP/1.1 101 Switching Protocols\r\n}, head)
      assert_match(/^Upgrade: echo\r$/, head)
      assert_match(/^Connection: Upgrade\r$/i, head)
    end
  end

  # ---- Early hints ----

  def test_early_hints
    app = lambda do |env|
      env["rack.early_hints"].call({ "link" => "</a.css>; rel=preload\n</b.js>; rel=preload" })
      [200, {}, ["done"]]
    end
    [app, Rack::Lint.new(app)].each_with_index do |each_app, index|
      next if index == 1 && RACK3 # there, a line feed in a value is wrong

      serve(each_app) do |server|
        socket = server.connect
        socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        hints, rest = socket.read.split("\r\n\r\n", 2)
        assert_equal "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\nlink: </b.js>; rel=preload", hints
        assert_equal "done", server.parse(rest).content
      end
    end
    serve(->(env) { [200, {}, [env.key?("rack.early_hints").to_s]] }, early_hints: false) do |server|
      assert_equal "false", server.get("/").content
    end
  end

  def test_invalid_early_hints_are_logged
    serve(->(env) { env["rack.early_hints"].call({ "a b" => "c" }) || [200, {}, []] }) do |server|
      assert_equal 200, server.get("/").status
      server.wait_for_log(/early hints were not sent/)
    end
  end
end
