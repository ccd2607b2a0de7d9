# frozen_string_literal: true

require "logger"
require "oribi/error"

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

    # It must not be passed over: the worker would go on as root.
    def user(name, group = nil)
      words = [name, group].compact.map(&:inspect).join(", ")
      raise Error, "a hook cannot change the user of a worker: write `user #{words}` outside of it"
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
