# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require_relative "support/test_server"

# The `oribi` command with apps in Ruby.
class MoldTest < Minitest::Test
  APP = <<~RUBY
    puts "loaded by \#{Process.pid}"
    run lambda { |env|
      facts = { "rack_env" => ENV["RACK_ENV"], "directory" => Dir.pwd, "hooks" => $oribi_test.to_a.join(","),
                "multithread" => env["rack.multithread"], "struct" => defined?(OpenStruct), "include" => $LOAD_PATH.include?("/nowhere") }
      [200, { "content-type" => "text/plain" }, [facts.map { |name, value| "\#{name}=\#{value}" }.join("\\n")]]
    }
  RUBY

  def test_an_app_runs_in_production_unless_told_otherwise
    oribi { |server| assert_equal "production", fact(server, "rack_env") }
    oribi("-E", "staging", env: { "RAILS_ENV" => "test" }) { |server| assert_equal "staging", fact(server, "rack_env") }
    oribi(env: { "RAILS_ENV" => "test" }) { |server| assert_equal "test", fact(server, "rack_env") }
  end

  def test_files_and_directories_of_the_app
    oribi("-I", "/nowhere", "-r", "ostruct") do |server|
      assert_equal "true", fact(server, "include")
      assert_equal "constant", fact(server, "struct")
    end
  end

  def test_a_script_without_an_ending_is_read_as_a_config_ru
    Dir.mktmpdir do |directory|
      script = File.join(directory, "shop")
      File.write(script, "#!/usr/bin/env ruby\n#{APP}")
      oribi(app: script) { |server| assert_equal "production", fact(server, "rack_env") }
    end
  end

  def test_libraries_that_puma_loads_need_not_be_asked_for
    app = <<~RUBY
      at = Time.parse("2020-02-02T00:00:00Z")
      root = Pathname.new("/") + URI("http://localhost/diary").path.delete_prefix("/")
      run ->(_env) { [200, {}, [root.to_s, at.to_i.to_s, Set[1].size.to_s, Date.new(2020).year.to_s]] }
    RUBY
    TestServer.open(app: app, by: :oribi) { |server| assert_equal "/diary158060160012020", server.get("/").body }
  end

  def test_the_app_is_loaded_once_by_a_process_that_is_no_worker
    oribi("--workers", "3") do |server|
      server.get("/")
      assert_equal 1, server.log.scan("loaded by").size
    end
  end

  def test_the_words_of_the_command_are_not_the_apps
    app = "seen = [$0, ARGV.dup]\nrun ->(_env) { [200, {}, [[seen, $PROGRAM_NAME, ARGV].inspect]] }"
    TestServer.open(app: app, by: :oribi) { |server| assert_equal [["oribi", []], "oribi", []].inspect, server.get("/").body }
  end

  def test_a_configuration_file_that_is_a_pipe
    Dir.mktmpdir do |directory|
      pipe = File.join(directory, "puma.rb")
      File.mkfifo(pipe)
      # It can be read once; nothing is written afterwards.
      text = "threads 2, 3\nafter_fork { $oribi_test = [ENV.key?('ORIBI_CONFIG_TEXT').to_s] }\n"
      writer = Thread.new { File.write(pipe, text) }
      oribi("-C", pipe) do |server|
        writer.join
        assert_equal %w[false true], [fact(server, "hooks"), fact(server, "multithread")]
        worker, = server.wait_for_workers(1)
        server.signal(:HUP)
        Waiting.wait_until("another worker") { server.workers.any? && !server.workers.include?(worker) }
        assert_equal %w[false true], [fact(server, "hooks"), fact(server, "multithread")]
      end
    end
  end

  def test_programs_started_while_the_app_is_loaded_do_not_inherit_the_listeners
    app = <<~RUBY
      puts "inherited: \#{`ls -l /proc/self/fd`.scan("socket:").size}"
      run lambda { |env| [200, {}, [`ls -l /proc/self/fd`.scan("socket:").size.to_s]] }
    RUBY
    TestServer.open(app: app, by: :oribi) do |server|
      assert_equal "0", server.get("/").body
      assert_includes server.log, "inherited: 0\n"
    end
  end

  # The same for libraries' reactions to the signal.
  def test_a_reload_that_is_overtaken_ends_without_complaints
    Dir.mktmpdir do |directory|
      mark = File.join(directory, "mark")
      app = <<~RUBY
        if (text = File.exist?("#{mark}") && File.read("#{mark}"))
          at_exit { warn "put in order" }
          begin
            warn "still loading"
            sleep 60
          ensure
            raise "something else" unless text.empty?
          end
        end
        run ->(_env) { [200, {}, []] }
      RUBY
      oribi(app: app) do |server|
        server.wait_for_log(/listening on/)
        ["", "other"].each.with_index(1) do |text, count|
          File.write(mark, text)
          server.signal(:HUP)
          server.wait_for_log(/(still loading.*){#{count}}/m)
          File.delete(mark)
          server.signal(:HUP)
          server.wait_for_log(/(put in order.*){#{count}}/m)
          server.wait_for_log(/(has taken over.*){#{count}}/m)
        end
        refute_match(/SIGTERM|something else|cannot load/, server.log)
      end
    end
  end

  # The app leaves so many objects that the signal arrives while they are collected, between the end of the file and the fork of
  # the first worker. On a busy machine it may arrive later, so there are some tries.
  def test_a_stop_before_the_first_worker_starts_none
    app = <<~RUBY
      OBJECTS = Array.new(3_000_000) { Object.new }
      run ->(_env) { [200, {}, []] }
      warn "the end of the file"
    RUBY
    logs = Array.new(5).lazy.map { log_of_early_stop(app) }
    assert logs.any? { |log| !log.include?("listening on") }, "a worker has started each time"
  end

  def test_a_configuration_file_with_hooks
    file = <<~RUBY
      puts "read"
      workers 1
      threads 1, 2
      environment "staging"
      frobnicate
      $oribi_test = []
      before_fork { $oribi_test << "before" }
      after_fork { |index| $oribi_test << "after \#{index}" }
      on_booted { warn "it is booted" }
      before_worker_shutdown { |index| warn "worker \#{index} ends" }
    RUBY
    oribi(files: { "oribi.rb" => file }) do |server|
      assert_equal "before,after 0", fact(server, "hooks")
      assert_equal "true", fact(server, "multithread")
      assert_equal "staging", fact(server, "rack_env")
      server.wait_for_log(/it is booted/)
      assert_match(%r{\[info\].* configuration read from \S*/oribi\.rb$}, server.log)
      assert_match(%r{\[warn\].* \S*/oribi\.rb:5: `frobnicate` is not honoured}, server.log)
      assert_equal 1, server.log.scan(/^read$/).size
      server.signal(:TERM)
      assert_equal 0, server.wait_end
      assert_match(/^worker 0 ends$/, server.log)
    end
  end

  def test_the_environment_wins_over_the_file_and_a_flag_over_both
    files = { "oribi.rb" => "workers 3\nthreads 3\ntimeout 3\n" }
    plan = check("--threads", "5", files: files, env: { "WEB_CONCURRENCY" => "2" })
    assert_match(/^ +workers +2 +environment \(WEB_CONCURRENCY\)$/, plan)
    assert_match(/^ +threads +5 +command line$/, plan)
    assert_match(/^ +write-timeout +3s? +oribi\.rb:3$/, plan)
  end

  def test_a_directory_of_the_file_is_changed_to_before_the_app_is_loaded
    oribi(files: { "oribi.rb" => "directory '/'" }) { |server| assert_equal "/", fact(server, "directory") }
  end

  def test_standard_output_of_a_unicorn_rb
    Dir.mktmpdir do |directory|
      out = File.join(directory, "out")
      file = "stdout_path '#{out}'\nafter_fork { |*| puts 'hello' }"
      oribi("-C", "unicorn.rb", files: { "unicorn.rb" => file }) do |server|
        server.get("/")
        assert_equal "hello\n", File.read(out).lines.uniq.join
      end
    end
  end

  # Under a service manager it is a socket, which cannot be opened.
  def test_standard_output_by_its_name
    ours, theirs = UNIXSocket.pair
    file = "stdout_path '/dev/stdout'\nafter_fork { |*| puts 'hello' }"
    oribi("-C", "unicorn.rb", files: { "unicorn.rb" => file }, keep: { out: theirs }) do |server|
      server.get("/")
      assert_includes ours.each_line, "hello\n"
    end
  ensure
    [ours, theirs].each(&:close)
  end

  def test_an_error_handler
    app = "run lambda { |env| raise ArgumentError, 'oops' }"
    file = "lowlevel_error_handler { |error, env, status| [status, {}, [\"\#{error.class} \#{env['PATH_INFO']}\"]] }"
    oribi(app: app, files: { "oribi.rb" => file }) do |server|
      response = server.get("/x")
      assert_equal [500, "ArgumentError /x"], [response.status, response.body]
    end
  end

  def test_checking_says_what_is_wrong
    {
      { app: "raise 'not today'" } => /^cannot load config\.ru: .*not today/,
      { app: "use Missing\n" } => /^cannot load config\.ru: .*uninitialized constant.*Missing/,
      { app: "run (\n" } => /^cannot load config\.ru: .*syntax error/im,
      { app: "exit 3" } => /config\.ru could not be loaded/,
      { app: "run nil" } => /cannot load|defines no app/,
      { files: { "oribi.rb" => "workers 'many'" } } => /^oribi: oribi\.rb:1: bad value `many` for workers/,
      { files: { "oribi.rb" => "\nraise 'no'" } } => /^oribi\.rb:2: no \(RuntimeError\)$/
    }.each do |options, expected|
      text, status = checked(**options)
      refute status.success?, text
      assert_match expected, text
    end
  end

  def test_a_gemfile_that_is_named_is_set_up
    text, status = checked(files: { "Gemfile" => "abort 'the Gemfile is read'" }, env: { "BUNDLE_GEMFILE" => "Gemfile" })
    refute status.success?
    assert_match(/the Gemfile is read|cannot load such file -- bundler/, text)
  end

  private

  def oribi(*arguments, app: APP, **options, &block)
    TestServer.open(by: :oribi, app: app, arguments: ["--workers", "1", *arguments], **options, &block)
  end

  def log_of_early_stop(app)
    oribi("--edge", "off", app: app, wait: false) do |server|
      server.wait_for_log(/the end of the file/)
      server.finish
      assert_predicate server.status, :success?, server.log
      refute_match(/SIGTERM|was killed|cannot load/, server.log)
      return server.log
    end
  end

  def fact(server, name)
    server.get("/").body[/^#{name}=(.*)$/, 1]
  end

  def check(*arguments, **options)
    text, status = checked(*arguments, **options)
    assert status.success?, text
    text
  end

  def checked(*arguments, app: APP, files: {}, env: {})
    Dir.mktmpdir("oribi") do |directory|
      { "config.ru" => app, **files }.each { |name, text| File.write(File.join(directory, name), text) }
      Open3.capture2e({ **TestServer::CLEAN, **env }, TestServer.command, "check", *arguments, chdir: directory)
    end
  end
end
