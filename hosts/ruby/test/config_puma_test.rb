# frozen_string_literal: true

require_relative "support/configured"

# Puma's configuration files.
class ConfigPumaTest < Minitest::Test
  include Configured

  def read_puma(text)
    read(text, name: "puma.rb")
  end

  def assert_told(expected, text)
    configuration, notes = read_puma(text)
    assert_equal expected, told(configuration), text
    assert_empty notes, text
  end

  # The file that `rails new` writes, for several versions.
  def test_the_files_that_rails_makes
    older, notes = read_puma(<<~RUBY)
      max_threads_count = ENV.fetch("RAILS_MAX_THREADS") { 5 }
      min_threads_count = ENV.fetch("RAILS_MIN_THREADS") { max_threads_count }
      threads min_threads_count, max_threads_count
      worker_timeout 3600 if ENV.fetch("RAILS_ENV", "development") == "development"
      port ENV.fetch("PORT") { 3000 }
      environment ENV.fetch("RAILS_ENV") { "development" }
      pidfile ENV.fetch("PIDFILE") { "tmp/pids/server.pid" }
      plugin :tmp_restart
    RUBY
    assert_equal %w[threads=5:5 host=0.0.0.0 pid-file=tmp/pids/server.pid restart-file=tmp/restart.txt port=3000], told(older)
    assert_equal "development", older.environment
    assert_equal ["puma.rb:4: `worker_timeout`"], (notes.map { |note| note[/\A.*?`.*?`/] })

    newer, notes = read_puma(<<~RUBY)
      threads_count = ENV.fetch("RAILS_MAX_THREADS", 3)
      threads threads_count, threads_count
      port ENV.fetch("PORT", 3000)
      plugin :tmp_restart
      plugin :solid_queue if ENV["SOLID_QUEUE_IN_PUMA"]
      pidfile ENV["PIDFILE"] if ENV["PIDFILE"]
    RUBY
    assert_equal %w[threads=3:3 host=0.0.0.0 restart-file=tmp/restart.txt port=3000], told(newer)
    assert_empty notes
  end

  def test_addresses
    {
      "bind 'tcp://0.0.0.0:9292'" => ["listen=0.0.0.0:9292"],
      "bind 'tcp://[::1]:80'" => ["listen=[::1]:80"],
      "bind 'tcp://0.0.0.0:80?backlog=64&reuse_port&low_latency=true'" => %w[backlog=64 reuse-port=on listen=0.0.0.0:80],
      "bind 'unix:///var/run/puma.sock'" => ["listen=unix:/var/run/puma.sock"],
      "bind 'unix:///x.sock?umask=0111'" => ["listen=unix:/x.sock?mode=666"],
      "bind 'unix:///x.sock?umask=0111&mode=0700&backlog=7'" => %w[backlog=7 listen=unix:/x.sock?mode=700],
      "bind 'tcp://0.0.0.0:1'\nbind 'unix://x.sock'" => %w[listen=0.0.0.0:1 listen=unix:x.sock],
      "bind 'ssl://0.0.0.0:443?key=x&cert=y'" => ["listen=ssl://0.0.0.0:443?key=x&cert=y"],
      "ssl_bind '0.0.0.0', '443', { key: 'a b.key', cert: '/c.crt' }" => ["listen=ssl://0.0.0.0:443?key=a%20b.key&cert=/c.crt"],
      "ssl_bind '[::]', 443, cert: 'x', verify_mode: 'peer'" => ["listen=ssl://[::]:443?cert=x&verify_mode=peer"],
      "port 80" => %w[host=0.0.0.0 port=80],
      "port 80, '127.0.0.1'" => %w[port=80 host=127.0.0.1],
      "port 80\nbind 'unix:///x.sock'" => %w[listen=unix:/x.sock listen=0.0.0.0:80]
    }.each { |text, expected| assert_told(expected, text) }
  end

  def test_workers_and_threads
    {
      "workers :auto" => ["workers=auto"], "workers 0" => ["workers=1"], "workers ENV.fetch('N') { '4' }" => ["workers=4"],
      "threads 0, 16" => ["threads=1:16"], "threads '5', '5'" => ["threads=5:5"], "preload_app!" => [],
      "max_io_threads 5" => ["max-io-threads=5"], "max_io_threads '5'" => ["max-io-threads=5"]
    }.each { |text, expected| assert_told(expected, text) }
  end

  def test_times_and_limits
    {
      "worker_shutdown_timeout 20" => ["graceful-timeout=20"], "persistent_timeout 20" => ["keepalive-timeout=20"],
      "first_data_timeout 10" => ["header-timeout=10"], "force_shutdown_after 25" => ["graceful-timeout=25"],
      "force_shutdown_after :forever" => ["graceful-timeout=off"],
      "force_shutdown_after :immediately" => ["graceful-timeout=0"], "request_timeout 9" => ["request-timeout=9"],
      "max_keep_alive 999" => ["max-keepalive-requests=999"], "max_fast_inline 10" => ["max-pipelined-requests=10"],
      "max_fast_inline Float::INFINITY" => ["max-pipelined-requests=65535"],
      "http_content_length_limit 1000" => ["max-body-size=1000"]
    }.each { |text, expected| assert_told(expected, text) }
  end

  def test_keep_alive_can_be_turned_off
    said = read_puma("enable_keep_alives false").first.to_pass.first
    assert_equal %w[keepalive disable-keepalive], [said.spelling, said.name]
  end

  def test_files
    {
      "pidfile 'x.pid'" => ["pid-file=x.pid"], "stdout_redirect nil, 'err.log', true" => ["error-log=err.log"],
      "plugin :tmp_restart" => ["restart-file=tmp/restart.txt"],
      "log_requests" => ["access-log=-", "access-log-format=rack"], "quiet" => ["access-log=off"],
      "debug" => ["log-level=debug"], "clear_binds!" => []
    }.each { |text, expected| assert_told(expected, text) }
    assert_equal "out.log", read_puma("stdout_redirect 'out.log'").first[:standard_output]
  end

  def test_hooks
    $oribi_test = []
    configuration, notes = read_puma(<<~RUBY)
      before_fork { $oribi_test << :once }
      on_worker_boot { |index| $oribi_test << [:boot, index] }
      before_worker_boot { $oribi_test << :boot_too }
      on_worker_shutdown { |index| $oribi_test << [:down, index] }
      before_worker_shutdown { $oribi_test << :down_too }
      on_booted { $oribi_test << :booted }
      after_booted { $oribi_test << :booted_too }
      out_of_band { $oribi_test << :band }
      lowlevel_error_handler { |error, env, status| [status, {}, [error]] }
    RUBY
    assert_empty notes
    # Puma calls it before the first fork only.
    2.times { |number| configuration.hooks[:before_fork].each { |hook| hook.call(number + 1) } }
    in_workers = configuration.hooks.values_at(:after_fork, :worker_stopping, :out_of_band).flatten
    in_workers.each { |hook| hook.call(1) }
    configuration.hooks[:server_ready].each(&:call)
    expected = [:once, [:boot, 0], :boot_too, [:down, 0], :down_too, :band, :booted, :booted_too]
    assert_equal expected, $oribi_test
    assert_equal [500, {}, [:oops]], configuration[:error_handler].call(:oops, {}, 500)
  end

  def test_hooks_with_the_same_key_share_a_hash
    $oribi_test = []
    configuration, notes = read_puma(<<~RUBY)
      before_worker_boot(:jobs) { |index, data| data[:started] = index }
      on_worker_boot("jobs") { |index, data| $oribi_test << [index, data] }
      on_worker_boot(:other) { |*arguments| $oribi_test << arguments }
      before_worker_shutdown(:jobs) { |_, data| $oribi_test << data[:started] }
      on_worker_shutdown(:jobs) { $oribi_test << :down }
    RUBY
    assert_empty notes
    configuration.hooks.values_at(:after_fork, :worker_stopping).flatten.each { |hook| hook.call(3) }
    assert_equal [[2, { started: 2 }], [2, {}], 2, :down], $oribi_test
  end

  def test_blocks_for_servers_with_workers_are_run_after_the_file
    $oribi_test = []
    configuration, notes = read_puma(<<~RUBY)
      cluster do
        before_worker_boot { $oribi_test << :boot }
        threads 2, get(:workers)
        fork_worker
      end
      single { $oribi_test << :single }
      workers 7
    RUBY
    assert_equal %w[workers=7 threads=2:7], told(configuration)
    configuration.hooks[:after_fork].each { |hook| hook.call(1) }
    assert_equal [:boot], $oribi_test
    assert_equal(["puma.rb:6: `single`", "puma.rb:4: `fork_worker`"], notes.map { |note| note[/\A.*?`.*?`/] })
    error = assert_raises(Oribi::Error) { read_puma("cluster do\n  fail 'oops'\nend") }
    assert_equal "puma.rb:2: oops (RuntimeError)", error.message
  end

  def test_what_is_not_honoured_is_named_with_its_place
    words = %w[
      activate_control_app after_refork after_stopped after_worker_fork app before_refork before_restart before_thread_exit
      before_thread_start bind_to_activated_sockets custom_logger drain_on_shutdown extra_runtime_dependencies fiber_per_request
      fork_worker import_from_control_server io_selector_backend log_formatter mutate_stdout_and_stderr_to_sync_on_write
      nakayoshi_fork on_refork on_restart on_stopped on_thread_exit on_thread_start plugin prune_bundler queue_requests
      rack_url_scheme rackup raise_exception_on_sigterm restart_command set_remote_address shutdown_debug
      silence_fork_callback_warning silence_single_worker_warning state_path state_permission supported_http_methods tag
      wait_for_less_busy_worker worker_check_interval worker_culling_strategy worker_directory
    ]
    calls = words.map.with_index { |word, index| ["#{word} 1", "#{word} 1, b: 2", "#{word}(1) { |*| 3 }"][index % 3] }
    configuration, notes = read_puma(calls.join("\n"))
    expected = words.map.with_index(1) { |word, line| "puma.rb:#{line}: `#{word}` is not honoured:" }
    assert_equal(expected, notes.map { |note| note[/\A.*honoured:/] })
    assert_empty told(configuration)
    _, notes = read_puma("worker_timeout 60\nidle_timeout 60\nbefore_fork { 1 }")
    assert_equal(["`worker_timeout`", "`idle_timeout`"], notes.map { |note| note[/`.*?`/] })
    assert_equal 1, read_puma("preload_app! false").last.size
  end

  def test_rackups_own_host_is_the_default_of_a_port
    file("config/puma.rb", "port 4000")
    configuration = options(Host: "localhost", Port: 9292)
    assert_equal %w[host=localhost port=4000], told(configuration).sort
  end
end
