# frozen_string_literal: true

module Oribi
  # The name under which the server was called, with the rules that users of that name expect.
  class Persona
    # Defaults by setting, if they differ from the server's.
    attr_reader :defaults

    def initialize(file_wins:, defaults: {})
      @file_wins = file_wins
      @defaults = defaults
    end

    # Whether the configuration file overrides the command line.
    def file_wins?
      @file_wins
    end

    # The higher rank has precedence.
    def rank(origin)
      (@file_wins ? %i[default caller file] : %i[default file caller]).index(origin.kind)
    end

    # An origin in the words of the server, which derives the rank of a statement from them.
    def words(origin)
      origin.kind == :file && !@file_wins ? "file #{origin.words}" : origin.words
    end

    # Adjusts statements that do not fit together.
    def adjust(said)
      said
    end

    # Rhebok treats an invalid range as a single number; for the server it would be an error.
    class Rhebok < Persona
      def adjust(said)
        least, most = %w[min-requests max-requests].map { |name| said.reverse.find { |one| one.name == name } }
        return said if least.nil? || least.value.to_i < most.value.to_i

        said.reject { |one| one.name == "min-requests" }
      end
    end

    ORIBI = new(file_wins: false)

    RHEBOK = Rhebok.new(
      file_wins: true,
      defaults: {
        "host" => "0.0.0.0", "port" => 9292, "workers" => 5, "max-requests" => 1000, "timeout" => 300,
        "chunked-transfer" => false
      }
    )
  end
end
