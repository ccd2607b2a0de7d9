# frozen_string_literal: true

module Oribi
  # What the user of the server has to see to: an option, a configuration file. Its message is meant for people.
  class Error < StandardError; end

  # Says something to the user before there is a log.
  def self.notice(text)
    # Not `warn`, which says nothing with -W0.
    $stderr.write("oribi: #{text}\n")
  end
end
