# frozen_string_literal: true

require "oribi/child_end"
require "oribi/external_iteration"
require "oribi/timers"

module Oribi
  # The Fiber::Scheduler of a worker with --fibers. The worker runs it one round at a time, from its root fiber, and between two
  # rounds takes requests (ext/oribi/fibers.c). Fibers that wait transfer to the root fiber, because an app may wait in a fiber
  # that another one has resumed, such as an Enumerator's.
  class Scheduler
    # The seconds after which the worker looks for commands and requests, although further fibers can continue.
    TURN = 0.01

    # A fiber that waits for events of a descriptor.
    Wait = Struct.new(:fiber, :events)

    # Ends the waits of fibers when the process ends.
    class ProcessEnds < Exception # rubocop:disable Lint/InheritException -- An app that rescues its errors must not go on.
    end

    # A scheduler of a worker's fibers.
    module OfWorker
      private

      # An app that sets another scheduler would end all requests.
      def refuse_replacement
        Kernel.raise ThreadError, "the fiber scheduler of a worker with --fibers cannot be replaced"
      end
    end

    # In a process that the app forks, nothing schedules fibers, so waits block.
    module Forks
      def _fork
        pid = super
        Fiber.set_scheduler(nil) if pid.zero? && Fiber.scheduler.is_a?(OfWorker)
        pid
      end
    end
    Process.singleton_class.prepend(Forks)

    include OfWorker

    # The scheduler of this worker: async's, if the app has loaded that gem, unless `own`.
    def self.of_worker(own)
      ChildEnd.watch
      return new if own || !defined?(::Async::Scheduler)

      unless RUBY_VERSION >= "3.3" && Gem::Version.new(::Async::VERSION) >= Gem::Version.new("2.0")
        warn("async #{::Async::VERSION} does not run with --fibers in Ruby #{RUBY_VERSION}: that takes async 2 and Ruby 3.3")
        return new
      end
      require "oribi/async_scheduler"
      AsyncScheduler.new
    end

    # Before Ruby 3.2, IO.select does not ask the scheduler.
    module Select
      def select(*arguments)
        scheduler = Fiber.current_scheduler
        scheduler.is_a?(Scheduler) ? scheduler.io_select(*arguments) : super
      end
    end
    if RUBY_VERSION < "3.2"
      IO.singleton_class.prepend(Select)
      ExternalIteration.begin
    end

    def initialize
      @root = Fiber.current
      @thread = Thread.current
      @process = Process.pid
      @poller = Poller.new
      @timers = Timers.new
      # Fibers that wait, with the kind of their wait.
      @waiting = {}.compare_by_identity
      # Fibers that continue in the next round, with the values that their waits return.
      @ready = {}.compare_by_identity
      # Exceptions for fibers that another fiber has resumed: raised when they wait themselves.
      @pending = {}.compare_by_identity
      # Fibers that wait in the middle of others, which have resumed them, by those.
      @nested = {}.compare_by_identity
      # The waits for each descriptor.
      @descriptors = {}
      # Fibers that other threads wake.
      @unblocked = Thread::Queue.new
    end

    # ---- For the worker ------------------------------------------------------------------------------------------------

    # Ends each round as long as this descriptor is readable.
    def watch(descriptor)
      @poller.watch(descriptor)
      # A descriptor of the app may have had the number of the one that was watched before.
      @descriptors.each { |number, waits| arm(number, waits) }
    end

    # Waits at most so long (nil: without a limit) until fibers can continue, and lets these run until they wait again.
    def come_round(seconds)
      # Ruby 3.3 forgets a scheduler that has not let itself be replaced (see close).
      Fiber.set_scheduler(self) unless Fiber.scheduler.equal?(self)
      return if seconds&.zero? && idle?

      take_unblocked
      # The lane must send the content of fibers before it waits.
      waits = @ready.empty?
      run_ready
      handle_events(@poller.wait(waits ? [seconds, @timers.interval].compact.min : 0))
      @timers.fire { |fiber, value| value.is_a?(Exception) ? end_wait(fiber, value) : wake(fiber, value) }
      take_unblocked
      run_ready
    end

    # Raises an exception in a fiber where it waits, or waits next. The wait may be that of a fiber that it has resumed.
    def end_wait(fiber, exception)
      fiber = @nested[fiber] while @nested.key?(fiber)
      if @ready.key?(fiber)
        @ready[fiber] = exception
      elsif !wake(fiber, exception) && fiber.alive?
        @pending[fiber] = exception
      end
    end

    # The exception that ends a request whose client has gone.
    def gone
      Errno::EPIPE.new("the client has gone")
    end

    # Ends the waits of all fibers, which Ruby cannot end itself: a mutex for which a fiber waits would abort the process.
    def end_waits
      (@waiting.keys + @ready.keys).each { |fiber| end_wait(fiber, ProcessEnds.new("the worker ends")) }
      begin
        run_ready(Float::INFINITY)
      rescue ProcessEnds, StandardError
        retry
      end
    end

    # ---- Hooks of Ruby -------------------------------------------------------------------------------------------------

    def fiber(&block)
      fiber = Fiber.new(blocking: false, &block)
      stand_alone(fiber)
      if Fiber.current.equal?(@root)
        fiber.transfer
      else
        @ready[Fiber.current] = nil
        exception = fiber.transfer
        raise exception if exception
      end
      fiber
    end

    # Also Mutex#sleep, and so ConditionVariable#wait, which are unblocked.
    def kernel_sleep(duration = nil)
      wait(:block, duration)
    end

    def block(_blocker, timeout = nil)
      wait(:block, timeout)
    end

    # A fiber that is woken by another one is woken at once: later, the wait may be over, and the fiber may wait again.
    def unblock(_blocker, fiber)
      return wake_blocked(fiber) if Thread.current.equal?(@thread)

      @unblocked << fiber
      @poller.wake
    end

    def io_wait(io, events, timeout = nil)
      descriptor = io.fileno
      wait = Wait.new(Fiber.current, events)
      waits = (@descriptors[descriptor] ||= [])
      waits << wait
      return events unless arm(descriptor, waits)

      wait(:io, timeout)
    ensure
      forget(descriptor, waits, wait) if waits
    end

    # By a thread, because only Ruby's own IO.select knows which bytes were received and not read yet.
    def io_select(*arguments)
      in_thread { IO.select(*arguments) }
    end

    # Wakes the fibers that wait for a descriptor that is about to be closed.
    def io_close(io)
      descriptor = io.is_a?(Integer) ? io : io.fileno
      @descriptors[descriptor]&.dup&.each { |wait| end_wait(wait.fiber, IOError.new("stream closed in another fiber")) }
      false
    end

    def process_wait(pid, flags)
      in_thread { Process::Status.wait(pid, flags) }
    end

    def address_resolve(hostname)
      in_thread { Addrinfo.getaddrinfo(hostname, nil).map(&:ip_address).uniq }
    end

    def timeout_after(duration, exception, message)
      fiber = Fiber.current
      error = exception.is_a?(Class) ? exception.new(message) : exception
      timer = @timers.add(duration, fiber, error)
      yield duration
    ensure
      @timers.cancel(timer) if timer
      @pending.delete(fiber) if @pending[fiber].equal?(error)
    end

    def fiber_interrupt(fiber, exception)
      end_wait(fiber, exception)
    end

    # The process ends: the fibers that wait do not continue.
    def close
      return if Process.pid != @process

      refuse_replacement unless Fiber.current.equal?(@root)

      @poller.close
    end

    private

    def idle?
      @waiting.empty? && @ready.empty? && @unblocked.empty?
    end

    # Lets others run until the fiber is woken. Returns the value with which it is woken, or false after the timeout.
    def wait(kind, timeout)
      fiber = Fiber.current
      pending = @pending.empty? ? nil : @pending.delete(fiber)
      raise pending if pending

      outer = nest
      @nested[outer] = fiber if outer
      @waiting[fiber] = kind
      timer = @timers.add(timeout, fiber, false) if timeout
      value = @root.transfer
      obey
      value = @pending.delete(fiber) || value unless @pending.empty?
      raise value if value.is_a?(Exception)

      value
    ensure
      @timers.cancel(timer) if timer
      @waiting.delete(fiber)
      @nested.delete(outer) if outer
    end

    # Returns whether the fiber was waiting.
    def wake(fiber, value)
      return false unless @waiting.delete(fiber)

      @ready[fiber] = value
      true
    end

    # A fiber that was unblocked too late waits for something else by now.
    def take_unblocked
      wake_blocked(@unblocked.pop) until @unblocked.empty?
    end

    def wake_blocked(fiber)
      wake(fiber, true) if @waiting[fiber] == :block
    end

    # Fibers that are ready again meanwhile continue in the next round, and so do those whose turn does not come in time.
    def run_ready(turn = TURN)
      over = Timers.now + turn
      @ready.size.times do
        fiber, value = @ready.shift
        break unless fiber

        continue(fiber, value) if fiber.alive?
        break if Timers.now >= over
      end
    end

    def handle_events(found)
      found.each_slice(2) do |descriptor, events|
        waits = @descriptors[descriptor] or next
        ready, others = waits.partition { |wait| (wait.events & events) != 0 }
        waits.replace(others)
        ready.each { |wait| wake(wait.fiber, wait.events & events) }
        others.empty? ? @descriptors.delete(descriptor) : arm(descriptor, others)
      end
    end

    # Returns false if the descriptor is always ready.
    def arm(descriptor, waits)
      @poller.arm(descriptor, waits.inject(0) { |events, wait| events | wait.events })
    end

    def forget(descriptor, waits, wait)
      waits.delete_if { |other| other.equal?(wait) }
      @descriptors.delete(descriptor) if waits.empty? && @descriptors[descriptor].equal?(waits)
    end

    # The value of a block that blocks its thread.
    def in_thread(&block)
      thread = Thread.new(&block)
      thread.report_on_exception = false
      thread.value
    ensure
      thread&.kill
    end
  end
end
