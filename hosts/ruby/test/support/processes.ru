# frozen_string_literal: true

# An app that reports facts of its process, and notes what happens to it: FACTS is the file, one line for each event.

FACTS = ENV.fetch("PROBE_EVENTS")

def note(text)
  File.open(FACTS, "a") { |file| file.syswrite("#{text}\n") }
end

note("loaded #{Process.pid}")
at_exit { note("at_exit #{Process.pid}") }

if defined?(HOOKS)
  HOOKS[:before_fork] << ->(worker) { note("before_fork #{worker} #{Process.pid}") }
  HOOKS[:before_fork] << ->(worker) { note("before_fork again #{worker} #{Process.pid}") }
  HOOKS[:after_fork] << ->(worker) { note("after_fork #{worker} #{Process.pid}") }
  HOOKS[:worker_stopping] << ->(worker) { note("worker_stopping #{worker} #{Process.pid}") }
  HOOKS[:server_ready] << ->(*arguments) { note("server_ready #{arguments.size} #{Process.pid}") }
end

directory = File.dirname(FACTS)

run(lambda do |env|
  _, action, name = env["PATH_INFO"].split("/")
  case action
  when "slow"
    note("slow #{name}")
    sleep 0.005 until File.exist?(File.join(directory, name))
    [200, {}, ["slow"]]
  when "exit" then exit(3)
  when "exit!" then exit!(3)
  when "ppid" then [200, {}, [Process.ppid.to_s]]
  when "signals" then [200, {}, [%w[TERM INT HUP USR1 CHLD].map { |signal| trap(signal, "DEFAULT").inspect }.join(" ")]]
  when "trap"
    trap("USR2") { note("trapped #{name}") }
    [200, {}, [Process.pid.to_s]]
  when "child"
    child = fork do
      note("child #{Process.pid}")
      sleep
    ensure
      note("child_ensured #{Process.pid}")
    end
    Process.detach(child)
    [200, {}, ["#{child} #{Process.pid}"]]
  when "random" then [200, {}, [rand(1 << 60).to_s]]
  else [200, {}, [Process.pid.to_s]]
  end
end)
