# frozen_string_literal: true

require "oribi/error"
require "oribi/config_file/address"
require "oribi/config_file/words"

module Oribi
  # A configuration file in Ruby, with words for settings and for hooks. It understands Oribi's own words and those of Rhebok's,
  # Puma's and Unicorn's files.
  class ConfigFile
    # Its possible places, relative to the directory of the app; the first existing one is read.
    PLACES = %w[config/oribi.rb oribi.rb config/puma.rb config/unicorn.rb].freeze

    # Finds the file for an app in a directory; nil if there is none.
    def self.find(directory = ".")
      PLACES.map { |place| directory == "." ? place : File.join(directory, place) }.find { |path| File.file?(path) }
    end

    # Reads a file into a configuration. Raises Error when it cannot be read or fails.
    def self.read(path, configuration)
      new(path, configuration).tap(&:evaluate)
    end

    # The server whose meaning a word has if several servers have the word: :puma, :unicorn or :own, from the name of the file.
    attr_reader :dialect

    # Notes about words that are not honoured, one line each.
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

    # Adds a note about a hook or a word that is not honoured.
    def note(place, text)
      line = "#{place}: #{text}"
      @notes << line unless @notes.include?(line)
    end
  end
end
