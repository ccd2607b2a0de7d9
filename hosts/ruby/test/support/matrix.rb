# frozen_string_literal: true

require "minitest/autorun"
require_relative "test_server"

# Runs the tests of a module in each way in which a server may run an app: with processes or threads, over TCP or a Unix socket,
# for which there is no TLS.
module Matrix
  MODES = {
    "OneWorker" => { workers: 1 },
    "FourWorkers" => { workers: 4 },
    "FourThreads" => { workers: 1, threads: 4 },
    "OneToEightThreads" => { workers: 1, threads: "1:8" }
  }.freeze

  # Over HTTP/2 what counts is whether requests of one connection go to several processes, and to several threads.
  def self.modes
    OverHTTP2.on? ? MODES.slice("FourWorkers", "FourThreads") : MODES
  end

  # Defines one class of tests for each.
  def self.of(tests, **options)
    modes.each do |name, settings|
      (TestServer::TLS || OverHTTP2.on? ? [false] : [false, true]).each do |unix|
        testcase = Class.new(Minitest::Test) do
          extend SharedServer
          include tests
        end
        testcase.server_options = { unix:, **options, settings: { **settings, **options.fetch(:settings, {}) } }
        Object.const_set("#{tests}On#{name}Over#{unix ? 'Unix' : 'TCP'}", testcase)
      end
    end
  end

  # Defines a class of tests whose server is the plain one.
  def self.once(tests, **options)
    testcase = Class.new(Minitest::Test) do
      extend SharedServer
      include tests
    end
    testcase.server_options = options
    Object.const_set("#{tests}Test", testcase)
  end

  # One server for all tests of a class, which must end well.
  module SharedServer
    attr_accessor :server_options

    def server
      @server ||= TestServer.new(**server_options)
    end

    def run(*)
      super
    ensure
      @server&.kill
      @server = nil
    end

    def runnable_methods
      names = super.reject { |name| name == "test_the_server_ends_well" }
      names.reject! { |name| OverHTTP2::ABOUT_HTTP1.key?(name) } if OverHTTP2.on?
      names.push("test_the_server_ends_well")
    end
  end

  # Helpers of every test of a shared server.
  module Tests
    @sequence = 0

    def self.next_id
      "#{Process.pid}-#{@sequence += 1}"
    end

    def server
      self.class.server
    end

    # An identifier for the notes of the app in a test.
    def new_id
      Tests.next_id
    end

    def unix?
      server.unix?
    end

    def encrypted?
      server.encrypted?
    end

    def rack3?
      TestServer::RACK3
    end

    def teardown
      server.close_connections
    end

    def test_the_server_ends_well
      log = server.log
      refute_match(/panicked|\[BUG\]|worker \d+ (?:died|was ended by signal)/, log)
      assert_equal 0, server.stop, log
    end
  end
end
