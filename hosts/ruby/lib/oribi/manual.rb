# frozen_string_literal: true

require "oribi/persona"
require "oribi/setting"

module Oribi
  # The handlers' options, for users.
  class Manual
    # Rhebok's spellings of its settings.
    RHEBOK = {
      "host" => "Host", "port" => "Port", "backlog" => "BackLog", "reuse-port" => "ReusePort", "workers" => "MaxWorkers",
      "timeout" => "Timeout", "max-requests" => "MaxRequestPerChild", "min-requests" => "MinRequestPerChild",
      "chunked-transfer" => "ChunkedTransfer", "spawn-interval" => "SpawnInterval", "respawn-interval" => "ErrRespawnInterval"
    }.freeze

    # Options that are not settings of the server. rackup has flags of its own for the environment.
    RUBY = {
      "ConfigFile=PATH" => "Read this configuration file; - for none (default: %<file>s)",
      "Path=PATH" => "Listen on a Unix socket%<mode>s",
      "OobGC" => "Collect garbage between requests, when nothing waits (default: off)",
      "MaxGCPerRequest=NUMBER" => "With OobGC: collect after this many requests (default: 5)",
      "MinGCPerRequest=NUMBER" =>
        "With OobGC: let each worker draw a number between this one and MaxGCPerRequest (default: none)",
      "EarlyHints" => "Give apps rack.early_hints (default: off, for not every proxy lets them pass)"
    }.freeze

    def initialize(persona)
      @persona = persona
      @rhebok = persona.file_wins?
    end

    # A Hash of `Name=WHAT` to a description, in the order of docs/options.md.
    def options
      settings = Setting::TABLE.to_h { |setting| [spelled(setting), described(setting)] }
      settings.merge(ruby)
    end

    private

    def spelled(setting)
      name = (RHEBOK[setting.name] if @rhebok) || setting.name.split("-").map(&:capitalize).join
      setting.switch? ? name : "#{name}=#{setting.placeholder}"
    end

    def described(setting)
      default = @persona.defaults.fetch(setting.name) { launchers_default(setting) }
      default = "off" if default == false
      # The texts are those of the manual, which writes names as flags.
      text = default.to_s.empty? ? setting.help : "#{setting.help} (default: #{default})"
      text.gsub(/--[a-z-]+/) { |flag| (named = Setting.find(flag)) ? "-O #{spelled(named)}" : flag }
    end

    # rackup's own default.
    def launchers_default(setting)
      case setting.name
      when "listen" then "rackup's host and port"
      when "host" then "localhost in development, else 0.0.0.0"
      when "port" then 9292
      else setting.default
      end
    end

    def ruby
      file = @rhebok ? "none" : "the first of #{ConfigFile::PLACES.join(', ')}"
      mode = @rhebok ? " for everyone; wins over Host and Port" : ""
      RUBY.transform_values { |text| format(text, file: file, mode: mode) }
    end
  end
end
