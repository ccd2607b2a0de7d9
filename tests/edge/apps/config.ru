# frozen_string_literal: true

# The behaviours of app.psgi, whose head explains them.

INSIDE = ENV.fetch("ORIBI_TEST_INSIDE")
LONG = 60

def enter(number)
  File.write("#{INSIDE}/.#{number}", Process.pid)
  File.rename("#{INSIDE}/.#{number}", "#{INSIDE}/#{number}")
end

def fields(more = {})
  { "Content-Type" => "text/plain", "X-Worker" => Process.pid.to_s, **more }
end

def answer(text, more = {})
  [200, fields("Content-Length" => text.bytesize.to_s, **more), [text]]
end

def letters(number, length)
  alphabet = [*"a".."z"].rotate(number.to_i % 26).join
  (alphabet * (1 + (length / 26)))[0, length]
end

def loop_for_ever
  limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LONG
  nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < limit
end

# Catastrophic: each further letter doubles the work. The back-reference keeps newer Rubies from memoizing their attempts.
def match_for_ever
  "#{"a" * 60}b".match?(/^(?:(a+)\1?)+$/)
end

def read_for_ever
  File.open("#{INSIDE}/.fifo", "r+", &:gets)
end

def compute_for_ever
  "word".crypt("$6$rounds=999999999$salt$")
end

# The pieces of a body, and perhaps an error after them.
class Pieces
  def initialize(text, pieces, fails)
    @text = text
    @step = text.bytesize.fdiv(pieces).ceil
    @fails = fails
  end

  def each
    (0...@text.bytesize).step(@step) { |at| yield @text[at, @step] }
    raise "broken off" if @fails
  end
end

def trailers(number, length)
  body = [letters(number, length.to_i)].each
  body.define_singleton_method(:trailers) { { "x-number" => number, "x-length" => length } }
  [200, fields, body]
end

# As in app.psgi.
def behind(env)
  trailers = env.fetch("oribi.trailers") { { "none" => "" } }
  lines = trailers.sort.map { |name, value| "#{name}: #{[*value].join(", ")}" }
  answer([*lines, "head #{env.fetch("HTTP_X_SUM", "-")}", "#{env["rack.input"].read.to_s.bytesize} bytes"].join("\n"))
end

def stream(number, length, pieces, fails)
  [200, fields, Pieces.new(letters(number, length.to_i), pieces.to_i, fails)]
end

def hijack(env, number, length = nil)
  enter(number)
  socket = env["rack.hijack"].call
  text = length ? letters(number, length.to_i) : "hijack #{number}\n"
  socket.write("HTTP/1.1 200 OK\r\nContent-Length: #{text.bytesize}\r\nConnection: close\r\n\r\n#{text}")
  socket.close
  [200, {}, []]
end

# The way in which the boot request is answered, if a test has set one.
def boot
  word = File.read("#{INSIDE}/boot").chomp
  raise "no database" if word == "die"

  sleep(LONG) if word == "hang"
  [word.to_i, {}, []]
rescue Errno::ENOENT
  answer("booted\n")
end

# Counts an order, and how long it took in a thread of its own.
def count(number)
  Oribi.count("orders", kind: number.to_i % 2)
  Thread.new { Oribi.observe("payment_seconds", 0.02, provider: "x") }.join
  answer("count #{number}\n")
end

# The server's error for an impossible figure.
def misuse(name, amount, label)
  amount = { "nan" => Float::NAN, "inf" => Float::INFINITY }.fetch(amount) { Float(amount) }
  Oribi.count(name, amount, label.to_sym => "x")
  answer("fine\n")
rescue ArgumentError => e
  answer("error: #{e.message}\n")
end

# Clients that follow something: their answers stay open.
FOLLOWERS = [] # rubocop:disable Style/MutableConstant

def follow(number)
  body = lambda do |stream|
    stream.write("data: #{number}\n\n")
    FOLLOWERS << stream
  end
  [200, fields("Content-Type" => "text/event-stream"), body]
end

# Says how many there still are.
def news
  FOLLOWERS.select! do |stream|
    stream.write("data: news\n\n")
  rescue SystemCallError, IOError
    false
  end
  answer("#{FOLLOWERS.size}\n")
end

# As in app.psgi; a thread continues each of them.
def feed(number)
  body = lambda do |stream|
    stream.write("begins #{number}\n")
    Thread.new { continue(stream, number) }
  end
  [200, fields("Content-Type" => "text/event-stream"), body]
end

def continue(stream, number)
  until File.exist?("#{INSIDE}/end")
    stream.write("goes on #{number}\n")
    sleep(0.05)
  end
  stream.write("ends #{number}\n")
  stream.close
rescue SystemCallError, IOError
  nil
end

# Ruby makes an exception of it.
def overflow
  overflow + 1
end

leaked = []

# Requests that begin by reporting that they are inside.
ENTERING = {
  "/mark" => ->(*) {},
  "/sleep" => ->(seconds) { sleep(seconds.to_f) },
  "/stuck" => -> { loop_for_ever },
  "/regex" => -> { match_for_ever },
  "/read" => -> { read_for_ever },
  "/c" => -> { compute_for_ever },
  "/exec" => -> { exec("sleep", LONG.to_s) }
}.freeze

OTHERS = {
  "/" => ->(*) { answer("hello\n") },
  "/fast" => ->(_, number) { answer("fast #{number}\n") },
  "/nap" => lambda { |_, number, seconds|
    sleep(seconds.to_f)
    answer("nap #{number}\n")
  },
  "/leak" => lambda { |_, number|
    leaked << ("x" * (2**20))
    answer("leak #{number}\n")
  },
  "/boot" => ->(*) { boot },
  "/count" => ->(_, number) { count(number) },
  "/misuse" => ->(_, _, *what) { misuse(*what) },
  "/odd" => lambda { |_, number|
    Oribi.count("odd", 0.5, text: "a\"b\\c\n\u20ac")
    answer("odd #{number}\n")
  },
  "/series" => lambda { |_, number, count|
    (1..count.to_i).each { |page| Oribi.count("visits", 1, page: page) }
    answer("series #{number}\n")
  },
  "/follow" => ->(_, number) { follow(number) },
  "/news" => ->(*) { news },
  "/feed" => ->(_, number) { feed(number) },
  "/die" => ->(_, number) { raise "request #{number} dies" },
  "/exit" => ->(*) { exit(3) },
  "/kill" => lambda { |*|
    Process.kill(:KILL, Process.pid)
    sleep(LONG)
  },
  "/vanish" => ->(*) { exit!(0) },
  "/overflow" => ->(*) { overflow },
  "/devour" => lambda { |_, number, most|
    taken = Array.new(most.to_i) { "x" * (2**20) }
    answer("devour #{number} #{taken.size}\n")
  },
  "/segv" => lambda { |*|
    Process.kill(:SEGV, Process.pid)
    sleep(LONG)
  },
  "/big" => ->(_, number, length) { answer(letters(number, length.to_i)) },
  "/stream" => ->(_, number, length, pieces) { stream(number, length, pieces, false) },
  "/trailers" => ->(_, number, length) { trailers(number, length) },
  "/behind" => ->(env, *) { behind(env) },
  "/broken" => ->(_, number, length, pieces) { stream(number, length, pieces, true) },
  "/tls" => lambda { |env, *|
    values = %w[HTTPS SSL_PROTOCOL SSL_TLS_SNI SERVER_PORT].map { |name| env.fetch(name, "-") }
    answer([env["rack.url_scheme"], *values].join(" "))
  },
  "/client" => lambda { |env, *|
    answer(%w[VERIFY S_DN I_DN M_SERIAL CERT].map { |name| env.fetch("SSL_CLIENT_#{name}", "-") }.join("\n"))
  },
  "/ls" => ->(*) { answer(`ls /proc/self/fd`) },
  "/upload" => ->(env, _) { answer(env["rack.input"].read.to_s) },
  "/unmodified" => ->(_, number) { [304, { "X-Worker" => Process.pid.to_s, "ETag" => "\"#{number}\"" }, []] },
  "/named" => ->(*) { answer("", "X-Sendfile" => "#{ENV.fetch("ORIBI_TEST_FILES")}/small") },
  "/hijack" => ->(env, number, length = nil) { hijack(env, number, length) }
}.freeze

run(lambda { |env|
  number, *arguments = env["QUERY_STRING"].split("&")
  path = env["PATH_INFO"]
  if (behaviour = ENTERING[path])
    enter(number)
    behaviour.call(*arguments)
    answer("#{path.delete_prefix("/")} #{number}\n")
  elsif (behaviour = OTHERS[path])
    behaviour.call(env, number, *arguments)
  else
    [404, { "Content-Length" => "0" }, []]
  end
})
