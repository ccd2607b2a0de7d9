# frozen_string_literal: true

require "oribi/error"
require "oribi/hook"
require "oribi/persona"
require "oribi/setting"

module Oribi
  # Collects options and the configuration file with their origins, then serves.
  #
  # Most options are settings of the server, which decides about their precedence. A few concern only Ruby and are handled here:
  # see RUBY.
  class Configuration
    # The kinds of origins, with the server's names for them.
    Origin = Struct.new(:kind, :words) do
      def self.default(words) = new(:default, words)
      def self.file(place) = new(:file, place)
      def self.caller(words) = new(:caller, words)
    end

    # One statement. `name` is that of a Setting, or one of RUBY.
    Said = Struct.new(:name, :spelling, :value, :origin)

    # Options that are handled here, not by the server, with other spellings.
    RUBY = {
      environment: %w[environment env],
      early_hints: %w[earlyhints],
      error_handler: %w[errorhandler lowlevelerrorhandler],
      collect: %w[oobgc],
      collect_every: %w[maxgcperrequest],
      collect_from: %w[mingcperrequest],
      standard_output: %w[stdoutpath]
    }.freeze

    # The default number of requests between two garbage collections, as in Rhebok.
    COLLECT_EVERY = 5

    attr_reader :persona, :hooks, :said

    # A directory to change to before the app is loaded, or nil.
    attr_accessor :directory

    def initialize(persona = Persona::ORIBI)
      @persona = persona
      @said = []
      @hooks = {}
      @warned = {}
    end

    # Takes a statement by any of its names. For unknown names the server suggests a similar one.
    def set(spelling, value, origin)
      return if value.nil?

      name = self.class.name_of(spelling) || spelling.to_s
      # An Array is for a setting that may be given several times.
      values = name.is_a?(String) ? Array(value) : [value]
      values.each { |one| @said << Said.new(name, spelling.to_s, one, origin) }
    end

    # Adds a hook; `callable` takes a worker's number or nothing.
    def hook(moment, callable)
      (@hooks[moment] ||= []) << callable
    end

    # The meaning of a spelling: a String for a setting of the server, a Symbol for one of RUBY, or nil.
    def self.name_of(spelling)
      squashed = Setting.squash(spelling)
      own, = RUBY.find { |name, others| Setting.squash(name) == squashed || others.include?(squashed) }
      own || Setting.find(spelling)&.name
    end

    # The value of an option that concerns Ruby; nil if it was not set.
    def [](name)
      winners(name).last&.value
    end

    # Whether an option was set, other than by default.
    def said?(name)
      @said.any? { |said| said.name == name && said.origin.kind != :default }
    end

    # The settings for the server.
    def settings
      settings = Settings.new
      to_pass.each { |said| pass(settings, said) }
      settings
    end

    # The statements to pass to the server, in order, without those that are overridden here.
    def to_pass
      named = @said.select { |said| said.name.is_a?(String) }
      persona.adjust(named.reject { |said| gives_way?(said) })
    end

    # Serves an app and returns the exit status of the process.
    def serve(app, settings = self.settings, **extras)
      redirect_standard_output
      # As in other servers, because apps log there, and their output should appear at once.
      $stdout.sync = true
      Oribi.serve(app, settings, **ruby_options, **extras)
    rescue SettingError => e
      raise Error, e.message
    end

    # The arguments for Oribi.serve in addition to the settings.
    def ruby_options
      {
        hooks: @hooks,
        environment: environment,
        rack_version: rack_version,
        out_of_band: out_of_band,
        error_handler: self[:error_handler]&.then { |handler| Hook.with_error(handler) },
        # Off by default: Rails sends them wherever it can, and not every proxy supports them (nginx 1.22 does not).
        early_hints: truth(self[:early_hints])
      }
    end

    # The environment's name: from the launcher, then from the environment, then from the file.
    def environment
      given = @said.select { |said| said.name == :environment }.group_by { |said| said.origin.kind }
      text = given[:caller]&.last&.value || ENV.values_at("RACK_ENV", "RAILS_ENV").find { |value| !value.to_s.empty? }
      (text || given[:file]&.last&.value || "production").to_s
    end

    # A value in the server's form. Flags without a value arrive as true.
    def text_of(said)
      # One thread always exists, which other servers count as none.
      return said.value.to_s.sub(/\A0+:/, "1:") if said.name == "threads"

      case said.value
      when true then said.name == "access-log" ? "-" : "on"
      when false then "off"
      else said.value.to_s
      end
    end

    private

    # The statements about a name with the highest rank.
    def winners(name)
      said = @said.select { |one| one.name == name }
      best = said.map { |one| persona.rank(one.origin) }.max
      said.select { |one| persona.rank(one.origin) == best }
    end

    # Whether a statement is not passed to the server, because another one overrides it. A default is overridden by any other
    # statement, by the environment and, for the host and the port, by a listener. The server itself decides about the
    # precedence of all other statements, unless the persona's configuration file has precedence.
    def gives_way?(said)
      return default_gives_way?(said) if said.origin.kind == :default

      persona.file_wins? && said.origin.kind == :caller && file_says?(said.name)
    end

    LISTENERS = %w[listen socket].freeze
    TCP = %w[host port].freeze

    # The launcher's default is later than the persona's.
    def default_gives_way?(said)
      rivals = TCP.include?(said.name) ? [said.name, *LISTENERS] : [said.name]
      rivals.any? { |name| said?(name) } || !winners(said.name).last.equal?(said) || Setting.find(said.name).in_environment?
    end

    def file_says?(name)
      @said.any? { |said| said.name == name && said.origin.kind == :file }
    end

    # The server reports unknown names and invalid values; only unknown names let the start continue.
    def pass(settings, said)
      unknown = settings.set(said.spelling, text_of(said), persona.words(said.origin))
      return if unknown.nil? || @warned[said.spelling]

      @warned[said.spelling] = true
      Oribi.notice(said.origin.kind == :file ? "#{said.origin.words}: #{unknown}" : unknown)
    rescue SettingError => e
      raise Error, said.origin.kind == :file ? "#{said.origin.words}: #{e.message}" : e.message
    end

    def out_of_band
      return nil unless truth(self[:collect])
      return { gctools: true } if gctools?

      every = number(:collect_every) || COLLECT_EVERY
      from = number(:collect_from)
      { every: every, at_random_from: from && from < every ? from : nil }
    end

    def number(name)
      value = self[name]
      value && Integer(value.to_s, 10)
    rescue ArgumentError
      raise Error, Oribi.without_secrets("bad value `#{value}` for #{name}: expected a whole number")
    end

    YES = %w[true yes on 1].freeze

    def truth(value)
      YES.include?(value.to_s.downcase)
    end

    def gctools?
      require "gctools/oobgc"
      true
    rescue LoadError
      false
    end

    # The version of Rack decides what an environment contains and how a response is read.
    def rack_version
      require "rack"
      Rack.release.split(".").first(2).map(&:to_i)
    end

    # The names of standard outputs are no files to open: a socket, such as that of the journal, cannot be opened.
    def redirect_standard_output
      path = self[:standard_output].to_s
      return if ["", "/dev/stdout"].include?(path)

      path == "/dev/stderr" ? $stdout.reopen($stderr) : $stdout.reopen(path, "a")
    rescue SystemCallError => e
      raise Error, Oribi.without_secrets("cannot write standard output to #{path}: #{e.message}")
    end
  end
end
