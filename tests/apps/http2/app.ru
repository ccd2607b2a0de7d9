# Answers for clients of HTTP/2: text about the request, content of any size, whole or in pieces, and an app that takes long.
# frozen_string_literal: true

MEGABYTES = "x" * 2_000_000

# Content in pieces.
class Pieces
  def each
    50.times { yield "y" * 20_000 }
  end
end

run(lambda do |env|
  case env["PATH_INFO"]
  when "/large" then [200, { "content-type" => "text/plain" }, [MEGABYTES]]
  when "/pieces" then [200, { "content-type" => "text/plain" }, Pieces.new]
  when "/socket" then [200, {}, ["hijack: #{env["rack.hijack?"]} #{env.key?("rack.hijack")}\n"]]
  when "/slow"
    sleep 2
    [200, {}, ["slow\n"]]
  else
    told = %w[REQUEST_METHOD REQUEST_URI SERVER_PROTOCOL HTTP_HOST HTTP_COOKIE].map { |name| "#{name}=#{env[name]}" }
    size = env["rack.input"]&.read&.bytesize || 0
    [200, { "content-type" => "text/plain" }, [[*told, "size=#{size}", ""].join("\n")]]
  end
end)
