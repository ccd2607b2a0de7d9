# frozen_string_literal: true

require "oribi/error"
require "oribi/config_file/address"
require "oribi/config_file/words"

module Oribi
  # A configuration file: Ruby, with words for settings and for hooks. It understands its own words and those of the files of
  # Rhebok, Puma and Unicorn.
  class ConfigFile
    # Where it may be, seen from the directory of the app; the first that is there is read.
    PLACES = %w[config/oribi.rb oribi.rb config/puma.rb config/unicorn.rb].freeze

    # Finds the file of an app in a directory; nil if there is none.
    def self.find(directory = ".")
      PLACES.map { |place| directory == "." ? place : File.join(directory, place) }.find { |path| File.file?(path) }
    end

    # Reads a file into a configuration. Raises Error when it cannot be read or fails.
    def self.read(path, configuration)
      new(path, configuration).tap(&:evaluate)
    end

    # Whose words it is written in where several servers have the same: :puma, :unicorn or :own, by the name of the file.
    attr_reader :dialect

    # What is not honoured, a line each.
    attr_reader :notes

    # The path as it was given, for messages.
    attr_reader :path

    def initialize(path, configuration)
      @path = path
      @configuration = configuration
      @notes = []
      @dialect = File.basename(path)[/puma|unicorn/]&.to_sym || :own
    end

    def evaluate
      sheet = Sheet.new(self, @configuration)
      sheet.evaluate(Words.new(sheet), @path)
      sheet.settle
    end

    # A hook or a word that cannot be honoured.
    def note(place, text)
      line = "#{place}: #{text}"
      @notes << line unless @notes.include?(line)
    end
  end
end
