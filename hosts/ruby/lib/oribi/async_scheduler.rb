# frozen_string_literal: true

require "async"
require "oribi/scheduler"

module Oribi
  # The scheduler of a worker with --fibers whose app has loaded the gem async, version 2 or later: its own, with its loop and
  # its timers. Each request is a task. The worker runs the loop one round at a time; the lane's descriptor is one more in it.
  class AsyncScheduler < ::Async::Scheduler
    include Scheduler::OfWorker

    def initialize
      super
      @process = Process.pid
    end

    # ---- For the worker ------------------------------------------------------------------------------------------------

    # Ends each round as long as this descriptor is readable.
    def watch(descriptor)
      # The loop has no round without a task that lasts.
      @lasting = async { sleep } unless @lasting&.alive?
      @watch&.stop
      @watched = descriptor
      @watch = descriptor && async do
        lane = IO.for_fd(descriptor, autoclose: false)
        loop { lane.wait_readable }
      end
    end

    def come_round(seconds)
      Fiber.set_scheduler(self) unless Fiber.scheduler.equal?(self)
      # An app may have stopped all tasks.
      watch(@watched) unless @lasting.alive?
      run_once(seconds)
    end

    # Ends a request, which waits, by an exception, and the tasks that it has begun.
    def end_wait(fiber, exception)
      task = fiber.async_task
      self.raise(fiber, exception) if fiber.alive?
      task&.children&.each(&:stop)
    rescue FiberError
      # Another fiber that it has resumed waits. It ends with its task.
      task&.stop(true)
    end

    # The exception that ends a request whose client has gone.
    def gone
      ::Async::Stop.new("the client has gone")
    end

    def end_waits
      close
    end

    # ---- Hooks of Ruby and of async ------------------------------------------------------------------------------------

    # Ruby's Process._fork and async's have done their part in a child.
    def scheduler_close(*)
      refuse_replacement if Process.pid == @process && !closed?
    end

    # Also called by async for a scheduler that was never closed by Ruby.
    def close
      refuse_replacement if ::Async::Task.current? && Process.pid == @process
      super unless closed?
    end
  end
end
