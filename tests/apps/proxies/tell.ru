# frozen_string_literal: true

# Answers with the variables about its client.
keys = %w[REMOTE_ADDR REMOTE_PORT rack.url_scheme HTTPS HTTP_HOST SERVER_PORT]
run(lambda do |env|
  fields = env.keys.grep(/\AHTTP_(?:X_FORWARDED|X_REAL_IP|FORWARDED)/).sort.join(",")
  [200, { "content-type" => "text/plain" }, ["#{[*keys.map { |key| env[key] || "-" }, fields].join(" ")}\n"]]
end)
