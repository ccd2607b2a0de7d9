# frozen_string_literal: true

# Property: a certificate and a key that are in a puma.rb itself are offered to clients, also after a reload and after an
# upgrade, and the key is in no log, command line or environment.

require "minitest/autorun"
$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "certificate"
require "open3"
require "server_process"

class CertificateTextsTest < Minitest::Test
  APP = "run ->(_env) { [200, { 'content-type' => 'text/plain' }, [Process.pid.to_s]] }\n"
  LIBRARY = { "RUBYLIB" => "#{ServerProcess::ROOT}/hosts/ruby/lib" }.freeze

  def setup
    @folder = Dir.mktmpdir
    @port = FreePort.next
    parts = File.read(Certificate.file).scan(/-----BEGIN.*?-----END[^\n]*\n/m)
    @key, certificate = parts.partition { |part| part.include?("PRIVATE KEY") }.map(&:join)
    File.write("#{@folder}/config.ru", APP)
    File.write("#{@folder}/puma.rb", <<~RUBY)
      workers 1
      ssl_bind "127.0.0.1", "#{@port}", { cert_pem: #{certificate.dump}, key_pem: #{@key.dump}, verify_mode: "none" }
    RUBY
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def test_with_the_command
    serve(ServerProcess::ORIBI, "-C", "puma.rb", "config.ru")
  end

  def test_with_the_command_and_without_an_edge
    serve(ServerProcess::ORIBI, "-C", "puma.rb", "--edge", "off", "config.ru")
  end

  def test_with_rackup
    # A server within another program cannot be upgraded.
    serve("rackup", "-s", "oribi", "-O", "ConfigFile=puma.rb", "-E", "production", "config.ru", signals: %i[HUP])
  end

  # A message about the texts does not quote them.
  def test_a_key_that_cannot_be_used
    file = File.read("#{@folder}/puma.rb").sub("PRIVATE KEY-----\\n", "PRIVATE KEY-----\\n!")
    File.write("#{@folder}/puma.rb", file)
    said, status = Open3.capture2e(ServerProcess::ORIBI, "check", "-C", "puma.rb", "config.ru", chdir: @folder)
    refute_predicate status, :success?, said
    assert_match(/key_pem/, said)
    refute_secret(said)
  end

  private

  def serve(*command, signals: %i[HUP USR2])
    @server = ServerProcess.new(*command, port: @port, directory: @folder, environment: LIBRARY, encrypted: true)
    first = answer
    assert_secret_everywhere
    signals.each do |signal|
      former = answer
      @server.signal(signal)
      assert ServerProcess.wait_until { answer != former }, @server.log_end
      assert_secret_everywhere
    end
    refute_equal first, answer
  ensure
    @server&.stop
    refute_secret(@server.log_text) if @server
  end

  def answer
    said, status = Open3.capture2e("curl", "--silent", "--show-error", "--cacert", Certificate.file, "https://127.0.0.1:#{@port}/")
    assert_predicate status, :success?, "#{said}#{@server.log_end}"
    said
  end

  # The key is in no command line or environment.
  def assert_secret_everywhere
    processes.each do |pid|
      %w[cmdline environ].each { |file| refute_secret(File.binread("/proc/#{pid}/#{file}")) }
    rescue SystemCallError
      next
    end
  end

  # The server's, which are in the group of the first one.
  def processes
    Dir.glob("/proc/[0-9]*/stat").filter_map do |file|
      File.read(file)[/\A(\d+) .*\) \S \d+ #{@server.pid} /m, 1]
    rescue SystemCallError
      nil
    end
  end

  def refute_secret(text)
    @key.lines(chomp: true).reject { |line| line.start_with?("-") }.each { |line| refute_includes text, line[0, 16] }
  end
end
