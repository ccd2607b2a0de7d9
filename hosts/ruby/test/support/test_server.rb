# frozen_string_literal: true

require "fileutils"
require "json"
require "openssl"
require "rbconfig"
require "rack"
require "socket"
require "tmpdir"
require_relative "connection"
require_relative "free_port"
require_relative "over_http2"
require_relative "waiting"

# A server in a process of its own.
class TestServer
  HOST_ROOT = File.expand_path("../..", __dir__)
  CHECKOUT = File.expand_path("../..", HOST_ROOT)
  PROBE = File.join(__dir__, "probe.ru")
  RACK = Gem::Version.new(Rack.release)
  RACK3 = RACK >= Gem::Version.new("3.0")
  RACK31 = RACK >= Gem::Version.new("3.1")

  # Whether the suite runs with servers that have an edge, unless a test says otherwise (ORIBI_EDGE=on).
  EDGE = ENV["ORIBI_EDGE"] == "on"

  # Whether clients come over TLS, where servers listen at a port (ORIBI_TEST_TLS=on).
  TLS = ENV["ORIBI_TEST_TLS"] == "on"

  # The environment of the caller's shell must not reach the servers.
  CLEAN = %w[PORT HOST WEB_CONCURRENCY RACK_ENV RAILS_ENV APP_ENV SERVER_STARTER_PORT LISTEN_FDS RUBYOPT].to_h do |name|
    [name, nil]
  end

  def self.open(**options)
    server = new(**options)
    yield server
    server.stop
  ensure
    server&.kill
  end

  attr_reader :pid, :port, :path, :directory, :status

  # app: the path of a config.ru, or its text. by: how the server is started, :script (Oribi.serve in a script), :rackup or
  # :oribi. settings: the settings of the server, for :script. arguments: the command-line arguments, for :rackup and :oribi.
  # extras: other options of Oribi.serve, as plain data.
  def initialize(app: PROBE, by: :script, unix: false, settings: {}, arguments: [], extras: {}, env: {}, ruby: [], wait: true,
                 files: {}, keep: {})
    @directory = Dir.mktmpdir("oribi")
    @path = File.join(@directory, "app.sock") if unix
    @port = FreePort.next unless unix
    files.each { |name, text| File.write(File.join(@directory, name), text) }
    @events = File.join(@directory, "events")
    @connections = []
    FileUtils.touch(@events)
    command = command_for(by, app_path(app), settings, arguments, extras, ruby)
    @pid = Process.spawn({ **CLEAN, "PROBE_EVENTS" => @events, "TEST_DIRECTORY" => @directory, **env }, *command,
                         out: [log_path, "a"], err: [log_path, "a"], in: File::NULL, chdir: @directory, **keep)
    connection.close if wait
  rescue StandardError
    kill if @pid
    raise
  end

  # The oribi command that was built last.
  def self.command
    ENV["ORIBI"] || %w[release debug].map { |kind| File.join(CHECKOUT, "target", kind, "oribi") }
                                     .select { |path| File.exist?(path) }.max_by { |path| File.mtime(path) }
  end

  # A connection, made as soon as the server listens.
  def connection
    Waiting.wait_until(-> { "a listener; the log says:\n#{log}" }) do
      Connection.new(OverHTTP2.on? ? socket_by_proxy : socket).tap { |made| @connections << made }
    rescue Errno::ENOENT, Errno::ECONNREFUSED
      raise "the server has ended with #{@status}; the log says:\n#{log}" if ended?
    end
  end

  # An idle connection would keep a server that is to stop waiting for a while.
  def close_connections
    @connections.each(&:close)
    @connections.clear
  end

  # One request on a connection of its own.
  def request(method, target, fields = {}, content = nil)
    connection = connection()
    connection.send_request(method, target, fields, content)
    connection.final_response(method)
  ensure
    connection&.close
  end

  def get(target, fields = {})
    request("GET", target, fields)
  end

  def post(target, content, fields = {})
    request("POST", target, fields, content)
  end

  def unix?
    !@path.nil?
  end

  # Whether its clients come over TLS.
  def encrypted?
    TLS && !unix?
  end

  # Options of curl for the server's address.
  def curl_arguments
    return ["--unix-socket", @path] if unix?

    encrypted? ? ["--cacert", certificate] : []
  end

  def url(target)
    return "http://localhost#{target}" if unix?

    "#{encrypted? ? 'https' : 'http'}://127.0.0.1:#{@port}#{target}"
  end

  # ---- What the server and its app say -------------------------------------------------------------------------------

  def log_path
    File.join(@directory, "log")
  end

  def log
    File.exist?(log_path) ? File.binread(log_path) : ""
  end

  def wait_for_log(pattern)
    Waiting.wait_until(-> { "#{pattern.inspect} in the log, which says:\n#{log}" }) { log.match(pattern) }
  end

  # The app's notes, without the identifier with which the lines begin.
  def events(id = nil)
    lines = File.read(@events).lines(chomp: true)
    id ? lines.select { |line| line.start_with?("#{id} ") }.map { |line| line.delete_prefix("#{id} ") } : lines
  end

  # Waits until the app has noted so many lines.
  def wait_for_events(id, count)
    Waiting.wait_until(-> { "#{count} events, there are #{events(id)}; the log says:\n#{log}" }) do
      noted = events(id)
      noted if noted.size >= count
    end
  end

  # ---- Processes -----------------------------------------------------------------------------------------------------

  # The child processes of the server that exist now, except the edge. A new edge still has the title of its parent, so this
  # list is empty until the edge has its own title.
  def workers
    workers = children.reject { |pid| edge?(pid) }
    EDGE && workers.size == children.size ? [] : workers
  end

  # All children of the server's process.
  def children
    File.read("/proc/#{@pid}/task/#{@pid}/children").split.map(&:to_i)
  rescue Errno::ENOENT
    []
  end

  def edge?(pid)
    File.read("/proc/#{pid}/cmdline").start_with?("oribi: edge")
  rescue Errno::ENOENT, Errno::ESRCH
    false
  end

  def wait_for_workers(count)
    Waiting.wait_until(-> { "#{count} workers, there are #{workers}; the log says:\n#{log}" }) do
      found = workers
      found if found.size == count
    end
  end

  def signal(name)
    Process.kill(name, @pid)
  end

  def ended?
    return true unless @pid

    _, status = Process.wait2(@pid, Process::WNOHANG)
    return false unless status

    @pid = nil
    @status = status
  end

  # Waits for the end and returns the exit status.
  def wait_end
    Waiting.wait_until(-> { "the end of the server; the log says:\n#{log}" }) { ended? }
    @status.exitstatus || "signal #{@status.termsig}"
  end

  # Stops the server, but keeps its files.
  def finish
    close_connections
    signal(:TERM)
    wait_end
  end

  # Stops the server and returns its exit status.
  def stop(signal_name = :TERM)
    close_connections
    signal(signal_name) if @pid
    wait_end
  ensure
    kill
  end

  # Ends the remaining processes and removes its files.
  def kill
    unless ended?
      (children + [@pid]).each { |pid| Process.kill(:KILL, pid) rescue nil } # rubocop:disable Style/RescueModifier -- it may be gone
      Process.wait(@pid)
      @pid = nil
    end
    @proxy&.kill
    @proxy = nil
    FileUtils.rm_rf(@directory)
  end

  private

  def socket
    unix? ? UNIXSocket.new(@path) : tcp_socket
  end

  # The proxy takes connections whether there is a server or not.
  def socket_by_proxy
    (unix? ? UNIXSocket.new(@path) : TCPSocket.new("127.0.0.1", @port)).close
    @proxy ||= OverHTTP2::Proxy.new(unix? ? "unix:#{@path}" : "127.0.0.1,#{@port}", encrypted? && certificate)
    TCPSocket.new("127.0.0.1", @proxy.port)
  end

  def tcp_socket
    socket = TCPSocket.new("127.0.0.1", @port)
    return socket unless encrypted?

    context = OpenSSL::SSL::SSLContext.new
    context.set_params(ca_file: certificate)
    OpenSSL::SSL::SSLSocket.new(socket, context).tap do |encrypted|
      encrypted.sync_close = true
      encrypted.connect
      encrypted.post_connection_check("127.0.0.1")
    end
  end

  # The file of a certificate for 127.0.0.1 and its key.
  def certificate
    @certificate ||= File.join(@directory, "certificate").tap do |path|
      key = OpenSSL::PKey::EC.generate("prime256v1")
      made = OpenSSL::X509::Certificate.new
      made.version = 2
      made.serial = 1
      made.subject = made.issuer = OpenSSL::X509::Name.parse("/CN=test")
      made.not_before = Time.now - 60
      made.not_after = Time.now + 86_400
      made.public_key = key
      made.add_extension(OpenSSL::X509::ExtensionFactory.new.create_extension("subjectAltName", "DNS:localhost,IP:127.0.0.1"))
      File.write(path, made.sign(key, "SHA256").to_pem + key.to_pem)
    end
  end

  def app_path(app)
    return app if File.file?(app)

    File.join(@directory, "config.ru").tap { |path| File.write(path, app) }
  end

  def command_for(by, app, settings, arguments, extras, ruby)
    interpreter = [RbConfig.ruby, *ruby, "-I", File.join(HOST_ROOT, "lib")]
    case by
    when :script
      options = { "settings" => { "workers" => 1, "listen" => listener, **settings.transform_keys(&:to_s) },
                  "extras" => extras }
      [*interpreter, File.join(__dir__, "serve.rb"), app, JSON.generate(options)]
    when :rackup
      [*interpreter, "-S", "rackup", "-s", "oribi", *rackup_listener, *arguments, app]
    when :oribi
      [TestServer.command, "--listen", listener, *arguments, app]
    else
      raise ArgumentError, "no such way to start a server: #{by}"
    end
  end

  def listener
    @path || (encrypted? ? "https://127.0.0.1:#{@port}?cert=#{certificate}" : "127.0.0.1:#{@port}")
  end

  def rackup_listener
    return ["-O", "Path=#{@path}"] if @path

    ["-o", "127.0.0.1", "-p", @port.to_s, *(["-O", "ssl_cert=#{certificate}"] if encrypted?)]
  end
end
