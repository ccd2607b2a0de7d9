# frozen_string_literal: true

require "oribi/config_file/sheet"
require "oribi/config_file/own_words"
require "oribi/config_file/puma_words"
require "oribi/config_file/unicorn_words"
require "oribi/config_file/unheeded"

module Oribi
  class ConfigFile
    # The object in which a configuration file is evaluated: each word is a method.
    class Words
      include OwnWords
      include PumaWords
      include UnicornWords

      UNHEEDED.each do |word, advice|
        next if Setting.find(word)

        define_method(word) { |*, **, &_| sheet.unheeded(word, advice) }
      end

      def initialize(sheet)
        @oribi_sheet = sheet
      end

      # Another server's word, a typing error, or something new. With a value it is passed to the server, which suggests a
      # similar name.
      def method_missing(word, *arguments, **options, &block)
        return sheet.set(word, arguments.first) if arguments.one? && options.empty? && block.nil?

        sheet.unheeded(word, "no such word is known")
      end

      def respond_to_missing?(*)
        false
      end

      private

      def sheet
        @oribi_sheet
      end
    end
  end
end
