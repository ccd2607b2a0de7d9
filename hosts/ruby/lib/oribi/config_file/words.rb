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
      include SettingWords
      include OwnWords
      include PumaWords
      include UnicornWords

      UNHEEDED.each do |word, advice|
        next if Setting.find(word)

        define_method(word) { |*, **, &_| sheet.unheeded(word, advice) }
      end

      # Constants that occur in files of Puma and Unicorn.
      # rubocop:disable Naming/ConstantName -- Puma's names
      DefaultRackup = "config.ru"
      DefaultTCPHost = "0.0.0.0"
      DefaultTCPPort = 9292
      DefaultWorkerCheckInterval = 5
      DefaultWorkerTimeout = 60
      DefaultWorkerShutdownTimeout = 30
      # rubocop:enable Naming/ConstantName

      # Keys that files of Unicorn change in it, without effect.
      module Unicorn
        # An upgrade (USR2) starts the new server by the command of the old one.
        module HttpServer
          START_CTX = { argv: [], cwd: ".", 0 => "oribi" } # rubocop:disable Style/MutableConstant -- files write to it
        end

        # The command line has been read.
        module Configurator
          RACKUP = { file: "config.ru", host: nil, port: nil, options: {} } # rubocop:disable Style/MutableConstant -- see above
        end
      end

      def initialize(sheet)
        @oribi_sheet = sheet
      end

      # An unknown word: a word of another server, a typing error, or a new setting. If it has one value, it is passed to the
      # server, which suggests a similar name.
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
