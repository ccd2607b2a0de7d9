# frozen_string_literal: true

require "socket"
require_relative "test_server"

# Sends mixed requests, thousands at a time, and watches the memory and descriptors of the worker that answers them.
class LeakCheck
  # Of forty requests twenty have content, and of those ten are given up by their client in the middle.
  PLAIN = %w[
    /bodies/array /bodies/each?id=1 /bodies/to_ary?id=1 /bodies/values /stream/write?id=1 /stream/length /stream/thread?id=1
    /files/sized?bytes=3000 /fields/lines /fields/many /fields/pairs /hints /after_reply?id=1 /raise /raise/throw
    /garbage?kind=body-object /bodies/raises-at-once?id=1 /keep?x /environment /input/presence
  ].freeze
  WITH_CONTENT = %w[
    /input/read /input/digest /input/each /input/late /input/unread /input/echo /stream/reads /environment /keep?y /input/read
  ].freeze
  ABORTED = 10
  ROUND = PLAIN.size + WITH_CONTENT.size + ABORTED

  # Content of more than this goes through a file.
  BUFFER = 4096

  APP = <<~RUBY.freeze
    require "#{__dir__}/probe/probe"
    module Probe
      def self.note(*); end
      on("/collect") do |_env|
        2.times { GC.start }
        text("collected")
      end
      on("/end") { |_env| text("end of round") }
    end
    run Probe
  RUBY

  attr_reader :server, :requests

  def initialize(threads:)
    @threads = threads
    settings = { workers: 1, threads: threads, body_buffer_size: BUFFER, log_level: "off" }
    @server = TestServer.new(app: APP, settings: settings)
    @worker, = @server.wait_for_workers(1)
    @socket = connect
    @requests = 0
    @texts = []
  end

  # Sends so many requests, in rounds.
  def run(count)
    stop = @requests + count
    run_round while @requests < stop
  end

  # Resident KiB of the worker once its garbage is collected.
  def memory
    raise "the worker was replaced" unless @server.workers == [@worker]

    @server.get("/collect")
    @server.close_connections
    Integer(File.read("/proc/#{@worker}/status")[/^VmRSS:\s+(\d+)/, 1], 10)
  end

  def descriptors
    Dir.children("/proc/#{@worker}/fd").size
  end

  # Returns when the worker has no more than `most` open descriptors, and one more for each thread: the stack of a thread hides
  # the file of its last request from the garbage collector. That takes until the server has seen that its clients have gone.
  def wait_for_descriptors(most)
    Waiting.wait_until(-> { "no more than #{most} descriptors, there are #{descriptors}" }) do
      descriptors <= most + @threads
    end
  end

  # True as soon as the worker uses no processor time, as a worker does that has nothing to do.
  def idle?
    before = ticks
    sleep 0.5
    ticks == before
  end

  def stop
    @socket.close
    @server.stop
  end

  private

  def connect
    TCPSocket.new("127.0.0.1", @server.port).tap { |socket| socket.setsockopt(:TCP, :NODELAY, true) }
  end

  # User and system time, in hundredths of a second.
  def ticks
    File.read("/proc/#{@worker}/stat").split[13, 2].sum { |number| Integer(number, 10) }
  end

  def run_round
    number = (@requests / ROUND) % 60
    @texts[number] ||= text(number)
    ABORTED.times { |place| abort_request(place) }
    check(exchange(@texts[number]))
    @requests += ROUND
  end

  def text(number)
    fields = { "User-Agent" => "x" * (number % 50) }
    fields["Cookie"] = "session=#{number}" if number.odd?
    fields["X-Custom-#{number}"] = "value" if (number % 3).zero?
    content = "line\n" * ((number % 20).zero? ? 2000 : 5)
    [*PLAIN.map { |target| Connection.text("GET", target, fields) },
     *WITH_CONTENT.map { |target| Connection.text("POST", target, fields, content) },
     Connection.text("GET", "/end", fields)].join
  end

  # A client that leaves in the middle of its content, in memory or on its way to a file.
  def abort_request(place)
    size = place.even? ? 1000 : BUFFER * 3
    socket = connect
    socket.write("POST /input/read HTTP/1.1\r\nHost: a\r\nContent-Length: #{size}\r\n\r\n#{"c" * (size / 2)}")
    socket.setsockopt(Socket::Option.linger(true, 0)) if place.odd?
    socket.close
  end

  # Sends and receives at the same time, for a server takes no more requests while its responses are not read.
  def exchange(text)
    received = String.new(capacity: 1 << 20)
    until text.empty? && received.end_with?("end of round")
      readable, writable = IO.select([@socket], text.empty? ? nil : [@socket], nil, Waiting::PATIENCE)
      raise Waiting::TimeOver, "no answer; so far: #{received[-200..]}" unless readable

      text = text.byteslice(@socket.write_nonblock(text)..) if writable.any?
      received << @socket.read_nonblock(1 << 18) if readable.any?
    end
    received
  end

  def check(received)
    statuses = received.scan(%r{HTTP/1\.1 (\d\d\d) }).flatten.tally
    expected = { "200" => PLAIN.size + WITH_CONTENT.size + 1 - 4, "500" => 4, "103" => 2 }
    raise "unexpected answers: #{statuses}" unless statuses == expected
  end
end
