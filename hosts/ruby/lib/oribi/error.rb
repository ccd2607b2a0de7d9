# frozen_string_literal: true

module Oribi
  # What the user of the server has to see to: an option, a configuration file. Its message is meant for people.
  class Error < StandardError; end
end
