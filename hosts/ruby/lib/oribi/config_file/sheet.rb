# frozen_string_literal: true

require "oribi/configuration"
require "oribi/hook"

module Oribi
  class ConfigFile
    # The state of a configuration file that is being evaluated, such as the current line. The object in which the file is
    # evaluated has no other state, because the file may set instance variables of its own there.
    class Sheet
      Port = Struct.new(:number, :host, :place)

      # The words of the file with their values, for the hooks of a unicorn.rb.
      attr_reader :record

      attr_reader :configuration

      # The Hashes that hooks share, by their keys. Each worker has its own, by its fork.
      attr_reader :data

      def initialize(file, configuration)
        @file = file
        @configuration = configuration
        @listens = false
        @record = {}
        @data = Hash.new { |all, key| all[key] = {} }
        @later = []
      end

      # Evaluates a file in an object that has the words.
      def evaluate(words, path)
        within(path) { words.instance_eval(read(path), path, 1) }
      end

      # Adds a block of the current file that is to be run after the whole file.
      def later(block)
        @later << [@path, block]
      end

      # Does the work that needs the whole file.
      def settle
        @later.each { |path, block| within(path, &block) }
        settle_port if @port
        settle_paths if @configuration.directory
      end

      # Takes a setting.
      def set(name, value)
        @record[name.to_sym] = value
        say(place, name, value)
      end

      # Adds the addresses that the block returns as pairs of a setting and its value; the block gets a callable for notes.
      def address
        @listens = true
        pairs = begin
          yield method(:note)
        rescue Error => e
          raise Error, "#{place}: #{e.message}"
        end
        pairs.each { |name, value| set(name, value) }
      end

      def port(number, host)
        @record[:port] = number
        @port = Port.new(number, host || @port&.host, place)
      end

      # The host of a port that is given without one.
      def default_host(host)
        @default_host = host
        return if @configuration.said.any? { |said| said.name == "host" }

        @configuration.set("host", host, Configuration::Origin.default(place))
      end

      # Adds a hook.
      def hook(moment, callable)
        @configuration.hook(moment, callable)
      end

      # A callable, given as a block or as an argument.
      def callable(word, given, block)
        callable = block || given
        return callable if callable.respond_to?(:call)

        raise Error, "#{place}: `#{word}` needs a block"
      end

      def dialect
        @file.dialect
      end

      def unheeded(word, advice)
        note("`#{word}` is not honoured: #{advice}")
      end

      # For a word that would protect something: without it the server must not start.
      def refuse(word, advice)
        raise Error, "#{place}: `#{word}` cannot be done: #{advice}"
      end

      # Adds a note about the current line. Returns nil.
      def note(text)
        @file.note(place, text)
        nil
      end

      private

      # Runs a part of a file, and reports its exceptions with their positions in the file.
      def within(path)
        outer = @path
        @path = path
        yield
      rescue Error
        raise
      rescue StandardError, ScriptError => e
        raise Error, failure(e)
      ensure
        @path = outer
      end

      # If there are other addresses, a port is a further one.
      def settle_port
        if @listens
          say(@port.place, "listen", "#{@port.host || @default_host || '*'}:#{@port.number}")
        else
          say(@port.place, "port", @port.number)
          say(@port.place, "host", @port.host) if @port.host
        end
      end

      PATHS = %w[pid-file restart-file error-log access-log temporary-directory].freeze
      NO_PATHS = %w[- on off true false].freeze

      # Makes paths relative to the directory that the file sets.
      def settle_paths
        directory = @configuration.directory
        @configuration.said.select { |said| said.origin.kind == :file }.each do |said|
          if %w[listen socket].include?(said.name)
            said.value = Address.within(directory, said.value.to_s)
          elsif (PATHS.include?(said.name) && !NO_PATHS.include?(said.value.to_s)) || said.name == :standard_output
            said.value = File.expand_path(said.value.to_s, directory)
          end
        end
      end

      # The file itself may be a pipe, whose text was read before.
      def read(path)
        path == @file.path && @file.text ? @file.text : File.read(path)
      rescue SystemCallError => e
        raise Error, Oribi.without_secrets("cannot read the configuration file: #{e.message}")
      end

      def say(place, name, value)
        @configuration.set(name, value, Configuration::Origin.file(place))
      end

      # FILE:LINE of the current line.
      def place
        frame = caller_locations.find { |location| location.path == @path }
        frame ? "#{@path}:#{frame.lineno}" : @path.to_s
      end

      # An exception of a file, with its position in the file.
      def failure(error)
        message = error.message.lines.first.to_s.chomp
        line = line_of(error, message)
        message = Oribi.without_secrets(message.delete_prefix("#{@path}:#{line}: "))
        "#{[@path, line].compact.join(':')}: #{message} (#{error.class})"
      end

      def line_of(error, message)
        return message[/\A#{Regexp.escape(@path)}:(\d+)/, 1] if error.is_a?(SyntaxError)

        error.backtrace_locations&.find { |location| location.path == @path }&.lineno
      end
    end
  end
end
