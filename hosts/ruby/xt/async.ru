# frozen_string_literal: true

# An app that uses the gem async in its handlers.

require "async"
require "async/barrier"
require "async/queue"
require "async/semaphore"
require "async/http/internet"

module Tasks
  OPEN = Hash.new(0)
  INTERNET = Async::HTTP::Internet.new

  def self.note(id, text)
    File.write(ENV.fetch("PROBE_EVENTS"), "#{id} #{text}\n", mode: "a")
  end

  def self.text(body)
    [200, { "content-type" => "text/plain" }, body.respond_to?(:call) ? body : [body.to_s]]
  end

  def self.count(name)
    OPEN[name] += 1
    yield
  rescue Exception # rubocop:disable Lint/RescueException -- noted, and raised again
    note(name, $!.class)
    raise
  ensure
    OPEN[name] -= 1
  end

  # The most tasks that a semaphore lets run at once.
  def self.limited
    barrier = Async::Barrier.new
    semaphore = Async::Semaphore.new(2, parent: barrier)
    running = most = 0
    8.times do
      semaphore.async do
        most = [most, running += 1].max
        sleep 0.01
        running -= 1
      end
    end
    barrier.wait
    most
  ensure
    barrier.stop
  end

  def self.streamed
    queue = Async::Queue.new
    Async do
      10.times { |number| sleep(0.005) && queue.enqueue(number.to_s) }
      queue.enqueue(nil)
    end
    lambda do |stream|
      while (piece = queue.dequeue)
        stream.write(piece)
      end
      stream.close
    end
  end

  # A stream whose tasks never end by themselves.
  def self.endless
    lambda do |stream|
      Async { count("child") { sleep } }
      stream.write("first\n")
      count("endless") { sleep }
    ensure
      stream.close
    end
  end

  WAYS = {
    "tasks" => ->(_) { Array.new(3) { |number| Async { sleep(0.02) && number } }.map(&:wait).join },
    "current" => ->(_) { [Async::Task.current.running?, Fiber.scheduler.class].join(" ") },
    "scheduler" => ->(_) { Fiber.scheduler.class },
    "sync" => ->(_) { Sync { |task| task.async { sleep(0.02) && "sync" }.wait } },
    "limited" => ->(_) { limited },
    "timeout" => lambda do |_|
      Async::Task.current.with_timeout(0.02) { sleep }
    rescue Async::TimeoutError
      "over"
    end,
    "fetch" => ->(port) { count("fetch") { INTERNET.get("http://127.0.0.1:#{port}/").read } },
    "streamed" => ->(_) { streamed },
    "endless" => ->(_) { endless },
    "open" => ->(name) { OPEN[name] },
    "late" => lambda do |_|
      Async { count("child") { sleep } }
      count("late") { sleep }
    end,
    "patient" => lambda do |_, env|
      Async { sleep(0.1) && env["oribi.deadline"].call(60) }.wait
      sleep 1.5
      "in time"
    end,
    # An Enumerator and a Fiber have fibers that are no tasks.
    "inner" => lambda do |_, env|
      sleep 0.01
      move = -> { sleep(0.01) && env["oribi.deadline"].call(60).inspect }
      Enumerator.new { |pieces| pieces << move.call }.next + Async { Fiber.new(&move).resume }.wait
    end,
    "fail" => ->(_) { Async(finished: false) { sleep(0.01) && raise("a task has failed") }.wait },
    "stop-all" => ->(_) { Async::Task.current.reactor.stop },
    "close" => ->(_) { Async::Task.current.reactor.close },
    "stop" => ->(_) { Async::Task.current.stop },
    "behind" => ->(name) { Async { sleep(0.05) && note("behind", name) } && "answered" },
    "transient" => lambda do |_|
      Async(transient: true) { count("transient") { loop { sleep 0.01 } } }
      "begun"
    end,
    "sleep" => ->(seconds) { sleep(Float(seconds)) && "slept" }
  }.freeze

  def self.call(env)
    _, way, rest = env["PATH_INFO"].split("/")
    handler = WAYS.fetch(way)
    text(handler.call(*[rest, env].first(handler.arity)))
  end
end

run Tasks
