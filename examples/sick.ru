# frozen_string_literal: true

# An app that falls ill on demand, to see each illness in the server's figures (docs/observe.md, "From a symptom to the
# cause"). sick.psgi describes the paths.
#
#     oribi examples/sick.ru --workers 2 --metrics 9090 --dashboard on

KEPT = [] # rubocop:disable Style/MutableConstant
# The default of the number after a question mark, and its maximum.
NUMBERS = { "/slow" => [2, 60], "/busy" => [0.5, 60], "/leak" => [8, 64], "/large" => [32, 256] }.freeze

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
def text(status, text) = [status, { "content-type" => "text/plain" }, ["#{text}\n"]]

def compute(seconds)
  finish = now + seconds
  nil while now < finish
  text(200, "computed for #{seconds} seconds")
end

def large(mebibytes)
  pieces = Enumerator.new { |body| mebibytes.to_i.times { body << ("\1" * (1 << 20)) } }
  [200, { "content-type" => "application/octet-stream" }, pieces]
end

def answer(path, number)
  case path
  when "/" then text(200, "well")
  when "/slow" then sleep(number) && text(200, "slept for #{number} seconds")
  when "/busy" then compute(number)
  when "/leak" then text(200, "kept #{(KEPT << ("\1" * (number * (1 << 20)))).size} pieces")
  when "/large" then large(number)
  when "/fail" then text(500, "failed")
  when "/die" then Process.kill(:KILL, Process.pid) && sleep
  when "/stuck" then sleep
  else text(404, "There is no #{path}.")
  end
end

run(lambda do |env|
  default, highest = NUMBERS[env["PATH_INFO"]]
  query = env["QUERY_STRING"]
  number = query.match?(/\A\d+(\.\d+)?\z/) ? query.to_f : default
  answer(env["PATH_INFO"], number && highest && [number, highest].min)
end)
