# frozen_string_literal: true

require_relative "native_server"
require "io/wait"

# Apps that wait for slow clients, and the other threads of the worker meanwhile.
class NativePausesTest < Minitest::Test
  # More bytes than the server and the kernel keep for a client that does not read, but only so many more that the client can
  # read the difference at once.
  LARGE = "x" * 500_000
  SMALL = "x" * 65_536

  def setup
    @directory = Dir.mktmpdir("pauses")
  end

  def teardown
    FileUtils.rm_rf(@directory)
  end

  def path(name)
    File.join(@directory, name)
  end

  # Lets the apps that wait for `name` continue.
  def open_gate(name)
    FileUtils.touch(path(name))
  end

  def wait_at_gate(name)
    FileUtils.touch(path("#{name}.reached"))
    sleep 0.002 until File.exist?(path(name))
  end

  # The number of pieces poured so far.
  def poured
    File.size?(path("poured")).to_i
  end

  # Waits at a gate, pours pieces, or answers at once.
  def app
    lambda do |env|
      case env["PATH_INFO"]
      when "/gate" then wait_at_gate("gate")
      when "/large" then return [200, {}, pour(LARGE, 1)]
      when "/small" then return [200, {}, pour(SMALL, 500)]
      when "/ticks" then return [200, {}, ->(stream) { Thread.new { tick(stream) } }]
      end
      [200, {}, ["fine"]]
    end
  end

  def pour(piece, count)
    Enumerator.new do |pieces|
      count.times do
        pieces << piece
        File.write(path("poured"), ".", mode: "a")
      end
      wait_at_gate("last")
      pieces << "last"
    end
  end

  def tick(stream)
    loop do
      stream.write(".")
      sleep 0.001
    end
  rescue SystemCallError, IOError
    stream.close
  end

  def request(server, path)
    server.connect.tap { |socket| socket.write("GET #{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") }
  end

  def assert_answers(socket)
    # Half of the time for which a thread rests without a call.
    assert socket.wait_readable(15), "nobody waits for requests"
    assert_includes socket.read, "fine"
  end

  def assert_whole(socket)
    assert socket.read.end_with?("last\r\n0\r\n\r\n")
  end

  def test_a_thread_that_waited_for_news_in_its_pause_leaves_that_to_another
    NativeServer.open(app, settings: { threads: 2, output_spool_size: "off" }) do |server|
      other = request(server, "/gate")
      server.wait_until("the gate") { File.exist?(path("gate.reached")) }
      # Now the thread that pauses is the only one left to wait for news.
      slow = request(server, "/large")
      assert slow.wait_readable(30)
      open_gate("gate")
      assert_answers(other)
      server.wait_until("the end of the pause") do
        slow.readpartial(1 << 20) if slow.wait_readable(0)
        File.exist?(path("last.reached"))
      end
      assert_answers(request(server, "/"))
      open_gate("last")
      assert_whole(slow)
    end
  end

  # The server takes the chunks of such a text one by one, and waits for the client between them.
  def test_what_other_threads_do_to_a_text_changes_nothing_that_is_sent
    text = "#{"10000\r\n#{SMALL}\r\n" * 30}0\r\n\r\n"
    app = lambda do |env|
      next [200, { "transfer-encoding" => "chunked" }, [text].each] if env["PATH_INFO"] == "/text"

      text.tr!("x", "!")
      [200, {}, ["fine"]]
    end
    NativeServer.open(app, settings: { threads: 2, output_spool_size: "off" }) do |server|
      slow = request(server, "/text")
      assert slow.wait_readable(30)
      assert_answers(request(server, "/"))
      assert_equal 0, slow.read.count("!")
    end
  end

  def test_what_other_threads_do_ends_no_pause
    NativeServer.open(app, settings: { output_spool_size: "off" }) do |server|
      ticks = request(server, "/ticks")
      slow = request(server, "/small")
      assert slow.wait_readable(30)
      300.times { ticks.readpartial(64) }
      assert_operator poured, :<, 50
      open_gate("last")
      assert_whole(slow)
    ensure
      ticks&.close
    end
  end
end
