# frozen_string_literal: true

# An app whose requests wait in every way in which a fiber can.

require "net/http"
require "open3"
require "socket"
require "timeout"
require "tmpdir"

module Fibers
  COUNTS = Hash.new(0)
  GATES = Hash.new { |gates, name| gates[name] = Thread::Queue.new }
  MUTEX = Mutex.new
  PIECE = "x" * 65_536
  # Has given its first number before any request.
  NUMBERS = (1..).each.tap(&:next)

  def self.note(id, text)
    File.write(ENV.fetch("PROBE_EVENTS"), "#{id} #{text}\n", mode: "a")
  end

  # Counts the requests that are in the block, and the most that ever were.
  def self.count(name)
    COUNTS[name] += 1
    most = "most #{name}"
    COUNTS[most] = [COUNTS[most], COUNTS[name]].max
    yield
  ensure
    COUNTS[name] -= 1
  end

  def self.text(body, status = 200)
    [status, { "content-type" => "text/plain" }, body.respond_to?(:each) || body.respond_to?(:call) ? body : [body.to_s]]
  end

  def self.in_time(seconds, &block)
    Timeout.timeout(seconds, &block)
  rescue Timeout::Error
    "over"
  end

  # Returns when so many requests were here at once.
  def self.together(count)
    count("together") do
      sleep 1
      sleep 0.01 until COUNTS["most together"] >= count
      text("together")
    end
  end

  # A body with `each` that waits between its pieces.
  class Pieces
    def initialize(count, size, &wait)
      @count = count
      @size = size
      @wait = wait
    end

    def each
      @count.times do |number|
        yield number.to_s[-1] * @size
        @wait&.call
      end
    ensure
      Fibers.note("each", "ended")
    end
  end

  # Writes a piece and then waits in vain.
  ENDLESS = lambda do |stream|
    Fibers.count("endless") do
      stream.write("first\n")
      Thread::Queue.new.pop
    end
  rescue Errno::EPIPE
    Fibers.note("endless", "gone")
    raise
  ensure
    stream.close
  end

  def self.flood(stream, count)
    count.times { stream.write(PIECE) }
    stream.close
  end

  # Waits, or computes after a wait, for longer than it may.
  def self.late(way)
    count("late") do
      sleep 0.05
      case way
      when "wait" then sleep
      when "inner" then Fiber.new { sleep }.resume
      else loop { nil }
      end
    end
  ensure
    note("late", "#{way} #{$!.class}")
  end

  # Two fibers that hold a mutex in turn for as long as the worker lives.
  def self.aside_mutex
    mutex = Mutex.new
    2.times do
      Fiber.schedule do
        loop { mutex.synchronize { sleep 0.01 } }
      ensure
        note("aside", "ended")
      end
    end
  end

  # A queue gets its item when the wait for it is over, and the fiber that has waited does not run yet.
  def self.late_wake
    queue = Thread::Queue.new
    Fiber.schedule { sleep(0.02) && queue.push(1) }
    Fiber.schedule { sleep(0.01) && spin(0.1) }
    in_time(0.03) { queue.pop }
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    sleep 0.2
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - start >= 0.2 ? "slept" : "woken"
  end

  def self.spin(seconds)
    done = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < done
  end

  WAYS = {
    "most" => ->(name) { text(COUNTS["most #{name}"]) },
    "open" => ->(name) { text(COUNTS[name]) },
    "together" => ->(count) { together(Integer(count)) },
    "process" => ->(_) { text(Process.pid) },
    "compute" => ->(_) { text((1..200_000).sum) },
    "sleep" => ->(seconds) { sleep(Float(seconds)) && text("slept") },
    "nap" => ->(_) { count("nap") { sleep(0.05) && text("napped") } },
    "pass" => ->(name) { count("pass") { text(GATES[name].pop) } },
    "let" => ->(name) { GATES[name].push("passed") && text("let") },
    "fetch" => ->(port) { count("fetch") { text(Net::HTTP.get(URI("http://localhost:#{port}/"))) } },
    "child" => ->(_) { text([`sleep 0.05; echo out`.chomp, system("exit 3"), $?.exitstatus].inspect) },
    "open3" => ->(_) { text(Open3.capture2e("cat; echo err >&2", stdin_data: "in ").first) },
    "thread" => ->(_) { text(Thread.new { sleep(0.05) && "from a thread" }.value) },
    "fork" => ->(_) { text(Process.wait2(fork { sleep(0.05) && exit!(3) }).last.exitstatus) },
    # A fiber waits for a mutex that another one has.
    "fork-mutex" => lambda do |_|
      mutex = Mutex.new
      holder = Thread::Queue.new
      Fiber.schedule { mutex.synchronize { holder.pop } }
      Fiber.schedule { mutex.synchronize { holder.push("unlocked") } }
      ended = Process.wait2(fork { sleep 0.01 }).last
      holder.push("unlock")
      text([ended.exitstatus, mutex.synchronize { holder.pop }].inspect)
    end,
    "timeout-nan" => lambda do |_|
      text(Timeout.timeout(Float::NAN) { sleep })
    rescue RangeError, ArgumentError => e
      text(e.message)
    end,
    "fork-return" => ->(_) { fork ? Process.wait && text("parent") : text("child") },
    "timeout" => ->(_) { text(in_time(0.02) { sleep }) },
    "timeout-twice" => ->(_) { text(Array.new(2) { in_time(30) { sleep(0.01) && "in time" } }.uniq.first) },
    "enumerator" => lambda do |_|
      numbers = Enumerator.new { |out| 3.times { |number| sleep(0.01) && out << number } }
      text([numbers.next, numbers.next, numbers.next].join)
    end,
    "enumerator-pass" => lambda do |name|
      passes = Enumerator.new do |out|
        out << GATES[name].pop
        out.yield(1, 2)
        "result"
      end
      seen = [passes.peek, passes.next, passes.peek_values, passes.next]
      begin
        passes.next
      rescue StopIteration => e
        seen << e.result
      end
      passes.rewind
      text((seen << passes.next).inspect)
    end,
    "enumerator-of-the-app" => ->(_) { text(Array.new(2) { NUMBERS.next }.inspect) },
    "select" => lambda do |_|
      reader, writer = IO.pipe
      Fiber.schedule { sleep(0.02) && writer.write("x") }
      text(IO.select([reader], nil, nil, 30).first.size) # rubocop:disable Lint/IncompatibleIoSelectWithFiberScheduler -- tried here
    end,
    "wait-in-vain" => ->(_) { text(IO.pipe.first.wait_readable(0.02).inspect) },
    "both-ways" => lambda do |_|
      one, other = UNIXSocket.pair
      Fiber.schedule { other.read(1_000_000).size.then { |size| other.write(size.to_s) && other.close } }
      Fiber.schedule { one.write("y" * 1_000_000) }
      text(one.read)
    end,
    "condition" => lambda do |_|
      condition = ConditionVariable.new
      signalled = false
      Fiber.schedule { MUTEX.synchronize { (signalled = true) && condition.signal } }
      MUTEX.synchronize { condition.wait(MUTEX, 30) until signalled }
      Fiber.schedule { MUTEX.synchronize { condition.wait(MUTEX) } && (signalled = "twice") }
      condition.signal
      sleep 0.01 until signalled == "twice"
      text(signalled)
    end,
    "mutex" => lambda do |_|
      MUTEX.synchronize { sleep(0.005) && text(COUNTS["inside"] += 1) }
    end,
    "replace" => ->(_) { Fiber.set_scheduler(nil) || text("replaced") },
    "raise" => ->(_) { sleep(0.01) && raise("broken") },
    "throw" => ->(_) { sleep(0.01) && throw(:nothing) },
    "exit" => ->(_) { sleep(0.01) && exit(3) },
    "kill" => ->(_) { sleep(0.01) && Thread.current.kill },
    "background" => ->(_) { Fiber.schedule { sleep(0.01) && raise("in the background") } && text("begun") },
    "late" => ->(way) { late(way) },
    "aside-mutex" => ->(_) { aside_mutex && text("begun") },
    "late-wake" => ->(_) { text(late_wake) },
    "aside-loop" => ->(_) { Fiber.schedule { loop { sleep 0.01 } } && text("begun") },
    "spin" => ->(_) { loop { nil } },
    "fiber-local" => ->(_) { text(Thread.current[:seen].inspect.tap { Thread.current[:seen] = sleep(0.01) }) },
    "main" => ->(_) { text([Thread.current == Thread.main, Fiber.current.blocking?].join(" ")) },
    "stream" => lambda do |count|
      text(->(stream) { Integer(count).times { |number| sleep(0.01) && stream.write(number.to_s) } && stream.close })
    end,
    "unclosed" => ->(_) { text(->(stream) { sleep(0.01) && stream.write("unclosed") }) },
    "later" => ->(_) { text(->(stream) { Fiber.schedule { sleep(0.02) && stream.write("later") && stream.close } }) },
    "aside" => ->(count) { text(->(stream) { Thread.new { flood(stream, Integer(count)) } }) },
    "flood" => ->(count) { text(->(stream) { flood(stream, Integer(count)) }) },
    "each" => ->(count) { text(Pieces.new(Integer(count), 1) { sleep 0.01 }) },
    "each-flood" => ->(count) { text(Pieces.new(Integer(count), 65_536)) },
    "each-endless" => ->(_) { text(Pieces.new(10**9, 1) { count("each-endless") { sleep 3600 } }) },
    "endless" => ->(_) { text(ENDLESS) }
  }.freeze
end

run(lambda do |env|
  way, argument = env["PATH_INFO"].delete_prefix("/").split("/", 2)
  case way
  when "multithread" then Fibers.text(env["rack.multithread"].inspect)
  when "upload"
    sleep(0.02)
    content = env["rack.input"].read
    Fibers.text("#{content.bytesize} #{content.sum}")
  when "patient-inner"
    Fiber.new { sleep(0.05) && env["oribi.deadline"].call(nil) }.resume
    sleep 1.5
    Fibers.text("in time")
  when "patient"
    sleep 0.05
    env["oribi.deadline"].call(nil)
    sleep 1.5
    Fibers.text("in time")
  when "finished"
    list = env["rack.response_finished"] || env["rack.after_reply"]
    list << ->(*) { sleep(0.05) && Fibers.note("finished", argument) }
    Fibers.text("answered")
  when "hijack"
    socket = env["rack.hijack"].call
    socket.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while (line = socket.gets)
      Fibers.count("hijack") { socket.write(line.upcase) }
    end
    socket.close
    [200, {}, []]
  else
    Fibers::WAYS.fetch(way).call(argument)
  end
end)
