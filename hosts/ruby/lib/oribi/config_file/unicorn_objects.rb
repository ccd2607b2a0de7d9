# frozen_string_literal: true

require "etc"
require "logger"

module Oribi
  # What a hook of a unicorn.rb is given as its worker.
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

    # Anything but conversions, which Ruby itself asks for.
    def respond_to_missing?(name, _private)
      !name.start_with?("to_")
    end

    # Becomes another user, as Unicorn's does. What a hook raises is only logged, and a worker that cannot give up the rights of
    # root must not go on with them: it ends.
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

  # What a hook of a unicorn.rb is given as its server: what such files ask for most.
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

    # Anything but conversions, which Ruby itself asks for.
    def respond_to_missing?(name, _private)
      !name.start_with?("to_")
    end

    def method_missing(name, *)
      return super unless respond_to_missing?(name, true)

      self.class.unheeded("server.#{name}")
    end

    # Says once that something that a hook wants is not there. Returns nil.
    def self.unheeded(what)
      @said ||= {}
      return if @said[what]

      @said[what] = true
      Oribi.log(:warn, "#{what} in a hook is not honoured")
    end

    # What a Logger writes to.
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
