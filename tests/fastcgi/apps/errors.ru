# frozen_string_literal: true

# Complains on rack.errors.

require "logger"

kept = nil
complain = {
  "/" => lambda { |errors|
    errors.write("a complaint of ", "several parts\n")
    errors.puts("another")
    errors.flush
  },
  "/large" => ->(errors) { errors.puts("x" * 200_000) },
  "/text" => ->(errors) { errors.puts("caf\u00e9") },
  "/wait" => ->(errors) { errors << "told " << "at last\n" },
  "/log" => ->(errors) { Logger.new(errors).warn("by a logger") },
  "/keep" => ->(errors) { kept = errors },
  "/late" => ->(_) { kept.puts("too late") },
  "/child" => lambda { |errors|
    Process.wait(fork do
      errors.puts("of a child")
      exit!
    end)
  }
}

run(lambda do |env|
  complain[env["PATH_INFO"]].call(env["rack.errors"])
  [200, {}, ["done"]]
end)
