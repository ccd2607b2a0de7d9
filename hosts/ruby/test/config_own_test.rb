# frozen_string_literal: true

require_relative "support/configured"

# Configuration files in Oribi's words and in Rhebok's.
class ConfigOwnTest < Minitest::Test
  include Configured

  def test_every_setting_is_a_word_by_each_of_its_names
    Oribi::Setting::TABLE.each do |setting|
      next if %w[listen host port].include?(setting.name)

      setting.names.each do |name|
        word = name.tr("-", "_")
        configuration, notes = read(setting.switch? ? word : "#{word} 8")
        configuration.to_pass.each { |said| assert_equal [setting.name, "oribi.rb:1"], [said.name, said.origin.words], name }
        assert_equal 1, configuration.to_pass.size, name
        assert_empty notes, name
      end
    end
  end

  def test_the_words_of_a_rhebok_file
    text = <<~RUBY
      host '127.0.0.1'
      port 9292
      backlog 64
      reuseport true
      max_workers ENV["CONCURRENCY"] || 3
      timeout 30
      max_request_per_child 100
      min_request_per_child 50
      oobgc true
      max_gc_per_request 10
      min_gc_per_request 4
      chunked_transfer true
      spawn_interval 2
      err_respawn_interval 3
      before_fork {
        $oribi_test << :before
      }
      after_fork {
        $oribi_test << :after
      }
    RUBY
    configuration, notes = read(text, name: "rhebok_config.rb", persona: Oribi::Persona::RHEBOK)
    expected = %w[
      backlog=64 chunked-transfer=on host=127.0.0.1 max-requests=100 min-requests=50 port=9292 respawn-interval=3 reuse-port=on
      spawn-interval=2 timeout=30 workers=3
    ]
    assert_equal expected, told(configuration).sort
    assert_equal({ every: 10, at_random_from: 4 }, configuration.ruby_options[:out_of_band])
    assert_empty notes
    $oribi_test = []
    configuration.hooks[:before_fork].each { |hook| hook.call(1) }
    configuration.hooks[:after_fork].each { |hook| hook.call(1) }
    assert_equal %i[before after], $oribi_test
  end

  def test_the_path_of_a_rhebok_file
    configuration, = read("path '/tmp/x.sock'\nport 80", persona: Oribi::Persona::RHEBOK)
    assert_equal %w[listen=unix:/tmp/x.sock?mode=777 port=80], told(configuration)
  end

  def test_words_take_what_ruby_can_say
    configuration, = read("count = 2\nworkers count * 2\nkeepalive_timeout 1.5\nlog_level :debug\nlisten ':80', ':81'\n")
    assert_equal %w[workers=4 keepalive-timeout=1.5 log-level=debug listen=:80 listen=:81], told(configuration)
  end

  def test_a_file_has_instance_variables_and_methods_of_its_own
    configuration, = read("@path = @file = @port = @sheet = 3\ndef four = 4\nworkers @path\nthreads four\n")
    assert_equal %w[workers=3 threads=4], told(configuration)
  end

  def test_no_workers_is_one_worker
    assert_equal ["workers=1"], told(read("workers 0").first)
    assert_equal ["workers=auto"], told(read("workers :auto").first)
  end

  def test_a_port_beside_other_addresses_is_one_more
    assert_equal %w[listen=:80 listen=*:81], told(read("port 81\nlisten ':80'").first)
    assert_equal %w[listen=:80 listen=h:81], told(read("port 81, 'h'\nlisten ':80'").first)
    assert_equal ["port=81"], told(read("port 81").first)
  end

  # ---- Hooks ----

  def test_hooks_are_called_with_what_they_take
    text = <<~RUBY
      log = $oribi_test
      before_fork { log << "before" }
      after_fork { |index| log << "after \#{index}" }
      before_worker_boot { |index| log << "boot \#{index}" }
      before_worker_shutdown { |index| log << "shutdown \#{index}" }
      on_booted { log << "booted" }
      out_of_band { log << "band" }
      after_fork { |server, worker| log << "pair \#{server.class} \#{worker.nr}" }
      after_fork ->(index) { log << "lambda \#{index}" }
      after_fork(Struct.new(:log) { def call(index) = log << "callable \#{index + 1}" }.new(log))
    RUBY
    $oribi_test = []
    configuration, notes = read(text)
    assert_empty notes
    assert_equal %i[before_fork after_fork worker_stopping server_ready out_of_band], configuration.hooks.keys
    configuration.hooks.each { |moment, hooks| hooks.each { |hook| moment == :server_ready ? hook.call : hook.call(2) } }
    after = ["after 1", "boot 1", "pair Oribi::UnicornServer 1", "lambda 1", "callable 2"]
    assert_equal ["before", *after, "shutdown 1", "booted", "band"], $oribi_test
  end

  def test_a_hook_without_a_block_is_an_error
    error = assert_raises(Oribi::Error) { read("workers 1\nafter_fork\n") }
    assert_equal "oribi.rb:2: `after_fork` needs a block", error.message
  end

  # ---- Other things than settings ----

  def test_what_concerns_ruby_alone
    configuration, = read("environment 'staging'\nearly_hints true\nerror_handler { |error| error }\noobgc\n")
    assert_empty told(configuration)
    assert_equal "staging", configuration.environment
    ruby = configuration.ruby_options
    assert_equal [true, 7, 5], [ruby[:early_hints], ruby[:error_handler].call(7), ruby[:out_of_band][:every]]
    ENV["RACK_ENV"] = "test"
    assert_equal "test", configuration.environment
  end

  def test_error_handlers_are_given_what_they_take
    handlers = [-> { [] }, ->(error) { [error] }, ->(error, env) { [error, env] }, ->(*all) { all },
                proc { |error, env| [error, env] }, ->(error, env, status) { [error, env, status] }]
    given = handlers.map do |handler|
      configuration = Oribi::Configuration.new
      configuration.set("lowlevel_error_handler", handler, Oribi::Configuration::Origin.caller("test"))
      configuration.ruby_options[:error_handler].call(:error, :env, 500)
    end
    assert_equal [[], %i[error], %i[error env], [:error, :env, 500], %i[error env], [:error, :env, 500]], given
  end

  def test_a_directory_to_change_to
    assert_equal File.join(@directory, "shop"), read("directory 'shop'").first.directory
    assert_nil read("workers 1").first.directory
  end

  def test_paths_are_seen_from_that_directory
    configuration, = read(<<~RUBY)
      pid_file "x.pid"
      listen "tmp/x.sock", "/y.sock", ":80"
      error_log "-"
      access_log "a"
      stdout_path "o"
      directory "/srv"
    RUBY
    expected = %w[pid-file=/srv/x.pid listen=unix:/srv/tmp/x.sock listen=unix:/y.sock listen=:80 error-log=- access-log=/srv/a]
    assert_equal expected, told(configuration)
    assert_equal "/srv/o", configuration[:standard_output]
    assert_equal ["listen=unix:/srv/x?mode=660"], told(read("bind 'unix://x?mode=0660'\ndirectory '/srv'").first)
    assert_equal %w[pid-file=x.pid], told(read("pid_file 'x.pid'").first)
  end

  # ---- What is wrong ----

  def test_an_unknown_word_is_said_with_its_place
    configuration, notes = read("workers 1\nwrkers 3\nfrobnicate\nfrobnicate 1, 2\nif true\n  frobnicate { 1 }\nend\n")
    unknown = %w[3 4 6].map { |line| "oribi.rb:#{line}: `frobnicate` is not honoured: no such word is known" }
    assert_equal unknown, notes
    _, err = capture_io { configuration.settings }
    assert_equal "oribi: oribi.rb:2: unknown setting `wrkers`; did you mean `workers`?\n", err
  end

  def test_a_value_that_does_not_fit_is_said_with_its_place
    configuration, = read("\nworkers 'many'\n")
    error = assert_raises(Oribi::Error) { configuration.settings }
    expected = "oribi.rb:2: bad value `many` for workers: expected a whole number from 0 to 1024, or auto, or two as MIN:MAX"
    assert_equal expected, error.message
  end

  def test_what_the_file_raises_is_said_with_its_place
    {
      "workers 1\nraise 'no such luck'\n" => "oribi.rb:2: no such luck (RuntimeError)",
      "workers 1\n\nnil.frobnicate\n" => /\Aoribi\.rb:3: undefined method `?'?frobnicate' for nil.*\(NoMethodError\)\z/,
      "workers Missing::COUNT\n" => /\Aoribi\.rb:1: uninitialized constant .*Missing.* \(NameError\)\z/,
      "workers 1\nworkers (\n" => /\Aoribi\.rb:\d: .*\(SyntaxError\)\z/m,
      "\nrequire 'no/such/library'\n" => /\Aoribi\.rb:2: cannot load such file -- .* \(LoadError\)\z/,
      "File.read('/missing')\n" => /\Aoribi\.rb:1: No such file.* \(Errno::ENOENT\)\z/,
      "threads\n" => /\Aoribi\.rb:1: wrong number of arguments.* \(ArgumentError\)\z/
    }.each do |text, expected|
      error = assert_raises(Oribi::Error, text) { read(text) }
      expected.is_a?(Regexp) ? assert_match(expected, error.message) : assert_equal(expected, error.message)
    end
    error = assert_raises(Oribi::Error) { Oribi::ConfigFile.read("missing.rb", Oribi::Configuration.new) }
    assert_match(/\Acannot read the configuration file: No such file.*missing\.rb/, error.message)
  end

  # ---- Files ----

  def test_a_file_loads_another
    file("shared.rb", "threads 4\nfrobnicate\n")
    configuration, notes = read("load 'shared.rb'\nworkers 2\n")
    assert_equal %w[threads=4 workers=2], told(configuration)
    assert_equal ["shared.rb:1", "oribi.rb:2"], (configuration.to_pass.map { |said| said.origin.words })
    assert_equal ["shared.rb:2: `frobnicate` is not honoured: no such word is known"], notes
  end

  def test_the_first_file_that_is_there_is_found
    assert_nil Oribi::ConfigFile.find
    %w[config/unicorn.rb config/puma.rb oribi.rb config/oribi.rb].each do |name|
      file(name, "")
      assert_equal name, Oribi::ConfigFile.find
      assert_equal File.join(@directory, name), Oribi::ConfigFile.find(@directory)
    end
  end

  def test_the_example_of_the_manual
    manual = File.read(File.expand_path("../../../docs/ruby.md", __dir__))
    configuration, notes = read(manual[%r{^# config/oribi\.rb\n.*?(?=^```)}m])
    expected = %w[workers=4 threads=1:5 listen=unix:/run/shop/app.sock?mode=660 max-requests=10000 request-timeout=30s]
    assert_equal expected, told(configuration)
    assert_empty notes
  end

  def test_the_command_knows_the_same_places
    source = File.read(File.expand_path("../../../crates/cli/src/ruby.rs", __dir__))
    assert_equal Oribi::ConfigFile::PLACES, source[/CONFIGURATIONS[^\[]*\[[^\]]*\] = \[([^\]]*)\]/, 1].scan(/"([^"]+)"/).flatten
  end
end
