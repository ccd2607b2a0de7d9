# frozen_string_literal: true

module Oribi
  # The Fiber::Scheduler of a process that the app has forked from a worker with --fibers, while it ends. Ruby then unlocks the
  # mutexes of the process. It would abort for one that a fiber of the worker waits for, because that fiber has no scheduler;
  # this one is asked to wake the fiber, which never runs here. Waits block, as in the rest of such a process.
  class ChildEnd
    # Runs after all ends that the app has set in the worker and in the child.
    def self.watch
      worker = Process.pid
      at_exit { Fiber.set_scheduler(new) if Process.pid != worker }
    end

    def block(_blocker, timeout = nil)
      kernel_sleep(timeout || 0.01)
      false
    end

    def unblock(_blocker, _fiber); end

    def kernel_sleep(duration = nil)
      IO.select(nil, nil, nil, duration)
    end

    def io_wait(io, events, timeout = nil)
      wanted = [IO::READABLE, IO::WRITABLE].map { |event| (events & event).zero? ? [] : [io] }
      IO.select(*wanted, nil, timeout) ? events : false
    end

    def close; end
  end
end
