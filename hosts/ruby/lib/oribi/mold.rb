# frozen_string_literal: true

require "oribi"
require "oribi/app_file"

module Oribi
  # The program that the `oribi` command runs: it loads an app and serves it with the settings from the command.
  module Mold
    USAGE = "usage: [--check] [--config FILE] APP [NAME=VALUE...]"

    # Returns the exit status.
    def self.main(words)
      check = words.first == "--check" && words.shift
      file = words.shift(2).last if words.first == "--config"
      app_file, *settings = words
      if app_file.nil?
        warn USAGE
        return 1
      end
      configuration = Configuration.new
      ConfigFile.read(file, configuration) if file
      app = load_app(app_file, configuration)
      return 0 if check

      configuration.serve(app, settings_of(settings))
    rescue Error => e
      warn e.message
      1
    end

    # The path is relative to the directory in which the command was started, whatever the configuration file sets.
    def self.load_app(app_file, configuration)
      path = File.expand_path(app_file)
      ENV["RACK_ENV"] = configuration.environment
      Dir.chdir(configuration.directory) if configuration.directory
      AppFile.load(path)
    rescue Error
      raise
    rescue StandardError, ScriptError => e
      raise Error, "cannot load #{app_file}: #{e.full_message(highlight: false).chomp}"
    end

    # The command has its own defaults, so nothing is added to the settings that it passes.
    def self.settings_of(pairs)
      pairs.each_with_object(Settings.new) do |pair, settings|
        name, value = pair.split("=", 2)
        settings.set(name, value.to_s, "command line")
      end
    rescue SettingError => e
      raise Error, e.message
    end

    private_class_method :load_app, :settings_of
  end
end
