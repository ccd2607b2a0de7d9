# frozen_string_literal: true

require "openssl"
require "socket"
require "tempfile"
require "tmpdir"
require_relative "certificate"
require_relative "../../hosts/ruby/test/support/free_port"

# A server that runs for a test, and its output. The test that starts one stops it; a forgotten one ends with the tests.
class ServerProcess
  # Seconds that a server may take to start, to stop or to fulfil a test's condition: far more than it needs on a busy machine.
  PATIENCE = 60

  ROOT = File.expand_path("../..", __dir__)
  # The command, given by ORIBI for another build than the one in target/bin.
  ORIBI = ENV.fetch("ORIBI", "#{ROOT}/target/bin/oribi")

  Failure = Class.new(StandardError)

  attr_reader :pid, :port

  # Waits until the block is true; false if it does not become so.
  def self.wait_until
    limit = now + PATIENCE
    until yield
      return false if now > limit

      sleep 0.02
    end
    true
  end

  def self.now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # Runs a command that must listen on 127.0.0.1:port, or on the Unix socket `socket`. `environment` is added to the
  # environment. `encrypted` means that the command speaks TLS there, with the certificate of the tests. Returns when the
  # command accepts connections.
  def initialize(*command, port: nil, socket: nil, directory: ROOT, environment: {}, encrypted: false)
    @port = port
    @encrypted = encrypted
    @socket = socket
    @log = Tempfile.new("server")
    # A process group of its own, as a terminal gives it.
    @pid = Process.spawn(environment, *command, chdir: directory, in: File::NULL, %i[out err] => @log.path, pgroup: true)
    @owner = Process.pid
    Minitest.after_run { kill }
    return if self.class.wait_until { listening? || exit_status }.then { @exit_status.nil? && listening? }

    kill
    raise Failure, "#{command.join(' ')} does not listen, #{@exit_status.inspect}:\n#{log_end}"
  end

  def url
    "#{@encrypted ? 'https' : 'http'}://127.0.0.1:#{@port}"
  end

  # Whether it speaks TLS.
  def encrypted?
    @encrypted
  end

  # The address in the form that nginx wants after `server`.
  def upstream
    @socket ? "unix:#{@socket}" : "127.0.0.1:#{@port}"
  end

  # A new connection, on which HTTP/1.1 is spoken.
  def connect
    return connect_in_clear unless encrypted?

    context = OpenSSL::SSL::SSLContext.new
    context.set_params(ca_file: Certificate.file)
    OpenSSL::SSL::SSLSocket.new(connect_in_clear, context).tap do |encrypted|
      encrypted.sync_close = true
      encrypted.connect
      encrypted.post_connection_check("127.0.0.1")
    end
  end

  def listening?
    connect_in_clear.close
    true
  rescue SystemCallError
    false
  end

  # Everything written to standard output and standard error so far.
  def log_text
    File.read(@log.path)
  end

  # The output of it that a failed test shows.
  def log_end
    log_text.lines.last(40).join
  end

  def signal(name)
    Process.kill(name, @pid)
  end

  # The Process::Status, or nil while the process runs.
  def exit_status
    @exit_status ||= Process.wait2(@pid, Process::WNOHANG)&.last
  end

  # Sends the signal and waits for the end; returns the Process::Status, or nil if the process had to be killed.
  def stop(name = :TERM)
    signal(name)
    return @exit_status if self.class.wait_until { exit_status }

    kill
    nil
  end

  # The processes that the first one has started, or another one.
  def children(pid = @pid)
    Dir.glob("/proc/[0-9]*/stat").filter_map do |file|
      # The name in parentheses may hold anything; state and parent follow the last one.
      File.read(file)[/\A(\d+) .*\) (?!Z)\S #{pid} /m, 1]&.to_i
    rescue SystemCallError
      nil
    end
  end

  def edge?(pid)
    File.binread("/proc/#{pid}/cmdline").start_with?("oribi: edge")
  rescue Errno::ENOENT, Errno::ESRCH
    false
  end

  # The processes that have no children themselves, wherever in the tree they are, without edges.
  def workers(pid = @pid)
    below = children(pid)
    return below.flat_map { |child| workers(child) } unless below.empty?

    edge?(pid) ? [] : [pid]
  end

  private

  def connect_in_clear
    @socket ? UNIXSocket.new(@socket) : TCPSocket.new("127.0.0.1", @port)
  end

  def kill
    return if @owner != Process.pid || exit_status

    Process.kill(:KILL, -@pid)
    @exit_status = Process.wait2(@pid).last
  end
end
