# frozen_string_literal: true

require_relative "support/configured"
require "open3"

# Every word that a configuration file of Puma or Unicorn may have: either the word is honoured, or a line warns that it is not.
# A word keeps the server from starting only if the server would be less safe without it.
class ConfigWordsTest < Minitest::Test
  include Configured

  # The spelling of each word of Puma.
  PUMA = {
    taken: [
      "after_booted { 1 }", "allow_underscore_headers false", "before_fork { 1 }",
      "before_worker_boot { 1 }", "before_worker_shutdown { 1 }",
      "bind 'tcp://127.0.0.1:1'", "bind 'ssl://0.0.0.0:1?cert=c&key=k&low_latency=true'", "clear_binds!",
      "cluster { 1 }", "debug",
      "directory '/'",
      "early_hints", "enable_keep_alives false", "environment 'test'", "first_data_timeout 1", "force_shutdown_after 1",
      "get :port", "http_content_length_limit 1", "log_requests", "lowlevel_error_handler { 1 }", "max_fast_inline 1",
      "max_io_threads 1", "max_keep_alive 1", "on_booted { 1 }", "on_worker_boot { 1 }", "on_worker_shutdown { 1 }",
      "out_of_band { 1 }", "persistent_timeout 1", "pidfile 'p'", "plugin :tmp_restart", "port 1", "port 1, '::1'",
      "preload_app!", "quiet", "rackup DefaultRackup", "rackup 'config.ru'", "request_timeout 1", "set_remote_address :socket",
      "set_remote_address proxy_protocol: :v1", "bind \"tcp://\#{DefaultTCPHost}:\#{DefaultTCPPort}\"",
      "ssl_bind '0.0.0.0', '1', cert: 'c', key: 'k', verify_mode: 'none', no_tlsv1: true, no_tlsv1_1: false, backlog: 5",
      "ssl_bind '0.0.0.0', '1', cert_pem: \"a\\nb\", key_pem: \"a\\nb\"", "bind 'ssl://0.0.0.0:1?cert=c&key_pem=k'",
      "stdout_redirect 'a', 'b', true", "threads 0, 5", "worker_shutdown_timeout DefaultWorkerShutdownTimeout", "workers 2",
      "workers :auto", "workers ENV['NONE']", "worker_boot_timeout 1"
    ],
    noted: [
      "activate_control_app 'unix:///c'", "activate_control_app 'auto', { auth_token: 'x' }", "after_refork { 1 }",
      "after_stopped { 1 }",
      "after_worker_boot { 1 }", "after_worker_fork { 1 }", "after_worker_shutdown { 1 }", "app { 1 }", "before_refork { 1 }",
      "before_restart { 1 }", "before_thread_exit { 1 }", "before_thread_start { 1 }", "before_worker_fork { 1 }",
      "bind 'abns://x'", "bind_to_activated_sockets", "clean_thread_locals", "custom_logger 1", "default_host '::'",
      "drain_on_shutdown",
      "extra_runtime_dependencies ['x']", "fiber_per_request", "fork_worker", "fork_worker 5",
      "idle_timeout 1", "import_from_control_server",
      "inject { 1 }", "io_selector_backend :auto", "log_formatter { 1 }",
      "mutate_stdout_and_stderr_to_sync_on_write false", "nakayoshi_fork", "on_refork { 1 }", "on_restart { 1 }",
      "on_stopped { 1 }",
      "on_thread_exit { 1 }", "on_thread_start { 1 }", "on_worker_fork { 1 }", "plugin :solid_queue", "preload_app! false",
      "process_hook 1", "prune_bundler", "queue_requests false", "rack_url_scheme 'https'", "rackup 'other.ru'",
      "raise_exception_on_sigterm false",
      "restart_command 'x'", "set_default_host '::'", "set_remote_address header: 'x-real-ip'", "set_remote_address :localhost",
      "set_remote_address '127.0.0.1'", "shutdown_debug", "single { 1 }",
      "silence_fork_callback_warning", "silence_single_worker_warning",
      "state_path 's'", "state_permission 0600", "supported_http_methods :any", "tag 't'", "wait_for_less_busy_worker 0.005",
      "worker_check_interval 1", "worker_culling_strategy :oldest", "worker_directory '/'",
      "worker_timeout DefaultWorkerTimeout", "a_word_of_tomorrow", "another_word 1, b: 2"
    ],
    refused: [
      "ssl_bind '0.0.0.0', '1', cert: 'c', key_pem: 'SECRET', ca_pem: 'SECRET'", "bind 'ssl://0.0.0.0:1?key_pem=SECRET'",
      "ssl_bind '0.0.0.0', '1', cert_pem: 'SECRET', key_pem: 'SECRET', verify_mode: 'perhaps'",
      "ssl_bind '0.0.0.0', '1', cert: 'c', key: 'k', verification_flags: ['x']"
    ]
  }.freeze

  # The spelling of each word of Unicorn.
  UNICORN = {
    taken: [
      "after_fork { |server, worker| 1 }", "after_worker_ready { |server, worker| 1 }", "before_fork { |server, worker| 1 }",
      "client_body_buffer_size 1024", "early_hints true", "listen 1, backlog: 5, tcp_nopush: true", "pid 'p'",
      "preload_app true",
      "rewindable_input false", "stderr_path 'e'", "stdout_path 'o'", "timeout 5", "user 'nobody'", "worker_processes 3",
      "working_directory '/'", "Unicorn::HttpServer::START_CTX[0] = '/bin/unicorn'", "Unicorn::Configurator::RACKUP[:port]"
    ],
    noted: [
      "after_worker_exit { |*| 1 }", "before_exec { |server| 1 }", "check_client_connection true", "default_middleware false",
      "listen 1, sndbuf: 5", "logger 1", "preload_app false", "trust_x_forwarded false", "worker_exec true"
    ],
    refused: []
  }.freeze

  { "puma.rb" => PUMA, "unicorn.rb" => UNICORN }.each do |name, words|
    define_method(:"test_words_of_#{name.delete_suffix(".rb")}") do
      words[:taken].each { |text| assert_empty notes_of(text, name), text }
      words[:noted].each do |text|
        notes = notes_of(text, name)
        assert_equal 1, notes.size, text
        assert_match(/\A#{name}:1: /, notes.first, text)
      end
      words[:refused].each { |text| assert_refused(text, name) }
    end
  end

  def test_the_proxy_protocol_is_that_of_the_server
    assert_equal ["proxy-protocol=v1"], told(read("set_remote_address proxy_protocol: :v1", name: "puma.rb").first)
  end

  def test_advice
    {
      "state_path 'x'" => /oribi ctl/, "set_remote_address header: 'x-real-ip'" => /trusted_proxies/,
      "activate_control_app" => /control socket/
    }.each { |text, expected| assert_match(expected, read(text, name: "puma.rb").last.first, text) }
  end

  def test_options_of_addresses_for_tls
    {
      "ssl_bind '::1', 1, cert: 'c', key: 'k', reuse: true, backlog: 7" => %w[backlog=7 listen=ssl://::1:1?cert=c&key=k],
      "bind 'ssl://a:1?cert=c%20c&no_tlsv1=false&backlog=7'" => %w[backlog=7 listen=ssl://a:1?cert=c%20c]
    }.each do |text, expected|
      configuration, = read(text, name: "puma.rb")
      assert_equal expected, configuration.to_pass.map { |said| "#{said.name}=#{configuration.text_of(said)}" }
    end
  end

  # The library, and the code of the words, under ruby -w.
  def test_no_warnings_of_ruby
    file("puma.rb", PUMA[:taken].join("\n"))
    file("load.rb", <<~RUBY)
      require "oribi"
      require "oribi/mold"
      require "oribi/handler"
      require "oribi/config_file/report"
      Oribi::ConfigFile.read("puma.rb", Oribi::Configuration.new)
      Oribi::Options.new({ Port: 1 }).configuration
    RUBY
    library = $LOAD_PATH.find { |path| path.end_with?("hosts/ruby/lib") }
    _, said, status = Open3.capture3(RbConfig.ruby, "-w", "-I", library, "load.rb")
    assert status.success?, said
    assert_empty said.lines.grep(/warn/)
  end

  private

  # The messages about a file; the server must accept the rest.
  def notes_of(text, name)
    notes = []
    _, said = capture_io do
      configuration, notes = read(text, name: name)
      configuration.settings
    end
    notes + said.lines.map { |line| line.delete_prefix("oribi: ") }
  rescue Oribi::Error => e
    flunk "#{text}: #{e.message}"
  end

  def assert_refused(text, name)
    error = assert_raises(Oribi::Error, text) do
      read(text, name: name).first.settings
    end
    assert_match(/\A#{name}:1: /, error.message)
    refute_match(/SECRET/, error.message)
  end
end
