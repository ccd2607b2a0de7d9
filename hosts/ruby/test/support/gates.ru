# frozen_string_literal: true

# An app whose requests wait for one another, so that tests see which of them run at the same time.

GATES = Hash.new { |gates, name| gates[name] = Queue.new }
LOCK = Mutex.new
COUNTS = Hash.new(0)
ARRIVED = [] # rubocop:disable Style/MutableConstant -- filled by requests
NEWS = ConditionVariable.new

# Ends the main thread of a worker, separately from the requests of others.
MAIN_ENDS = {
  "exit" => -> { Thread.main.raise(SystemExit) },
  "trap" => lambda do
    trap("USR2") { exit }
    Process.kill("USR2", Process.pid)
  end,
  "abort" => lambda do
    trap("USR2") { abort }
    Process.kill("USR2", Process.pid)
  end,
  "kill" => lambda do
    trap("USR2") { Thread.current.kill }
    Process.kill("USR2", Process.pid)
  end,
  "twice" => lambda do
    Thread.main.raise(SystemExit)
    sleep(0.01)
    Thread.main.raise(SystemExit)
  end
}.freeze

def text(content)
  [200, { "content-type" => "text/plain" }, [content.to_s]]
end

run(lambda do |env|
  _, action, name, number = env["PATH_INFO"].split("/")
  case action
  when "meet" # returns as soon as so many requests are here
    LOCK.synchronize do
      ARRIVED << name
      NEWS.broadcast
      NEWS.wait(LOCK) until ARRIVED.count(name) >= number.to_i
    end
    text(Thread.current.object_id)
  when "wait" then text(GATES[name].pop)
  when "open" then text(GATES[name].push("opened") && "opening")
  when "waiting" then text(GATES[name].num_waiting)
  when "count"
    before = LOCK.synchronize { COUNTS[name] }
    Thread.pass
    LOCK.synchronize { COUNTS[name] += 1 }
    text(before)
  when "total" then text(COUNTS[name])
  when "thread" then text("#{Thread.current == Thread.main} #{Thread.current.object_id}")
  when "threads" then text(Thread.list.size)
  when "flag" then text(env["rack.multithread"])
  when "local"
    seen = Thread.current[:seen]
    Thread.current[:seen] = name
    text(seen.inspect)
  when "spin"
    stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.3
    nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
    text("spun")
  when "pid" then text(Process.pid)
  when "kill" # from another thread, while this one waits
    victim = Thread.current
    Thread.new do
      Thread.pass until victim.stop?
      victim.kill
    end
    sleep
  when "raise"
    victim = Thread.current
    Thread.new do
      Thread.pass until victim.stop?
      victim.raise(IOError, "raised from outside")
    end
    sleep
  when "hold" # until the test has made a file
    File.write("#{ENV.fetch("TEST_DIRECTORY")}/#{name}.holds", "")
    sleep(0.002) until File.exist?("#{ENV.fetch("TEST_DIRECTORY")}/#{name}")
    text("held")
  when "main" # has its end come, or something that looks like it
    MAIN_ENDS.fetch(name).call
    text("told")
  else text("fine")
  end
end)
