# frozen_string_literal: true

require "rexml/document"
require "tempfile"

# An app's view of a request.
module Probe
  # A value as plain data: [class, encoding, value].
  def self.described(value)
    plain = [String, Integer, TrueClass, FalseClass, NilClass, Array].include?(value.class)
    [value.class.name, value.is_a?(String) ? value.encoding.name : nil, plain ? value : nil]
  end

  on "/environment" do |env|
    seen = env.transform_values { |value| described(value) }
    ids = env.keys.grep(/\A[A-Z_]+\z/).reject { |key| key.equal?(-key) }
    [200, {}, [Marshal.dump({ env: seen, keys_not_interned: ids, encodings: env.keys.map { |key| key.encoding.name }.uniq })]]
  end

  # Changes everything that it is given.
  on "/spoil" do |env|
    env.each_value { |value| value << "spoiled" if value.is_a?(String) && !value.frozen? }
    env.keys.grep(/\A[A-Z]/).each { |key| env.delete(key) }
    env["rack.multiprocess"] = "spoiled"
    env["SPOILED"] = "spoiled"
    text("spoiled")
  end

  # Takes the env, and answers with the traces of the previous request in it.
  on "/keep" do |env|
    before = @kept && @kept["QUERY_STRING"]
    @kept = env
    text(before.to_s)
  end

  # ---- rack.input ----------------------------------------------------------------------------------------------------

  def self.input(env)
    env["rack.input"]
  end

  on("/input/read") { |env| [200, {}, [input(env)&.read || "none"]] }
  on("/input/unread") { |_env| text("unread") }

  # The trailers after the content, and their encoding.
  on "/input/trailers" do |env|
    trailers = env["oribi.trailers"]
    names = trailers.to_h.keys
    values = trailers.to_h.values.flatten.reject(&:empty?)
    encodings = [names, values].map { |texts| texts.map { |text| text.encoding.name }.uniq }
    text([input(env).read.bytesize, env["HTTP_X_SUM"], trailers, encodings].inspect)
  end

  def self.failure
    yield
  rescue EOFError, SystemCallError => e
    e.class
  end

  # The results of methods, and the positions after them, as with a file of the same content.
  INPUT_CALLS = {
    "readline" => ->(io) { [io.readline, io.readline(chomp: true), io.pos] },
    "readlines" => ->(io) { [io.readlines(chomp: true), io.eof?, io.readlines] },
    "readlines-limit" => ->(io) { [io.readlines(4).first(3), io.pos] },
    "getbyte" => ->(io) { [io.getbyte, io.readbyte, io.pos] },
    "getc" => ->(io) { [io.getc, io.readchar, io.getc.encoding, io.pos] },
    "each_byte" => ->(io) { [io.each_byte.first(3), io.pos] },
    "each_char" => ->(io) { [io.each_char.to_a.size, io.eof] },
    "seek" => ->(io) { [io.seek(5), io.read(3), io.seek(-2, :CUR), io.read(2), io.seek(-4, IO::SEEK_END), io.read] },
    "pos" => ->(io) { [(io.pos = 7), io.getc, io.tell, io.rewind, io.getc] },
    "sysread" => ->(io) { [io.sysread(4), io.pos] },
    "at-end" => lambda { |io|
      io.read
      [io.getbyte, io.getc, io.gets, *%i[readbyte readchar readline].map { |name| failure { io.public_send(name) } }]
    },
    "before" => ->(io) { failure { io.seek(-1) } }
  }.freeze

  on "/input/calls" do |env|
    file = Tempfile.new("input", ENV.fetch("TEST_DIRECTORY"))
    file.binmode
    file.write(input(env).read)
    differences = INPUT_CALLS.reject do |_name, act|
      [file, input(env)].map { |io| io.rewind && act.call(io) }.uniq.one?
    end
    text(differences.keys.inspect)
  ensure
    file.close!
  end

  # Libraries that read from an IO.
  on("/input/xml") { |env| text(REXML::Document.new(input(env)).root.elements.map(&:name).inspect) }
  on("/input/marshal") { |env| text(Marshal.load(input(env)).inspect) } # rubocop:disable Security/MarshalLoad -- a test

  on "/input/digest" do |env|
    digest = Digest::SHA256.new
    size = 0
    buffer = +""
    while input(env).read(65_536, buffer)
      size += buffer.bytesize
      digest << buffer
    end
    text("#{size} #{digest.hexdigest}")
  end

  # Everything that read may be asked for, as inspected values.
  on "/input/reads" do |env|
    io = input(env)
    buffer = +"before"
    seen = [io.read(0), io.read(3), io.read(3, buffer).dup, buffer.dup, io.read(1_000_000), io.read(1), io.read(0), io.read,
            io.read(nil)]
    seen << io.read(1, buffer) << buffer.dup
    text(seen.inspect + seen.compact.map(&:encoding).uniq.inspect)
  end

  on("/input/gets") { |env| text([input(env).gets, input(env).gets, input(env).read, input(env).gets].inspect) }

  on "/input/each" do |env|
    lines = []
    input(env).each { |line| lines << line }
    text(lines.inspect)
  end

  on "/input/rewind" do |env|
    first = input(env).read
    input(env).rewind
    text([first, input(env).read].inspect)
  end

  # Reads a piece now and the rest while the response is being sent.
  on "/input/late" do |env|
    io = input(env)
    first = io.read(2)
    [200, {}, Enumerator.new { |pieces| pieces << first << "|" << io.read }]
  end

  on "/input/close" do |env|
    input(env).close
    text("closed")
  end

  on "/input/presence" do |env|
    text([env.key?("rack.input"), input(env)&.read, env["CONTENT_LENGTH"]].inspect)
  end

  on("/input/echo") { |env| [200, {}, [input(env)&.read.to_s]] }

  on "/errors" do |env|
    env["rack.errors"].puts("put by the probe")
    env["rack.errors"].write("written by the probe\n")
    env["rack.errors"].flush
    text("said")
  end
end
