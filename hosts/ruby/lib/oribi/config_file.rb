# frozen_string_literal: true

require "oribi/error"
require "oribi/config_file/address"
require "oribi/config_file/words"

module Oribi
  # A configuration file in Ruby, with words for settings and for hooks. It understands Oribi's own words and those of Rhebok's,
  # Puma's and Unicorn's files.
  class ConfigFile
    # The possible places of the file, relative to the directory of the app; the first existing file is read.
    PLACES = %w[config/oribi.rb oribi.rb config/puma.rb config/unicorn.rb].freeze

    # Finds the file for an app in a directory; nil if there is none.
    def self.find(directory = ".")
      PLACES.map { |place| directory == "." ? place : File.join(directory, place) }.find { |path| File.file?(path) }
    end

    # Reads a file into a configuration. If `text` is given, uses it as the content of the file. Raises Error if the file cannot
    # be read or fails.
    def self.read(path, configuration, text: nil)
      new(path, configuration, text).tap(&:evaluate)
    end

    # The text of a file that can be read only once, and that the `oribi` command has read. Programs of the app do not get it.
    def self.text_from_command
      ENV.delete("ORIBI_CONFIG_TEXT")
    end

    # The server whose meaning a word has if several servers have the word: :puma, :unicorn or :own, from the name of the file.
    attr_reader :dialect

    # Notes about words that are not honoured, one line each.
    attr_reader :notes

    # The path as it was given, for messages.
    attr_reader :path

    # The text that was read from the file before, or nil.
    attr_reader :text

    def initialize(path, configuration, text = nil)
      @path = path
      @text = text
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
