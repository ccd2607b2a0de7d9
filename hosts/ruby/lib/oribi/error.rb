# frozen_string_literal: true

module Oribi
  # An error that the user of the server must fix: an option, a configuration file. Its message is meant for users.
  class Error < StandardError; end

  # A text for a message that quotes a value, without what may be secret in it. The `oribi` command, which reads the file of the
  # configuration in a program without the extension, does this itself.
  def self.without_secrets(text)
    respond_to?(:masked) ? masked(text.scrub.delete("\0")) : text
  end

  # Prints a message for the user before there is a log.
  def self.notice(text)
    # Not `warn`, which prints nothing with -W0.
    $stderr.write("oribi: #{text}\n")
  end
end
