# frozen_string_literal: true

# Waiting for what other processes do.
module Waiting
  # No answer takes as long as this, in seconds; a test that waits longer has failed.
  PATIENCE = Integer(ENV.fetch("PATIENCE", "30"))

  class TimeOver < StandardError; end

  module_function

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # Calls the block until it returns something true, and returns that.
  def wait_until(what, patience = PATIENCE)
    deadline = now + patience
    loop do
      result = yield
      return result if result
      raise TimeOver, "waited in vain for #{what.respond_to?(:call) ? what.call : what}" if now > deadline

      sleep 0.005
    end
  end
end
