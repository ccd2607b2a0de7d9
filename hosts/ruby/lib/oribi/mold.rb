# frozen_string_literal: true

# If a reload is overtaken by the next one, the server ends this process by TERM, perhaps before its libraries are loaded. Ruby
# would turn TERM into an exception, about which RubyGems complains in the middle of a `require`. So until the libraries are
# loaded, the signal ends the process directly.
Signal.trap("TERM", "SYSTEM_DEFAULT")

require "cgi/escape"
require "oribi"
require "oribi/app_file"

module Oribi
  # The program that the `oribi` command runs: it loads an app and serves it with the settings from the command.
  module Mold
    USAGE = "usage: [--check] [--config FILE] APP [NAME=VALUE...]"

    ERROR_PAGE = <<~HTML
      <!DOCTYPE html>
      <meta charset="utf-8">
      <title>The app cannot be loaded</title>
      <h1>The app cannot be loaded</h1>
      <pre>TEXT</pre>
      <p>It is loaded again when one of its files changes.</p>
    HTML

    # The exit status of a process that a reload no longer needs: nothing is wrong, so nothing is said.
    ENDED = 128 + Signal.list["TERM"]

    # Returns the exit status.
    def self.main(words)
      Signal.trap("TERM", "DEFAULT")
      check = words.first == "--check" && words.shift
      file = words.shift(2).last if words.first == "--config"
      app_file, *settings = words
      # These words are not the app's.
      words.clear
      Oribi.program_name = "oribi"
      if app_file.nil?
        warn USAGE
        return 1
      end
      configuration = Configuration.new
      text = ConfigFile.text_from_command
      ConfigFile.read(file, configuration, text: text) if file
      app = load_app(app_file, configuration) { |error| error_page(error, check, configuration, settings) }
      return 0 if check

      configuration.serve(app, settings_of(settings))
    rescue Error => e
      return ENDED if ended_by(e)

      Oribi.load_failed(e.message)
      warn e.message
      1
    rescue SignalException => e
      raise unless ended_by(e)

      ENDED
    end

    # Whether TERM, the signal that ends an overtaken reload, has caused this exception. A library may have turned the exception
    # of the signal into another one.
    def self.ended_by(error)
      error = error.cause until error.nil? || error.is_a?(SignalException)
      error&.signo == Signal.list["TERM"]
    end

    # The path is relative to the directory in which the command was started, regardless of the configuration file.
    def self.load_app(app_file, configuration)
      path = File.expand_path(app_file)
      ENV["RACK_ENV"] = configuration.environment
      Dir.chdir(configuration.directory) if configuration.directory
      AppFile.load(path)
    rescue Error
      raise
    rescue StandardError, ScriptError => e
      error = Error.new("cannot load #{app_file}: #{e.full_message(highlight: false).chomp}")
      raise error if ended_by(e)

      yield(error) || raise(error)
    end

    # If the app cannot be loaded with `--reload` in development, returns an app that shows the reason, because the developer
    # will change the file again. Otherwise returns nil.
    def self.error_page(error, check, configuration, settings)
      return if check || configuration.environment != "development" || !settings.include?("reload=on")

      Oribi.load_failed(error.message)
      warn error.message
      # Also answers this with 500.
      settings << "boot-request=off"
      page = ERROR_PAGE.sub("TEXT") { CGI.escapeHTML(error.message.dup.force_encoding(Encoding::UTF_8).scrub) }
      fields = { "content-type" => "text/html; charset=utf-8", "content-length" => page.bytesize.to_s,
                 "cache-control" => "no-store", "x-content-type-options" => "nosniff" }
      ->(_env) { [500, fields.dup, [page]] }
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

    private_class_method :ended_by, :load_app, :settings_of, :error_page
  end
end
