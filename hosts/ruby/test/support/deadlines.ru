# frozen_string_literal: true

# An app that takes too long, in every way in which an app can.

require "fiddle"
require "tempfile"
require_relative "probe/probe"

module Deadlines
  C = Fiddle.dlopen(nil)
  LOCK = "\0" * 64
  READER, WRITER = IO.pipe
  FILE = Tempfile.new

  # Waits in C for ever, with Ruby's lock or without, and without a way to end the wait.
  def self.wait_in_c(locked)
    lock = Fiddle::Function.new(C["pthread_mutex_lock"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT, need_gvl: locked)
    2.times { lock.call(LOCK) }
  end

  # Waits in C for ever, in a way that Ruby can end.
  def self.wait_for_file
    FILE.flock(File::LOCK_EX)
    File.open(FILE.path) { |other| other.flock(File::LOCK_EX) }
  end

  LOUD = "a" * 60

  WAYS = {
    "loop" => -> { loop { nil } },
    "until" => -> { nil until Deadlines::FILE.nil? },
    "rescue" => -> { loop { raise "again" rescue nil } }, # rubocop:disable Style/RescueModifier -- as in hasty code
    "sleep" => -> { sleep },
    "read" => -> { READER.read(1) },
    # Without another thread, Ruby would detect a deadlock: nothing could ever push.
    "queue" => -> { Thread.new { sleep 600 } && Queue.new.pop },
    "regex" => -> { /\A(?:(a+)\1?)+\z/.match("#{LOUD}b") },
    "flock" => -> { wait_for_file },
    "child" => -> { Process.wait(Process.spawn("sleep 600")) },
    "c" => -> { wait_in_c(false) },
    "c-locked" => -> { wait_in_c(true) }
  }.freeze
end

module Probe
  def self.stuck(env)
    Deadlines::WAYS.fetch(parameter(env, "way")).call
  end

  on "/stuck" do |env|
    begin
      stuck(env)
    rescue StandardError
      note(env, "rescued")
    ensure
      note(env, "ensured")
    end
    text("never")
  end

  # Answers all the same.
  on "/stuck/rescued" do |env|
    stuck(env)
  rescue Oribi::RequestTimeout => e
    note(env, "#{e.class}: #{e.message}")
    text("rescued")
  end

  on "/stuck/masked" do |env|
    Thread.handle_interrupt(Oribi::RequestTimeout => :never) do
      sleep parameter(env, "seconds").to_f
      note(env, "finished")
    end
    text("never")
  end

  on "/stuck/each" do |env|
    pieces = Enumerator.new do |yielder|
      yielder << "begun"
      stuck(env)
    end
    [200, {}, Body.new(env, pieces)]
  end

  on "/stuck/close" do |env|
    body = Body.new(env, ["content"])
    body.define_singleton_method(:close) do
      super()
      Probe.stuck(@env)
    end
    [200, {}, body]
  end

  on "/slow" do |env|
    sleep parameter(env, "seconds").to_f
    text("slow")
  end

  on "/busy" do |env|
    over = Process.clock_gettime(Process::CLOCK_MONOTONIC) + parameter(env, "seconds").to_f
    nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < over
    text("busy")
  end

  on "/deadline" do |env|
    time = parameter(env, "time")
    env["oribi.deadline"].call(time == "none" ? nil : Float(time))
    sleep parameter(env, "seconds").to_f
    text("late")
  end

  on "/deadline/elsewhere" do |env|
    Thread.new { env["oribi.deadline"].call(1) }.value
    text("moved")
  rescue ThreadError => e
    text(e.message)
  end
end

run Probe
