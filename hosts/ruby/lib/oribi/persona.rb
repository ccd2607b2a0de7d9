# frozen_string_literal: true

module Oribi
  # The name that the server was called by, with the rules that users of that name know.
  class Persona
    # What holds where nobody says otherwise and the server would hold something else, by setting.
    attr_reader :defaults

    def initialize(file_wins:, defaults: {})
      @file_wins = file_wins
      @defaults = defaults
    end

    # Whether the configuration file wins over the command line.
    def file_wins?
      @file_wins
    end

    # The higher rank wins.
    def rank(origin)
      (@file_wins ? %i[default caller file] : %i[default file caller]).index(origin.kind)
    end

    # An origin in the server's words, by which it ranks it.
    def words(origin)
      origin.kind == :file && !@file_wins ? "file #{origin.words}" : origin.words
    end

    # Sees to it that what was said makes sense together.
    def adjust(said)
      said
    end

    # Rhebok takes a range that is none for a number, and the server takes it for a mistake.
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
