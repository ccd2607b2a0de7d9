# frozen_string_literal: true

require "etc"
require "logger"

module Oribi
  # The worker that a hook of a unicorn.rb gets.
  class UnicornWorker
    # Counts from 0.
    attr_reader :nr

    def initialize(number)
      @nr = number.to_i - 1
    end

    # Unicorn compares workers with their numbers.
    def ==(other)
      nr == (other.is_a?(UnicornWorker) ? other.nr : other)
    end

    # Conversions are excluded, because Ruby itself asks for them.
    def respond_to_missing?(name, _private)
      !name.start_with?("to_")
    end

    # Changes the user of the worker, as in Unicorn. An exception of a hook is only logged. But a worker that cannot give up
    # root's privileges must not continue, so this method ends the process then.
    def user(name, group = nil)
      entry = Etc.getpwnam(name)
      number = group ? Etc.getgrnam(group).gid : entry.gid
      return if Process.euid == entry.uid && Process.egid == number

      Process.initgroups(name, number)
      Process::GID.change_privilege(number)
      Process::UID.change_privilege(entry.uid)
    rescue ArgumentError, SystemCallError => e
      warn("oribi: a worker cannot become the user #{name.inspect} and ends: #{e.message}")
      Process.exit!(1)
    end

    def method_missing(name, *)
      return super unless respond_to_missing?(name, true)

      UnicornServer.unheeded("worker.#{name}")
    end
  end

  # The server that a hook of a unicorn.rb gets, with the methods that such files mostly use.
  class UnicornServer
    # A Hash of the words of the file with their values.
    attr_reader :config

    def initialize(config)
      @config = config
    end

    # A Logger that writes to the error log.
    def logger
      @logger ||= Logger.new(Log.new, formatter: ->(level, _, _, message) { "#{level}\t#{message}" })
    end

    def worker_processes
      config[:worker_processes].to_i
    end

    def timeout
      config[:timeout]
    end

    # The path of the pid file.
    def pid
      config[:pid]
    end

    # Conversions are excluded, because Ruby itself asks for them.
    def respond_to_missing?(name, _private)
      !name.start_with?("to_")
    end

    def method_missing(name, *)
      return super unless respond_to_missing?(name, true)

      self.class.unheeded("server.#{name}")
    end

    # Logs once that something that a hook uses does not exist. Returns nil.
    def self.unheeded(what)
      @said ||= {}
      return if @said[what]

      @said[what] = true
      Oribi.log(:warn, "#{what} in a hook is not honoured: a hook changes nothing of the server, write it outside")
    end

    # The output of a Logger.
    class Log
      LEVELS = { "DEBUG" => :debug, "INFO" => :info, "WARN" => :warn }.freeze

      def write(line)
        level, message = line.split("\t", 2)
        Oribi.log(LEVELS.fetch(level, :error), message.to_s.chomp)
      end

      def close; end
    end
  end
end
