# frozen_string_literal: true

# The same as parts.psgi.

PIECES = Enumerator.new do |pieces|
  5.times do
    sleep 0.002
    pieces << ("x" * 10_000)
  end
end

PLAIN = { "content-type" => "text/plain" }.freeze

run(lambda do |env|
  next [200, PLAIN.dup, PIECES] unless env["PATH_INFO"] == "/slow"

  sleep 0.02
  [200, PLAIN.dup, ["slow\n"]]
end)
