# frozen_string_literal: true

require_relative "support/configured"

# Unicorn's configuration files.
class ConfigUnicornTest < Minitest::Test
  include Configured

  def read_unicorn(text)
    read(text, name: "config/unicorn.rb")
  end

  def test_a_file_as_people_have_it
    configuration, notes = read_unicorn(<<~RUBY)
      @dir = "/srv/shop"
      worker_processes 4
      working_directory @dir
      listen "\#{@dir}/tmp/unicorn.sock", backlog: 64
      listen 8080, tcp_nopush: true
      timeout 30
      pid "\#{@dir}/tmp/unicorn.pid"
      stderr_path "err.log"
      stdout_path "out.log"
      preload_app true
      GC.respond_to?(:copy_on_write_friendly=) and GC.copy_on_write_friendly = true
      check_client_connection false
      before_fork do |server, worker|
        defined?(ActiveRecord::Base) and ActiveRecord::Base.connection.disconnect!
        old = "\#{server.config[:pid]}.oldbin"
        $oribi_test << [old, server.pid, worker.nr, server.worker_processes, server.config[:listen]]
      end
      after_fork do |server, worker|
        server.logger.info("worker=\#{worker.nr} ready")
        $oribi_test << worker.nr
      end
    RUBY
    expected = %w[
      workers=4 backlog=64 listen=unix:/srv/shop/tmp/unicorn.sock listen=8080 request-timeout=30
      pid-file=/srv/shop/tmp/unicorn.pid error-log=/srv/shop/err.log
    ]
    assert_equal expected, told(configuration)
    assert_equal "/srv/shop", configuration.directory
    assert_equal "/srv/shop/out.log", configuration[:standard_output]
    assert_equal(["config/unicorn.rb:12: `check_client_connection`"], notes.map { |note| note[/\A.*`/] })
    $oribi_test = []
    configuration.hooks.each_value { |hooks| hooks.each { |hook| hook.call(2) } }
    assert_equal [["/srv/shop/tmp/unicorn.pid.oldbin", "/srv/shop/tmp/unicorn.pid", 1, 4, "8080"], 1], $oribi_test
  end

  def test_addresses
    {
      "listen 8080" => ["listen=8080"], "listen '8080'" => ["listen=8080"], "listen ':80'" => ["listen=:80"],
      "listen '127.0.0.1:80'" => ["listen=127.0.0.1:80"], "listen '[::1]:80'" => ["listen=[::1]:80"],
      "listen '*:80', tcp_nodelay: true, reuseport: true" => %w[reuse-port=on listen=*:80],
      "listen '/x.sock', umask: 0077, backlog: 9" => %w[backlog=9 listen=unix:/x.sock?mode=700],
      "listen 'unix:/x.sock'" => ["listen=unix:/x.sock"],
      "listen 'tmp/x.sock'" => ["listen=unix:tmp/x.sock"], "listen '~/x.sock'" => ["listen=unix:#{Dir.home}/x.sock"],
      "listen 1\nlisten 2" => %w[listen=1 listen=2]
    }.each do |text, expected|
      configuration, notes = read_unicorn(text)
      assert_equal expected, told(configuration), text
      assert_empty notes, text
    end
    _, notes = read_unicorn("listen 80, sndbuf: 1, tcp_nodelay: true, rcvbuf: 2")
    assert_equal ["config/unicorn.rb:1: `sndbuf`, `rcvbuf` of an address is not honoured"], notes
  end

  def test_the_time_is_that_of_the_app_in_a_unicorn_rb_and_of_clients_elsewhere
    assert_equal ["request-timeout=60"], told(read_unicorn("timeout 60").first)
    assert_equal ["timeout=60"], told(read("timeout 60").first)
  end

  def test_one_argument_of_a_hook_is_the_server
    $oribi_test = []
    configuration, = read_unicorn(<<~RUBY)
      after_fork { |server| $oribi_test << server.class }
      after_worker_ready { |_, worker| $oribi_test << worker.nr }
    RUBY
    configuration.hooks[:after_fork].each { |hook| hook.call(3) }
    assert_equal [Oribi::UnicornServer, 2], $oribi_test
  end

  def test_content_and_its_buffer
    configuration, notes = read_unicorn("rewindable_input true\nclient_body_buffer_size 65536\nearly_hints true\n")
    assert_equal ["body-buffer-size=65536"], told(configuration)
    assert_empty notes
  end

  def test_what_is_not_honoured_is_named_with_its_place
    text = <<~RUBY
      before_exec { |server| 1 }
      logger Object.new
      default_middleware false
      after_worker_exit { |server, worker, status| 1 }
      check_client_connection true
      preload_app false
    RUBY
    configuration, notes = read_unicorn(text)
    words = %w[before_exec logger default_middleware after_worker_exit check_client_connection preload_app]
    expected = words.map.with_index(1) { |word, line| "config/unicorn.rb:#{line}: `#{word}` is not honoured:" }
    assert_equal(expected, notes.map { |note| note[/\A.*honoured:/] })
    assert_empty told(configuration)
    assert_empty configuration.hooks
  end

  def test_who_the_workers_become
    assert_equal %w[user=www group=web], told(read_unicorn(%(user "www", "web"\n)).first)
    assert_equal %w[user=www], told(read_unicorn(%(user "www"\n)).first)
  end

  # The status of a process in which a hook makes the worker a user, and then reads the user's name.
  def status_of_user(*arguments)
    child = fork do
      $stderr.reopen(File::NULL)
      Oribi::UnicornWorker.new(1).user(*arguments)
      entry = Etc.getpwnam("nobody")
      Process.exit!([Process.uid, Process.euid, Process.egid] == [entry.uid, entry.uid, entry.gid] ? 0 : 2)
    end
    Process.wait2(child).last.exitstatus
  end

  def test_a_hook_makes_its_worker_another_user_or_the_worker_ends
    assert_equal 0, Process.euid, "these tests run as root"
    assert_equal 0, status_of_user("nobody")
    assert_equal 1, status_of_user("no-such-user")
    assert_equal 1, status_of_user("nobody", "no-such-group")
  end

  # The objects never raise NoMethodError; their messages go to the log of a server that runs.
  def test_the_objects_of_hooks_answer_everything
    server = Oribi::UnicornServer.new({ pid: "x.pid", timeout: 5 })
    worker = Oribi::UnicornWorker.new(3)
    assert_nil server.listen("/x.sock")
    assert_equal ["x.pid", 5, 2], [server.pid, server.timeout, worker.nr]
    assert worker == 2
    assert_equal [server, worker], [[server], [worker]].flatten
    server.logger.warn("a warning")
  end
end
