# frozen_string_literal: true

# An app with a path for each thing that Rack promises to apps or allows them. Rack::Lint watches it, apart from the paths below
# /bare, which do what Lint forbids and servers have to live with.

require "rack/lint"
require_relative "probe/probe"

linted = Rack::Lint.new(Probe)
run(->(env) { env["PATH_INFO"].start_with?("/bare/") ? Probe.call(env) : linted.call(env) })
