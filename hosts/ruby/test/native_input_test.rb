# frozen_string_literal: true

require "tempfile"
require_relative "native_server"

class NativeInputTest < Minitest::Test
  # The results of `read` of rack.input, for content in memory and in a file.
  def results(content, read)
    app = ->(env) { [200, {}, [read.call(env["rack.input"]).inspect]] }
    small = NativeServer.open(app) { |server| server.post("/", content).content }
    large = NativeServer.open(app, settings: { body_buffer_size: 1 }) { |server| server.post("/", content).content }
    [small, large]
  end

  def assert_reads(expected, content, &read)
    results(content, read).each { |result| assert_equal expected.inspect, result }
  end

  def test_reads_everything
    assert_reads(["hello", "", nil, "hello", Encoding::BINARY], "hello") do |input|
      first = input.read
      rest = [input.read, input.read(1)]
      input.rewind
      [first, *rest, input.read, first.encoding]
    end
  end

  def test_reads_in_pieces
    assert_reads(["he", "llo", nil, ""], "hello") { |input| [input.read(2), input.read(10), input.read(10), input.read(0)] }
  end

  def test_reads_into_a_buffer
    assert_reads(["he", "he", true, nil, ""], "hello") do |input|
      buffer = +"something long"
      result = input.read(2, buffer)
      seen = [result.dup, buffer.dup, result.equal?(buffer)]
      input.read
      [*seen, input.read(1, buffer), buffer]
    end
  end

  def test_refuses_a_frozen_buffer_and_a_negative_length
    assert_reads([FrozenError, ArgumentError], "hello") do |input|
      [-> { input.read(1, "x") }, -> { input.read(-1) }].map do |call|
        call.call
      rescue StandardError => e
        e.class
      end
    end
  end

  def test_reads_lines
    assert_reads(["a\n", "\n", "long" * 10_000 + "\n", "end", nil], "a\n\n#{'long' * 10_000}\nend") do |input|
      Array.new(5) { input.gets }
    end
    assert_reads(%W[a\n b\n c], "a\nb\nc") { |input| input.each.to_a }
    assert_reads(["a--", "b", "-c"], "a--b-c") { |input| [input.gets("--"), input.gets("-", 1), input.gets(nil)] }
  end

  # The same as a file says.
  def test_reads_lines_without_their_ends
    content = "a\r\nb\n\n\nc--d--\n-"
    arguments = [[], ["--"], [nil], [2], [3], ["-", 2], [""], ["c"]]
    read = ->(io) { arguments.flat_map { |words| [io.tap(&:rewind).gets(*words, chomp: true), io.gets(*words, chomp: true)] } }
    expected = Tempfile.create { |file| file.binmode.write(content) && read.call(file) }
    assert_reads(expected, content, &read)
    assert_reads(%w[a b c], "a\nb\r\nc") { |input| input.each_line(chomp: true).to_a }
    assert_reads(%w[ArgumentError a], "a\n") do |input|
      [(input.gets(chop: true) rescue $!.class.name), input.gets(chomp: true)] # rubocop:disable Style/RescueModifier -- short
    end
  end

  # Arguments are converted by the app's code, which may also use the stream.
  def test_arguments_that_read_and_close
    converter = Struct.new(:act, :result) do
      def to_str = act.call && result
      alias_method :to_int, :to_str
    end
    assert_reads(["lo", "", nil], "hello") do |input|
      [input.read(5, converter.new(-> { input.read(3) }, +"")), input.read, input.gets(converter.new(-> { input.read }, "x"))]
    end
    reads = [->(input, act) { input.read(converter.new(act, 5)) }, ->(input, act) { input.read(5, converter.new(act, +"")) },
             ->(input, act) { input.gets(converter.new(act, "x")) }, ->(input, act) { input.gets("x", converter.new(act, 5)) }]
    reads.each do |read|
      assert_reads("IOError", "hello") do |input|
        read.call(input, -> { input.close || true })
      rescue IOError => e
        e.class.name
      end
    end
  end

  def test_a_separator_across_what_is_looked_at_together
    content = "#{'x' * 16_383}--y"
    assert_reads([16_385, "y"], content) { |input| [input.gets("--").size, input.gets] }
  end

  def test_closes
    assert_reads([IOError, true], "hello") do |input|
      input.close
      [(input.read rescue $!.class), input.closed?] # rubocop:disable Style/RescueModifier
    end
  end

  def test_is_copied_by_copy_stream
    content = "x" * 300_000
    assert_reads(content.size, content) { |input| IO.copy_stream(input, File::NULL) }
  end

  def test_a_request_without_content
    app = ->(env) { [200, {}, [env["rack.input"].then { |input| [input&.read, input&.gets, input&.read(1)] }.inspect]] }
    NativeServer.open(app) do |server|
      2.times { assert_includes [["", nil, nil].inspect, [nil, nil, nil].inspect], server.get("/").content }
    end
  end

  def test_can_be_read_when_the_request_is_over
    [{}, { body_buffer_size: 1 }].each do |settings|
      kept = nil
      app = lambda do |env|
        next [200, {}, [kept.read]] if env["REQUEST_METHOD"] == "GET"

        kept = env["rack.input"]
        kept.read(2)
        [200, {}, []]
      end
      NativeServer.open(app, settings: settings) do |server|
        server.post("/", "hello")
        server.post("/", "HELLO")
        assert_equal "LLO", server.get("/").content
      end
    end
  end

  def test_a_large_file_is_closed_when_the_response_is_over
    kept = nil
    app = lambda do |env|
      next [200, {}, [kept.read]] if env["REQUEST_METHOD"] == "GET"

      kept = env["rack.input"]
      [200, {}, [Dir.children("/proc/self/fd").size.to_s]]
    end
    NativeServer.open(app) do |server|
      open = Array.new(5) { server.post("/", "h" * 2_000_000).content }
      assert_equal 1, open.uniq.size, open.inspect
      assert_equal 500, server.get("/").status
    end
  end

  def test_the_files_of_apps_that_do_not_close_them_are_few
    app = ->(_env) { [200, {}, [Process.pid.to_s]] }
    NativeServer.open(app, settings: { body_buffer_size: 1 }) do |server|
      descriptors = Array.new(1000) { Dir.children("/proc/#{server.post('/', 'h' * 40_000).content}/fd").size }
      # The server was forked from these tests, with all that they have open.
      assert_operator descriptors.max - descriptors.first, :<, 300
    end
  end

  def test_chunked_content_has_a_length
    app = ->(env) { [200, {}, [env["CONTENT_LENGTH"], " ", env["rack.input"].read]] }
    NativeServer.open(app) do |server|
      socket = server.connect
      socket.write("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
      assert_equal "3 abc", server.parse(socket.read).content
    end
  end
end
