# frozen_string_literal: true

# Headers of responses.
module Probe
  on("/fields/lines") { |_env| [200, { "x-lines" => "one\ntwo\nthree" }, []] }
  on("/fields/blank-lines") { |_env| [200, { "x-lines" => "\n\none\n\n\ntwo\n" }, []] }
  on("/fields/only-newlines") { |_env| [200, { "x-lines" => "\n\n", "x-after" => "there" }, []] }
  on("/fields/array") { |_env| [200, { "x-lines" => %w[one two three] }, []] }
  on("/fields/cookies") { |_env| [200, { "set-cookie" => RACK3 ? %w[a=1 b=2] : "a=1\nb=2" }, []] }
  on("/fields/symbols") { |_env| [200, { "x-number" => 5, "x-symbol" => :value }, []] }
  on("/fields/lengths") { |_env| [200, { "Content-Length" => "2", "content-length" => "2" }, ["ok"]] }
  on("/fields/length-numbers") { |_env| [200, { "Content-Length" => 2, "content-length" => "2" }, ["ok"]] }
  on("/fields/no-length") { |_env| [200, { "content-length" => nil }, ["ok"]] }
  on("/fields/other-length") { |_env| [200, { "Content-Length" => "2", "content-length" => "3" }, ["ok"]] }
  on("/fields/empty") { |_env| [200, { "x-empty" => "" }, []] }
  on("/fields/bytes") { |_env| [200, { "x-bytes" => "caf\u00e9" }, []] }
  on("/fields/date") { |_env| [200, { "date" => "Mon, 01 Jan 2001 00:00:00 GMT", "server" => "an app" }, []] }
  on("/fields/like-date") { |_env| [200, { "d" => "1", "dat" => "2", "ser" => "3", "conn" => "4", "dates" => "5" }, []] }
  on("/fields/connection") { |_env| [200, { "connection" => "keep-alive, x-secret" }, ["content"]] }
  on("/fields/connection-close") { |_env| [200, { "connection" => "close" }, ["content"]] }
  on("/fields/rack") { |_env| [200, { "rack.private" => "hidden", "x-shown" => "yes" }, []] }
  on("/fields/many") { |_env| [200, (1..200).to_h { |number| ["x-field-#{number}", "value #{number}"] }, []] }
  on("/fields/long") { |_env| [200, { "x-long" => "v" * 20_000 }, []] }
  on("/fields/frozen") { |_env| [200, { "x-one" => "1" }.freeze, ["content"].freeze].freeze }
  on("/fields/pairs") { |_env| [200, [%w[x-one 1], %w[x-two 2]], []] }
  on("/fields/capitals") { |_env| [200, { "Content-Type" => "text/plain", "Content-Length" => "5" }, ["hello"]] }
  on("/fields/coding") { |_env| [200, { "transfer-encoding" => "chunked" }, ["5\r\nhello\r\n", "0\r\n\r\n"]] }
  on("/fields/length") { |_env| [200, { "content-length" => "5" }, ["hello"]] }
end
