# frozen_string_literal: true

module Oribi
  # An error that the user of the server must fix: an option, a configuration file. Its message is meant for users.
  class Error < StandardError; end

  # Prints a message for the user before there is a log.
  def self.notice(text)
    # Not `warn`, which prints nothing with -W0.
    $stderr.write("oribi: #{text}\n")
  end
end
