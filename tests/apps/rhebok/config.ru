# frozen_string_literal: true

run lambda { |_env|
  [200, { "content-type" => "text/plain" }, ["#{Process.pid} generation #{ENV.fetch('SERVER_STARTER_GENERATION', 'none')}\n"]]
}
