# frozen_string_literal: true

# An app with a path for each thing that Rack promises or allows to apps. Rack::Lint checks all paths except those below /bare,
# which do what Lint forbids and what servers must be able to handle.

require "rack/lint"
require_relative "probe/probe"

linted = Rack::Lint.new(Probe)
run(->(env) { env["PATH_INFO"].start_with?("/bare/") ? Probe.call(env) : linted.call(env) })
