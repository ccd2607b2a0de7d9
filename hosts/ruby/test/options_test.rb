# frozen_string_literal: true

require_relative "support/configured"
require "oribi/handler"

class OptionsTest < Minitest::Test
  include Configured

  # The defaults of rackup, with the very objects of its source.
  RACKUP = { environment: "development", pid: nil, Port: 9292, Host: "localhost", AccessLog: [], config: "config.ru" }.freeze

  # ---- As Rhebok ----

  def test_every_option_of_rhebok
    configuration = rhebok(
      Host: "127.0.0.1", Port: "8080", BackLog: "64", ReusePort: "yes", MaxWorkers: "3", Timeout: "7.5",
      MaxRequestPerChild: "100", MinRequestPerChild: "50", SpawnInterval: "2", ErrRespawnInterval: "3"
    )
    expected = %w[
      backlog=64 chunked-transfer=off host=127.0.0.1 max-requests=100 min-requests=50 port=8080 respawn-interval=3
      reuse-port=yes spawn-interval=2 timeout=7.5 workers=3
    ]
    assert_equal expected, told(configuration).sort
  end

  def test_the_defaults_of_rhebok
    expected = %w[chunked-transfer=off host=0.0.0.0 max-requests=1000 port=9292 timeout=300 workers=5]
    assert_equal expected, told(rhebok).sort
    assert_equal expected.map { |text| text.sub("0.0.0.0", "localhost") }, told(rhebok(**RACKUP)).sort
    ruby = rhebok.ruby_options
    assert_nil ruby[:out_of_band]
    assert_empty ruby[:hooks]
  end

  def test_the_environment_wins_over_a_default_of_rhebok_and_gives_way_to_its_option
    ENV["WEB_CONCURRENCY"] = "7"
    ENV["PORT"] = "8000"
    assert_empty told_of(rhebok(**RACKUP), "workers", "port")
    assert_equal ["workers=2"], told_of(rhebok(MaxWorkers: "2"), "workers")
  end

  def test_a_path_is_a_socket_for_everyone
    assert_equal ["listen=unix:/tmp/x.sock?mode=777"], told_of(rhebok(**RACKUP, Path: "/tmp/x.sock"), "listen", "host", "port")
    assert_equal ["listen=unix:x?mode=600"], told_of(rhebok(Path: "x?mode=600"), "listen")
    assert_equal ["listen=unix:x"], told_of(options(**RACKUP, Path: "x"), "listen", "host", "port")
  end

  def test_a_host_may_be_an_address_with_a_certificate
    {
      "ssl://localhost:3000?cert=c&key=k" => "ssl://localhost:3000?cert=c&key=k",
      "ssl://localhost?cert=c:d" => "ssl://localhost:9292?cert=c:d",
      "https://[::1]?cert=c" => "https://[::1]:9292?cert=c",
      "https://[::1]:1?cert=c" => "https://[::1]:1?cert=c",
      "ssl://127.0.0.1" => "ssl://127.0.0.1:9292"
    }.each do |host, address|
      assert_equal ["listen=#{address}"], told_of(options(**RACKUP, Host: host), "listen", "host")
    end
    assert_equal ["listen=ssl://a:80?cert=c"], told_of(options(Host: "ssl://a?cert=c", Port: "80"), "listen", "host")
  end

  def test_a_range_of_requests_that_is_none_is_no_range
    [%w[100 100], %w[200 100], %w[5 0]].each do |least, most|
      configuration = rhebok(MinRequestPerChild: least, MaxRequestPerChild: most)
      assert_equal ["max-requests=#{most}"], told_of(configuration, "max-requests", "min-requests")
    end
  end

  def test_garbage_collection_between_requests
    assert_equal({ every: 5, at_random_from: nil }, rhebok(OobGC: true).ruby_options[:out_of_band])
    collecting = rhebok(OobGC: "yes", MaxGCPerRequest: "10", MinGCPerRequest: "4").ruby_options[:out_of_band]
    assert_equal({ every: 10, at_random_from: 4 }, collecting)
    assert_nil rhebok(OobGC: "true", MinGCPerRequest: "9").ruby_options[:out_of_band][:at_random_from]
    %w[no false off 0].each { |word| assert_nil rhebok(OobGC: word, MaxGCPerRequest: "10").ruby_options[:out_of_band], word }
    error = assert_raises(Oribi::Error) { rhebok(OobGC: true, MaxGCPerRequest: "many").ruby_options }
    assert_match(/bad value `many`/, error.message)
  end

  def test_chunked_transfer_in_every_spelling
    assert_equal ["chunked-transfer=off"], told_of(rhebok, "chunked-transfer")
    %i[ChunkedTransfer Chunked_Transfer chunked_transfer].each do |name|
      assert_equal ["chunked-transfer=on"], told_of(rhebok(name => true), "chunked-transfer")
      assert_equal ["chunked-transfer=yes"], told_of(rhebok(name => "yes"), "chunked-transfer")
    end
    assert_empty told_of(options, "chunked-transfer")
  end

  def test_hooks_are_options
    calls = []
    configuration = rhebok(BeforeFork: -> { calls << :before }, AfterFork: ->(index) { calls << index })
    configuration.hooks.each_value { |hooks| hooks.each { |hook| hook.call(3) } }
    assert_equal [:before, 2], calls
    assert_equal %i[before_fork after_fork], configuration.hooks.keys
    error = assert_raises(Oribi::Error) { rhebok(AfterFork: "puts 1") }
    assert_equal "AfterFork must respond to call", error.message
  end

  # ---- As Oribi ----

  def test_every_setting_by_each_of_its_names_in_every_spelling
    Oribi::Setting::TABLE.each do |setting|
      setting.names.each do |name|
        words = name.split("-")
        spellings = [name, name.tr("-", "_"), words.map(&:capitalize).join, words.join, name.upcase].uniq
        spellings -= %w[pid host port path Host Port] # rackup's own
        spellings.each do |spelling|
          configuration = options(spelling.to_sym => example(setting))
          assert_equal ["#{setting.name}=#{example(setting)}"], told(configuration), spelling
        end
      end
    end
  end

  def test_the_defaults_are_the_servers_own_but_for_host_and_port
    assert_equal %w[host=localhost port=9292], told(options(**RACKUP)).sort
    assert_empty told(options)
  end

  def test_rackups_host_and_port_give_way_to_the_environment_and_a_users_do_not
    ENV["PORT"] = "8000"
    ENV["HOST"] = "::1"
    assert_empty told(options(**RACKUP))
    # A command line's texts are other objects than those of rackup's source.
    assert_equal %w[host=localhost port=9292], told(options(**RACKUP, Host: +"localhost", Port: +"9292")).sort
  end

  def test_rails_says_which_options_are_its_users
    ENV["PORT"] = "8000"
    rails = { Port: 3000, Host: +"localhost", environment: +"development", pid: "/x/server.pid", log_stdout: true,
              DoNotReverseLookup: true, daemonize: false, caching: nil, restart_cmd: "bin/rails server", early_hints: nil }
    assert_equal ["host=localhost"], told(options(**rails, user_supplied_options: []))
    assert_equal %w[host=localhost port=3000], told(options(**rails, user_supplied_options: [:Port])).sort
    assert_empty @notices
  end

  def test_a_host_may_be_the_path_of_a_socket
    assert_equal ["listen=/tmp/x.sock"], told(options(**RACKUP, Host: "/tmp/x.sock"))
  end

  def test_threads_may_be_a_range
    configuration = options(Threads: "2:8")
    assert_equal ["threads=2:8"], told(configuration)
    assert_equal ["threads=1:16"], told(options(Threads: "0:16"))
  end

  def test_lists_are_several_listeners
    assert_equal %w[listen=:80 listen=/x.sock], told(options(**RACKUP, listen: [":80", "/x.sock"]))
  end

  def test_flags_without_a_value_arrive_as_true
    assert_equal ["disable-keepalive=on"], told(options(DisableKeepalive: true))
    assert_equal ["disable-keepalive=off"], told(options(DisableKeepalive: false))
    assert_equal ["access-log=-"], told(options(AccessLog: true))
    assert_empty told(options(AccessLog: []))
  end

  def test_an_unknown_name_is_said_once
    configuration = options(Wrkers: "3", Verbose: true, Silent: true, quiet: true)
    2.times { said_of(configuration) }
    assert_equal "oribi: unknown setting `Wrkers`; did you mean `workers`?\n", @said
  end

  def test_a_bad_value_is_an_error
    error = assert_raises(Oribi::Error) { options(Workers: "many").settings }
    expected = "bad value `many` for Workers: expected a whole number from 0 to 1024, or auto, or two as MIN:MAX"
    assert_equal expected, error.message
  end

  def test_the_environment_of_the_app
    assert_equal "production", options.environment
    ENV["RAILS_ENV"] = "staging"
    assert_equal "staging", options.environment
    ENV["RACK_ENV"] = "test"
    assert_equal "test", options.environment
    assert_equal "development", options(**RACKUP).environment
  end

  def test_early_hints
    refute options.ruby_options[:early_hints]
    refute options(early_hints: nil).ruby_options[:early_hints]
    refute options(early_hints: false).ruby_options[:early_hints]
    assert options(early_hints: true).ruby_options[:early_hints]
    assert options(EarlyHints: "on").ruby_options[:early_hints]
  end

  # ---- With a file ----

  def test_the_file_wins_over_rhebok_s_command_line
    file("rhebok.rb", "port 8080\nmax_workers 3\nbefore_fork { 1 }\n")
    configuration = rhebok(**RACKUP, ConfigFile: "rhebok.rb", Port: +"9000", MaxWorkers: "9", Timeout: "4")
    assert_equal %w[chunked-transfer=off host=localhost max-requests=1000 port=8080 timeout=4 workers=3],
                 told(configuration).sort
    assert_equal ["oribi: configuration read from rhebok.rb"], @notices
    assert_equal 1, configuration.hooks[:before_fork].size
    origins = configuration.to_pass.to_h { |said| [said.name, configuration.persona.words(said.origin)] }
    # The words by which the server ranks: not below the environment.
    assert_equal "rhebok.rb:2", origins["workers"]
  end

  def test_the_file_gives_way_to_oribi_s_command_line
    file("oribi.rb", "workers 3\nthreads 4\nenvironment 'staging'\noobgc\n")
    configuration = options(**RACKUP, environment: "test", Workers: "9")
    assert_equal ["oribi: configuration read from oribi.rb"], @notices
    words = configuration.to_pass.map { |said| [said.spelling, configuration.persona.words(said.origin)] }
    assert_includes words, ["workers", "file oribi.rb:1"]
    assert_includes words, %w[Workers rackup]
    assert_equal "test", configuration.environment
    assert_equal 5, configuration.ruby_options[:out_of_band][:every]
  end

  def test_a_file_that_says_where_to_listen_wins_over_rackups_own_host_and_port
    file("oribi.rb", "bind 'unix:///tmp/x.sock'")
    assert_equal ["listen=unix:/tmp/x.sock"], told(options(**RACKUP))
    file("oribi.rb", "port 4000")
    assert_equal %w[host=localhost port=4000], told(options(**RACKUP)).sort
  end

  def test_no_file_is_read_when_told_so_and_rhebok_reads_only_what_it_is_told
    file("oribi.rb", "workers 3")
    assert_empty told_of(options(ConfigFile: "-"), "workers")
    assert_equal ["workers=5"], told_of(rhebok, "workers")
    assert_raises(Oribi::Error) { options(ConfigFile: "missing.rb") }
  end

  # ---- For people ----

  def test_valid_options_name_every_setting
    expected = { handler(Oribi::Handler::Rhebok) => ["MaxRequestPerChild=NUMBER", "(default: 1000)"],
                 handler => ["MaxRequests=NUMBER", "(default: off)"] }
    expected.each do |server, (name, default)|
      options = server.valid_options
      assert_includes options[name], default
      assert_operator options.size, :>, Oribi::Setting::TABLE.size
      Oribi::Setting::TABLE.each do |setting|
        words = options.find { |key, _| Oribi::Setting.find(key[/\A\w+/])&.name == setting.name }
        assert words, setting.name
        assert_includes words.last, setting.help[0, 5]
      end
    end
    assert_equal %w[9292], handler.valid_options["Port=PORT"].scan(/default: (\d+)/).flatten
  end

  private

  def handler(names = Oribi::Handler)
    Object.new.extend(names)
  end

  def said_of(configuration)
    _, err = capture_io { configuration.settings }
    (@said ||= +"") << err
  end

  # A value that fits.
  # Of settings that take one of a few names.
  NAMES = { "accept" => "own", "access-log-format" => "json", "acme-challenge" => "http-01", "edge" => "on",
            "edge-sandbox" => "try", "forwarded-fields" => "forwarded", "hsts" => "max-age=60", "interface" => "psgi",
            "io" => "epoll", "loop" => "none", "websocket-origin" => "any", "protocol" => "fastcgi",
            "proxy-protocol" => "v2", "reload-mode" => "rolling", "replace-order" => "old-first",
            "ssl-ciphers" => "TLS_AES_128_GCM_SHA256", "ssl-verify-client" => "none", "strip-forwarded" => "on" }.freeze
  private_constant :NAMES

  def example(setting)
    case setting.placeholder
    when "" then "on"
    when "ADDRESS", "HOST" then "127.0.0.1"[0, 9] + (setting.placeholder == "ADDRESS" ? ":80" : "")
    when "ADDRESSES" then "127.0.0.1"
    when "NAME" then NAMES.fetch(setting.name, "localhost")
    when "NAMES", "TEXT", "FORMAT", "ORIGINS" then NAMES.fetch(setting.name, "8")
    when "LEVEL" then "warn"
    when "MODE" then "660"
    when "SIZE" then "65536"
    when "VERSION" then "1.3"
    when "WHAT", "COLLECTOR", "REDIS" then "off"
    when "TIMES" then "5ms"
    when "PATH" then "/tmp/x"
    when "DOMAIN" then "example.org"
    when "EMAIL" then "me@example.org"
    when "FIELD" then "X-Request-Id"
    when "RATIO" then "0.5"
    when "URL" then "https://example.org/dir"
    when "DIR" then "/tmp"
    when "/PREFIX" then "/x"
    when "/PATH?allow=..." then "/x?allow=::1"
    when "/PREFIX=DIR" then "/x=/tmp"
    when ".ENDING=TYPE" then ".x=text/x-x"
    else "8"
    end
  end
end
