# frozen_string_literal: true

require "oribi/configuration"
require "oribi/config_file"

module Oribi
  # Makes a configuration of a Rack handler's options, as rackup, Rails or a program passes them.
  class Options
    # Options that launchers pass for their own use or for other servers.
    IGNORED = %i[
      app builder caching config daemonize debug DoNotReverseLookup heapfile include log_stdout pid profile_file profile_mode
      quiet require restart restart_cmd server Silent user_supplied_options Verbose warn
    ].freeze

    # Hooks, with the moments at which they are called.
    HOOKS = {
      "beforefork" => :before_fork, "afterfork" => :after_fork, "beforeworkerboot" => :after_fork,
      "beforeworkershutdown" => :worker_stopping, "onbooted" => :server_ready, "afterbooted" => :server_ready,
      "serverready" => :server_ready, "outofband" => :out_of_band
    }.freeze

    # rackup's own default hosts. A user may give the same text, but rackup's defaults are the String objects of rackup's
    # source, and those of a command line are other objects.
    RACKUP_HOSTS = %w[localhost 0.0.0.0].freeze
    RACKUP_PORT = 9292

    # A host that is an address with a certificate, as in `rails server -b 'ssl://localhost:3000?cert=...&key=...'`.
    ENCRYPTED = %r{\A(?:ssl|https)://}

    attr_reader :configuration

    # `finds_file`: whether to look for a configuration file if none is named. Rhebok reads only a named one.
    def initialize(options, persona: Persona::ORIBI, caller: "rackup", finds_file: !persona.file_wins?)
      @options = options.dup
      @persona = persona
      @finds_file = finds_file
      @configuration = Configuration.new(persona)
      @origin = Configuration::Origin.caller(caller)
      @default = Configuration::Origin.default(caller)
      take_defaults
      take_where_to_listen
      take_options
      read_file
    end

    private

    def take_defaults
      default = Configuration::Origin.default("default of Rhebok")
      @persona.defaults.each { |name, value| @configuration.set(name, value, default) }
    end

    # A launcher's own host and port are defaults: the environment and the configuration file override them.
    def take_where_to_listen
      supplied = @options[:user_supplied_options]
      %i[Host Port].each do |name|
        value = @options.delete(name)
        next if value.nil?

        by_default = supplied ? !supplied.include?(name) : rackups_own?(value)
        if value.to_s.start_with?("/", "./")
          @configuration.set("listen", value, @origin)
        elsif value.to_s.match?(ENCRYPTED)
          @configuration.set("listen", with_port(value.to_s), @origin)
        else
          @configuration.set(name, value, by_default ? @default : @origin)
        end
      end
    end

    # The port is part of the address, or is that of the other option.
    def with_port(address)
      port = @options[:Port] || RACKUP_PORT
      address.sub(%r{\A(\w+://(?:\[[^\]]*\]|[^:/?\[]*))(?=[/?]|\z)}) { "#{Regexp.last_match(1)}:#{port}" }
    end

    def rackups_own?(value)
      value.equal?(RACKUP_PORT) || RACKUP_HOSTS.any? { |host| host.equal?(value) }
    end

    def take_options
      @options.each do |name, value|
        next if value.nil? || IGNORED.include?(name.to_sym)

        take(name.to_s, value)
      end
    end

    def take(name, value)
      squashed = Setting.squash(name)
      if squashed == "configfile"
        @file = value.to_s
      elsif squashed == "path"
        take_path(value)
      elsif squashed == "accesslog" && value.is_a?(Array)
        nil # rackup passes WEBrick's list of logs
      elsif HOOKS.key?(squashed)
        take_hook(name, HOOKS[squashed], value)
      else
        @configuration.set(name, value, @origin)
      end
    end

    def take_path(value)
      ConfigFile::Address.socket(value, @persona).each { |name, text| @configuration.set(name, text, @origin) }
    end

    def take_hook(name, moment, value)
      Array(value).each do |callable|
        raise Error, "#{name} must respond to call" unless callable.respond_to?(:call)

        @configuration.hook(moment, Hook.with_index(callable))
      end
    end

    # `-` means no file, as in other servers.
    def read_file
      return if @file == "-"

      path = @file || (ConfigFile.find if @finds_file)
      return unless path

      file = ConfigFile.read(path, @configuration)
      Oribi.notice("configuration read from #{path}")
      file.notes.each { |note| Oribi.notice(note) }
      Dir.chdir(@configuration.directory) if @configuration.directory
    end
  end
end
