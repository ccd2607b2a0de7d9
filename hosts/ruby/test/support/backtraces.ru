# frozen_string_literal: true

# An app that is somewhere for a while, until the file `release` is there.

require "timeout"
require_relative "probe/probe"

module Places
  RELEASE = File.join(ENV.fetch("TEST_DIRECTORY"), "release")

  module_function

  def spin
    nil until File.exist?(RELEASE)
  end

  def deep(level)
    level.zero? ? spin : deep(level - 1)
  end

  # A name that would have some terminals clear the screen, and others turn text round.
  EVIL = "evil\u009b2J\u202e"
  module_eval("def self.#{EVIL} = spin", __FILE__, __LINE__) # def self.evil... = spin

  # The time that the block has taken, in seconds.
  def measured
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
  end
end

module Probe
  on("/deep") { |_env| Places.deep(2) || text("deep") }
  on("/evil") { |_env| Places.public_send(Places::EVIL) || text("evil") }
  on("/endless") { |_env| Places.deep(300) || text("endless") }
  on("/strings") { |_env| eval("Places.spin", binding, "hostile\e]0;name", 7) || text("strings") } # rubocop:disable Style/EvalWithLocation -- a hostile name
  on("/blocks") { |_env| [2, 1].sort_by { |number| Places.spin || number } && text("blocks") }

  # Each of these must wait for the time that it was given.
  on("/sleeps") { |_env| text(Places.measured { sleep 2 }.to_s) }
  on("/selects") { |_env| text(Places.measured { IO.pipe.first.wait_readable(2) }.to_s) }
  on("/joins") { |_env| text(Places.measured { Thread.new { sleep 600 }.join(2) }.to_s) }
  on("/child") { |_env| text(Places.measured { Process.wait(Process.spawn("sleep 2")) }.to_s) }

  # The app gets an exception that another thread raises meanwhile.
  on("/timeout") do |_env|
    Timeout.timeout(0.3) { loop { nil } }
  rescue Timeout::Error
    text("timeout")
  end

  on("/quick") { |env| text("#{env['QUERY_STRING']} #{(1..300).sum { |number| number.to_s.size }}") }
end

run Probe
