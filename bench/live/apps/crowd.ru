# frozen_string_literal: true

# Clients that listen to a channel, and /say, which sends its query to all. Iodine serves this file, too.
class Listener
  def self.on_open(client)
    client.subscribe("crowd")
  end
end

BUS = defined?(Iodine) ? Iodine : Oribi

run(lambda do |env|
  if env["rack.upgrade?"]
    env["rack.upgrade"] = Listener
    next [200, {}, []]
  end
  BUS.publish("crowd", env["QUERY_STRING"].dup.force_encoding("UTF-8"))
  [204, {}, []]
end)
