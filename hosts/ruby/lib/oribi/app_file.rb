# frozen_string_literal: true

require "oribi/error"

module Oribi
  # A config.ru, or a .rb file that defines an app by its name, as rackup loads them.
  module AppFile
    # Loads it and returns the app.
    def self.load(path)
      require "rack"
      require "rack/builder"
      # Rack 2 returns the options of the file's first line, too.
      app, = Rack::Builder.parse_file(path)
      raise Error, "#{path} defines no app: it needs a line `run ...`" unless app.respond_to?(:call)

      app
    end
  end
end
