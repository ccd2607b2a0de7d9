# frozen_string_literal: true

require "tempfile"

# The bodies that an app may return.
module Probe
  # Yields pieces and notes when it is closed.
  class Body
    def initialize(env, pieces)
      @env = env
      @pieces = pieces
    end

    def each(&)
      Probe.note(@env, "each")
      @pieces.each(&)
    end

    def close
      Probe.note(@env, "close")
    end
  end

  class RaisingBody < Body
    def each
      yield "a piece"
      raise "raised in each"
    end
  end

  class RaisingAtOnceBody < Body
    def each
      raise "raised in each"
    end
  end

  class RaisingCloseBody < Body
    def close
      super
      raise "raised in close"
    end
  end

  class ArrayBody < Body
    def to_ary
      Probe.note(@env, "to_ary")
      @pieces.tap { close }
    end
  end

  class FileBody < Body
    def initialize(env, path)
      super(env, nil)
      @path = path
    end

    def to_path
      @path
    end

    def each
      Probe.note(@env, "each")
      File.open(@path, "rb") do |file|
        while (piece = file.read(65_536))
          yield piece
        end
      end
    end
  end

  # Is called with the stream.
  class StreamBody
    def initialize(env, &answer)
      @env = env
      @answer = answer
    end

    def call(stream)
      @answer.call(stream)
    end

    def close
      Probe.note(@env, "close")
    end
  end

  # A file with so many bytes of the pattern, made once for each process.
  def self.file(size)
    @files ||= {}
    @files[size] ||= Tempfile.new("probe", ENV.fetch("TEST_DIRECTORY")).tap do |file|
      file.binmode
      file.write(pattern(size))
      file.flush
    end
    @files[size].path
  end

  def self.size(env)
    parameter(env, "bytes", "0").to_i
  end

  on("/bodies/array") { |_env| [200, {}, ["one ", "two ", "three"]] }
  on("/bodies/empty") { |_env| [200, {}, []] }
  on("/bodies/each") { |env| [200, {}, Body.new(env, %w[one two three])] }
  on("/bodies/each-empty") { |env| [200, {}, Body.new(env, [])] }
  on("/bodies/each-blank") { |env| [200, {}, Body.new(env, ["", "one", "", "", "two", ""])] }
  # A body that knows its trailers once it has yielded its pieces.
  class Trailing
    def initialize(pieces, trailers)
      @pieces = pieces
      @trailers = trailers
      @yielded = 0
    end

    def each
      @pieces.each { |piece| yield piece.tap { @yielded += 1 } }
    end

    def trailers
      raise "no trailers" if @trailers == "raises"

      @trailers.is_a?(Hash) ? @trailers.merge("x-yielded" => @yielded.to_s) : @trailers
    end
  end

  # The same as a stream.
  class TrailingStream < Trailing
    undef_method :each

    def call(stream)
      @pieces.each { |piece| stream.write(piece.tap { @yielded += 1 }) }
      stream.close
    end
  end

  TRAILERS = {
    "some" => { "grpc-status" => "0", "x-sum" => %w[a b] }, "nil" => nil, "text" => "x-sum: 1",
    "forbidden" => { "set-cookie" => "a=b" }, "raises" => "raises"
  }.freeze

  { "each" => Trailing, "call" => TrailingStream }.each do |way, body|
    TRAILERS.each do |name, trailers|
      on("/trailers/#{way}/#{name}") { |_env| [200, {}, body.new(%w[one two], trailers)] }
      on("/trailers/#{way}/#{name}-alone") { |_env| [200, {}, body.new([], trailers)] }
    end
  end
  on("/trailers/each/length") { |_env| [200, { "content-length" => "6" }, Trailing.new(%w[one two], TRAILERS["some"])] }

  on("/bodies/each-length") { |env| [200, { "content-length" => "11" }, Body.new(env, %w[one two three])] }
  on("/bodies/enumerator") { |_env| [200, {}, Enumerator.new { |pieces| 3.times { |number| pieces << "piece #{number}\n" } }] }
  on("/bodies/to_ary") { |env| [200, {}, ArrayBody.new(env, %w[one two])] }
  on("/bodies/large") { |env| [200, {}, [pattern(size(env))]] }
  on("/bodies/raises") { |env| [200, {}, RaisingBody.new(env, [])] }
  on("/bodies/raises-at-once") { |env| [200, {}, RaisingAtOnceBody.new(env, [])] }
  on "/bodies/raises-behind-nothing" do |env|
    [200, {}, Body.new(env, Enumerator.new { |pieces| (pieces << "") && raise("at first") })]
  end
  on("/bodies/unframed") { |env| [200, { "transfer-encoding" => "chunked" }, Body.new(env, %w[one two])] }
  on("/bodies/raises-in-close") { |env| [200, {}, RaisingCloseBody.new(env, %w[one two])] }
  on("/bodies/short") { |env| [200, { "content-length" => "10" }, Body.new(env, %w[one two])] }
  on("/bodies/long") { |env| [200, { "content-length" => "4" }, Body.new(env, %w[one two])] }
  on("/bodies/values") { |env| [200, {}, Body.new(env, ["Content", "", "Again", nil, 0])] }
  on("/bodies/array-values") { |_env| [200, {}, ["Content", "", "Again", nil, 0]] }
  on("/bodies/many") { |env| [200, {}, Array.new(parameter(env, "count").to_i) { |number| "#{number} " }] }
  on("/bodies/wide") { |_env| [200, {}, ["caf\u00e9 \u263a"]] }
  on("/bodies/without-content") { |env| [parameter(env, "code").to_i, {}, Body.new(env, %w[one two])] }
  on("/bodies/array-without-content") { |env| [parameter(env, "code").to_i, {}, ["content"]] }

  # Notes its progress; the client need not take it.
  on "/bodies/pieces" do |env|
    piece = pattern(65_536)
    pieces = Enumerator.new { |yielder| (size(env) / piece.bytesize).times { yielder << piece } }
    [200, {}, Body.new(env, pieces)]
  end

  # Yields its second piece at a signal of the test.
  on "/bodies/waits" do |env|
    pieces = Enumerator.new do |yielder|
      yielder << "first"
      sleep 0.005 until File.exist?(File.join(ENV.fetch("TEST_DIRECTORY"), parameter(env, "id")))
      yielder << "second"
    end
    [200, {}, Body.new(env, pieces)]
  end

  # It has no end, as far as its client can see.
  on "/bodies/endless" do |env|
    [parameter(env, "code", "200").to_i, { "content-length" => "10" }, Body.new(env, Array.new(10_000) { "a piece" })]
  end

  # ---- Files ---------------------------------------------------------------------------------------------------------

  on("/files/sized") { |env| [200, { "content-length" => size(env).to_s }, FileBody.new(env, file(size(env)))] }
  on("/files/unsized") { |env| [200, {}, FileBody.new(env, file(size(env)))] }
  on("/files/missing") { |env| [200, {}, FileBody.new(env, "/nonexistent/file")] }

  # ---- Bodies that are called ----------------------------------------------------------------------------------------

  on "/stream/write" do |env|
    [200, {}, StreamBody.new(env) do |stream|
      counts = [stream.write("one "), (stream << "two ").respond_to?(:write)]
      stream.flush
      stream.write("three ")
      stream.write(counts.inspect)
      stream.close
      note(env, "closed=#{stream.closed?}")
    end]
  end

  on "/stream/unclosed" do |env|
    [200, {}, StreamBody.new(env) { |stream| stream.write("left open") }]
  end

  on "/stream/reads" do |env|
    [200, {}, StreamBody.new(env) do |stream|
      stream.write(stream.read(4), "|", stream.read)
      stream.close_read
      stream.close_write
    end]
  end

  on "/stream/raises" do |env|
    [200, {}, StreamBody.new(env) do |stream|
      stream.write("a piece")
      raise "raised in call"
    end]
  end

  on "/stream/raises-at-once" do |env|
    [200, {}, StreamBody.new(env) { raise "raised at once" }]
  end

  on "/stream/raises-behind-flush" do |env|
    [200, {}, StreamBody.new(env) { |stream| stream.flush && raise("raised behind the head") }]
  end

  on "/stream/bad-head" do |env|
    [200, { "x-a" => "a\r\nb" }, StreamBody.new(env) { note(env, "called") }]
  end

  on "/stream/unframed" do |env|
    [200, { "transfer-encoding" => "chunked" }, StreamBody.new(env) { |stream| stream.write("one") && stream.close }]
  end

  on "/stream/thread" do |env|
    [200, {}, StreamBody.new(env) do |stream|
      Thread.new do
        3.times { |number| stream.write("piece #{number} ") }
        stream.close
        note(env, "done")
      end
    end]
  end

  on "/stream/without-content" do |env|
    [parameter(env, "code").to_i, {}, StreamBody.new(env) { note(env, "called") }]
  end

  on "/stream/gone" do |env|
    [200, {}, StreamBody.new(env) do |stream|
      loop { stream.write(pattern(65_536)) }
    rescue Errno::EPIPE, IOError => e
      note(env, e.class.name)
      stream.close
    end]
  end

  on "/stream/length" do |env|
    [200, { "content-length" => "5" }, StreamBody.new(env) do |stream|
      stream.write("hello")
      stream.close
    end]
  end
end
