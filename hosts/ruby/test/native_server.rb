# frozen_string_literal: true

# A server around an app that a test defines in place, with the extension alone: for tests of the extension.

require "minitest/autorun"
require "oribi/#{RUBY_VERSION[/\A\d+\.\d+/]}/oribi"
require "rack"
require "rack/lint"
require "tmpdir"
require "uri"

class NativeServer
  RACK = Rack.release.split(".").first(2).map(&:to_i)

  # Yields a server that runs `app`, and stops it.
  def self.open(app, settings: {}, **extras, &test)
    new.use(test) { |server| server.run_app(app, settings, extras) }
  end

  # Runs a test with a server that `file` starts, in a Ruby that has loaded nothing else. The file gets a directory and the
  # arguments; it listens at `socket` in that directory, and `log` there is its log.
  def self.run(file, *arguments, &test)
    new.use(test) { |server| server.run_file(file, arguments) }
  end

  attr_reader :pid

  def initialize
    @directory = Dir.mktmpdir("oribi")
  end

  # Starts as the block does, has `test` use the server, and stops it.
  def use(test)
    yield self
    connect.close
    test.call(self)
  ensure
    stop
  end

  def run_app(app, settings, extras)
    @pid = fork { serve(app, settings, extras) }
  end

  def run_file(file, arguments)
    @pid = Process.spawn(RbConfig.ruby, "--disable-gems", file, @directory, *arguments.map(&:to_s))
  end

  def stop
    terminate if @pid
    FileUtils.rm_rf(@directory)
  end

  # Ends the server in peace and returns its exit status.
  def terminate
    Process.kill(:TERM, @pid)
    Process.wait(@pid)
    @pid = nil
    $?.exitstatus
  end

  def log
    File.read(log_path)
  end

  # Waits until the log has a line like that.
  def wait_for_log(pattern)
    wait_until("#{pattern.inspect} in the log") { log.match?(pattern) }
  end

  def wait_until(what)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 30
    until (result = yield)
      raise "waited in vain for #{what}; the log says:\n#{log}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep 0.01
    end
    result
  end

  def connect
    wait_until("a listener") do
      UNIXSocket.new(socket_path)
    rescue Errno::ENOENT, Errno::ECONNREFUSED
      raise "the server has ended; the log says:\n#{log}" if Process.wait(@pid, Process::WNOHANG)
    end
  end

  Response = Struct.new(:status, :fields, :content, :head) do
    # The values of all fields with that name.
    def all(name)
      fields.select { |key, _| key.casecmp?(name) }.map(&:last)
    end

    def [](name)
      all(name).first
    end
  end

  def get(path, **options)
    request("GET", path, **options)
  end

  def post(path, content, **options)
    request("POST", path, content: content, **options)
  end

  # One request on a connection of its own, read to its end.
  def request(method, path, fields: {}, content: nil)
    socket = connect
    fields = { "Host" => "example.org", "Connection" => "close" }.merge(fields)
    fields["Content-Length"] ||= content.bytesize.to_s if content
    socket.write("#{method} #{path} HTTP/1.1\r\n#{fields.map { |name, value| "#{name}: #{value}\r\n" }.join}\r\n#{content}")
    parse(socket.read)
  ensure
    socket&.close
  end

  def parse(text)
    head, content = text.b.split("\r\n\r\n", 2)
    return Response.new(nil, [], "", text) unless content

    status, *lines = head.split("\r\n")
    fields = lines.map { |line| line.split(": ", 2) }
    content = decode(content) if fields.any? { |name, value| name.casecmp?("transfer-encoding") && value == "chunked" }
    Response.new(status.split[1].to_i, fields, content, head)
  end

  private

  # Raises if the chunks are not complete.
  def decode(text)
    content = +""
    loop do
      line, text = text.split("\r\n", 2)
      size = Integer(line, 16)
      return content if size.zero?

      content << text.byteslice(0, size)
      text = text.byteslice((size + 2)..)
    end
  end

  def socket_path = File.join(@directory, "socket")
  def log_path = File.join(@directory, "log")

  def serve(app, settings, extras)
    $stderr.reopen(log_path, "a")
    $stderr.sync = true
    configured = Oribi::Settings.new
    { "listen" => socket_path, "workers" => 1, **settings.transform_keys(&:to_s) }.each do |name, value|
      message = configured.set(name, value.to_s, "the test")
      raise message if message
    end
    exit!(Oribi.serve(app, configured, rack_version: RACK, **extras))
  rescue Exception => e # rubocop:disable Lint/RescueException -- the process must not run the tests once more
    warn e.full_message
    exit!(1)
  end
end
