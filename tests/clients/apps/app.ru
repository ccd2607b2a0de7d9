# Answers for real clients: see app.psgi.
# frozen_string_literal: true

require "digest"

BLOCK = (Array.new(89) { |at| (33 + ((at + 1) % 89)).chr }.join * 12_000)[0, (1 << 20) - 8].freeze

# Blocks, each of which ends with its number.
class Numbered
  def initialize(count) = @count = count

  def each
    @count.times { |number| yield BLOCK + format("%08d", number + 1) }
  end
end

# Pieces without an end.
class Endless
  def each
    loop { yield BLOCK[0, 65_536] }
  end

  def close = File.write(ENV.fetch("ORIBI_TEST_ENDED"), "ended\n", mode: "a")
end

def sum_of(input)
  sum = Digest::SHA256.new
  size = 0
  while (piece = input&.read(1 << 20))
    sum << piece
    size += piece.bytesize
  end
  ["#{sum.hexdigest} #{size}\n"]
end

def about(env)
  ["#{%w[REQUEST_METHOD PATH_INFO SERVER_PROTOCOL SSL_PROTOCOL].map { |name| "#{name}=#{env[name]}" }.join("\n")}\n"]
end

run(lambda do |env|
  body = case env["PATH_INFO"]
         when "/sum" then sum_of(env["rack.input"])
         when "/numbered" then Numbered.new(env["QUERY_STRING"].to_i)
         when "/filled" then [BLOCK[0, env["QUERY_STRING"].to_i]]
         when "/endless" then Endless.new
         else
           sleep(env["QUERY_STRING"].to_f) if env["PATH_INFO"] == "/nap"
           sleep(0.01) until env["PATH_INFO"] != "/held" || File.exist?("#{ENV.fetch("ORIBI_TEST_ENDED")}.go")
           GC.start if env["PATH_INFO"] == "/collect"
           about(env)
         end
  [200, { "content-type" => "text/plain" }, body]
end)
