# frozen_string_literal: true

module Oribi
  # The times at which fibers continue, in order.
  class Timers
    # A fiber that continues at a time of the monotonic clock, with a value. `fiber` is nil when it is cancelled.
    Timer = Struct.new(:at, :fiber, :value)

    # The fewest cancelled timers that are worth removing.
    FEW = 64

    def initialize
      @timers = []
      @cancelled = 0
    end

    def self.now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def add(seconds, fiber, value)
      raise RangeError, "NaN out of Time range" if seconds.is_a?(Float) && seconds.nan?

      timer = Timer.new(Timers.now + seconds, fiber, value)
      # Most apps wait for the same few times, so most timers come last.
      if @timers.empty? || @timers.last.at <= timer.at
        @timers << timer
      else
        @timers.insert(@timers.bsearch_index { |other| other.at > timer.at }, timer)
      end
      timer
    end

    def cancel(timer)
      return unless timer.fiber

      timer.fiber = nil
      @cancelled += 1
      return if @cancelled < FEW || @cancelled * 2 < @timers.size

      @timers.select!(&:fiber)
      @cancelled = 0
    end

    # The seconds until the next timer, 0 at least; nil if there is none.
    def interval
      drop_cancelled
      @timers.empty? ? nil : [@timers.first.at - Timers.now, 0].max
    end

    # Yields the timers whose time has come.
    def fire
      now = Timers.now
      while (timer = @timers.first) && timer.at <= now
        @timers.shift
        fiber = timer.fiber
        timer.fiber = nil
        fiber ? yield(fiber, timer.value) : @cancelled -= 1
      end
    end

    private

    def drop_cancelled
      while @timers.first && !@timers.first.fiber
        @timers.shift
        @cancelled -= 1
      end
    end
  end
end
