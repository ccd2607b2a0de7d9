# frozen_string_literal: true

# Sends each message of a WebSocket back.
module Echo
  def self.on_message(client, message) = client.write(message)
end

run(lambda do |env|
  env["rack.upgrade"] = Echo if env["rack.upgrade?"] == :websocket
  [200, {}, []]
end)
