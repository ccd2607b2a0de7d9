# frozen_string_literal: true

# Answers each request with its path, this version of the app, the pod, and the content that was sent or requested.
require "socket"

version = File.read("/srv/version").chomp
pod = Socket.gethostname

run(lambda do |env|
  content = env["rack.input"].read.to_s
  sleep 0.003
  more = env["QUERY_STRING"][/\Amore=(\d+)\z/, 1]
  content = "x" * more.to_i if more
  [200, { "content-type" => "text/plain" }, ["#{env["PATH_INFO"]} #{version} #{pod} #{content.bytesize}\n", content]]
end)
