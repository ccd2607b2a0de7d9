# frozen_string_literal: true

require "oribi/error"

module Oribi
  # Loads the file of an app: a config.ru, or a .rb file that defines an app named after the file, as for rackup. A file whose
  # first line names Ruby may have another name, and is read like a config.ru.
  module AppFile
    # Puma and Bundler load these before an app, and some apps (tDiary) use them without requiring them.
    LIBRARIES = %w[date delegate fileutils forwardable pathname set stringio tempfile time uri].freeze

    # Loads it and returns the app.
    def self.load(path)
      LIBRARIES.each { |library| require library }
      require "rack"
      require "rack/builder"
      # Rack 2 also returns the options from the file's first line.
      app, = path.end_with?(".rb") ? Rack::Builder.parse_file(path) : Rack::Builder.load_file(path)
      raise Error, "#{path} defines no app: it needs a line `run ...`" unless app.respond_to?(:call)

      app
    end
  end
end
