# frozen_string_literal: true

# An app whose requests mark themselves as waiting, and then wait for files that a test makes.
module IoBound
  DIRECTORY = ENV.fetch("TEST_DIRECTORY")

  module_function

  def text(content)
    [200, { "content-type" => "text/plain" }, [content.to_s]]
  end

  # Writes down that something happened, for the test.
  def note(name, event)
    File.open(ENV.fetch("PROBE_EVENTS"), "a") { |file| file.syswrite("#{name} #{event}\n") }
  end

  # Waits until the test has made a file.
  def hold(name)
    File.write("#{DIRECTORY}/#{name}.holds", "")
    sleep(0.002) until File.exist?("#{DIRECTORY}/#{name}")
    note("ends", name)
    name
  end

  def from_another_thread(&block)
    victim = Thread.current
    Thread.new do
      Thread.pass until victim.stop?
      block.call(victim)
    end
    sleep
  end

  # The content of a response that waits after its head.
  def body(name)
    Enumerator.new do |content|
      content << "begun "
      content << hold(name)
    end
  end

  def hijack(env, name)
    io = env["rack.hijack"].call
    Thread.new do
      hold(name)
      io.write("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhijacked")
      io.close
    end
    text("")
  end

  # Marks the request in a way, and returns the result.
  def mark(env, way)
    case way
    when "oribi" then env["oribi.io_bound"].call
    when "puma" then env["puma.mark_as_io_bound"].call
    when "thread" then Thread.new { env["oribi.io_bound"].call }.value
    when "twice" then Array.new(2) { env["oribi.io_bound"].call }.uniq
    when "child" then Process.wait2(fork { exit!(env["oribi.io_bound"].call ? 1 : 0) }).last.exitstatus == 1
    when "late"
      env[env.key?("rack.response_finished") ? "rack.response_finished" : "rack.after_reply"] <<
        ->(*) { note("late", env["oribi.io_bound"].call) }
    end
  end

  ENDS = {
    "hold" => ->(_, name) { text(hold(name)) },
    "body" => ->(_, name) { [200, { "content-type" => "text/plain" }, body(name)] },
    "hijack" => ->(env, name) { hijack(env, name) },
    "fail" => ->(*) { raise "after the mark" },
    "throw" => ->(*) { throw :nowhere },
    "sleep" => ->(*) { sleep },
    "kill" => ->(*) { from_another_thread(&:kill) },
    "raise" => ->(*) { from_another_thread { |victim| victim.raise(IOError, "from outside") } },
    "return" => ->(*) { :no_response }
  }.freeze
end

run(lambda do |env|
  _, way, ending, name = env["PATH_INFO"].split("/")
  case way
  when "threads" then IoBound.text(Thread.list.count { |thread| thread != Thread.main })
  when "keys" then IoBound.text(env.keys.grep(/io_bound/).sort.join(" "))
  when "pid" then IoBound.text(Process.pid)
  when "hold" then IoBound.text(IoBound.hold(ending))
  when "fine" then IoBound.text("fine")
  when "note"
    IoBound.note("ends", ending)
    IoBound.text("noted")
  else
    marked = IoBound.mark(env, way)
    IoBound::ENDS.key?(ending) ? IoBound::ENDS.fetch(ending).call(env, name) : IoBound.text(marked)
  end
end)
