# frozen_string_literal: true

# Rack::Sendfile names the files of Rack::Files: /files/NAME is NAME in FILES. /steered shows the effect of a client's fields
# on that.
require "rack"

use Rack::Sendfile, ENV.fetch("SENDFILE_TYPE", nil), [[ENV.fetch("FILES"), "/internal"]]
map "/files" do
  run(Rack.const_defined?(:Files) ? Rack::Files.new(ENV.fetch("FILES")) : Rack::File.new(ENV.fetch("FILES")))
end
map "/steered" do
  run(lambda do |env|
    [200, { "content-type" => "text/plain" }, [env.slice("HTTP_X_SENDFILE_TYPE", "HTTP_X_ACCEL_MAPPING").to_a.join(" ")]]
  end)
end
map "/" do
  run ->(_env) { [200, { "content-type" => "text/plain" }, ["app\n"]] }
end
