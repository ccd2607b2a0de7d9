# frozen_string_literal: true

# An app that is interrupted: by timeouts, by other threads and by traps, wherever the server may be just then.

require "timeout"
require_relative "probe/probe"

LOUD = ("x" * 1_000_000).freeze

# The threads that interrupt others between their requests.
LATE = [] # rubocop:disable Style/MutableConstant -- filled by requests

module Probe
  # Interrupts the calling thread as soon as it waits.
  def self.interrupt(env)
    victim = Thread.current
    way = parameter(env, "way")
    Thread.new do
      Thread.pass until victim.stop?
      way == "kill" ? victim.kill : victim.raise(IOError, "raised from outside")
    end
  end

  # More than the client will take.
  on "/flood/each" do |env|
    pieces = Enumerator.new do |yielder|
      yielder << LOUD
      interrupt(env)
      100.times { yielder << LOUD }
    end
    [200, {}, Body.new(env, pieces)]
  end

  on "/flood/stream" do |env|
    [200, {}, StreamBody.new(env) do |stream|
      stream.write(LOUD)
      interrupt(env)
      100.times { stream.write(LOUD) }
    end]
  end

  on "/flood/timeout" do |env|
    pieces = Enumerator.new do |yielder|
      Timeout.timeout(0.1) { 100.times { yielder << LOUD } }
    rescue Timeout::Error
      note(env, "timeout")
      raise
    end
    [200, {}, Body.new(env, pieces)]
  end

  # Goes on after an interruption that it has rescued.
  on "/flood/rescued" do |env|
    [200, {}, StreamBody.new(env) do |stream|
      sent = 0
      begin
        Timeout.timeout(0.1) do
          20.times do
            stream.write(LOUD)
            sent += 1
          end
        end
      rescue Timeout::Error
        note(env, "rescued")
      end
      stream.write("|rest")
      stream.close
    end]
  end

  on "/interrupt/sleep" do |env|
    interrupt(env)
    sleep
  end

  on "/interrupt/ensure" do |env|
    interrupt(env)
    begin
      sleep
    ensure
      note(env, "ensured")
    end
  end

  on "/interrupt/close" do |env|
    body = Body.new(env, ["content"])
    body.define_singleton_method(:close) do
      super()
      Probe.interrupt(@env)
      sleep
    end
    [200, {}, body]
  end

  on "/interrupt/after" do |env|
    env["rack.after_reply"] << lambda do
      interrupt(env)
      sleep
    end
    env["rack.after_reply"] << -> { note(env, "second") }
    text("replied")
  end

  on "/interrupt/late" do |env|
    # The victim is between two requests, or in the next one.
    victim = Thread.current
    way = parameter(env, "way")
    env["rack.after_reply"] << lambda do
      Thread.handle_interrupt(Object => :never) do
        LATE << Thread.new { way == "kill" ? victim.kill : victim.raise(IOError, "raised too late") }
      end
    end
    text("replied")
  end

  # Replies when all of them have interrupted, unless one of them hits this request.
  on "/interrupt/late/done" do |_env|
    LATE.each(&:join)
    text("done")
  end

  on "/trap" do |env|
    seen = []
    trap("USR2") { seen << Thread.current.equal?(Thread.main) }
    Process.kill("USR2", Process.pid)
    sleep 0.001 while seen.empty?
    note(env, "trapped")
    text(seen.inspect)
  end

  on "/trap/raises" do |_env|
    trap("USR2") { raise IOError, "raised in a trap" }
    text(Process.pid.to_s)
  end

  on "/timeout/many" do |_env|
    ends = Array.new(50) do |number|
      Timeout.timeout(number.even? ? 0.001 : 5) { number.even? ? sleep : :done }
    rescue Timeout::Error
      :over
    end
    text(ends.tally.inspect)
  end
end

run Probe
