# frozen_string_literal: true

# Subscribes to the channel in the path, and says when it leaves.
class Member
  def initialize(channel)
    @channel = channel
  end

  def on_open(client)
    client.subscribe(@channel)
  end

  def on_message(client, text)
    text == "open" ? client.write("open") : client.publish(@channel, text)
  end

  def on_close(client)
    client.publish(@channel, "one has left")
  end
end

run(lambda do |env|
  _, order, channel = env["PATH_INFO"].split("/")
  text = env["rack.input"]&.read.to_s
  kind = env["QUERY_STRING"]
  case order
  when "ws", "events" then env["rack.upgrade"] = Member.new(channel)
  when "publish" then Oribi.publish(channel, text, as: kind.empty? ? :text : kind.to_sym)
  when "many" then Integer(kind).times { |number| Oribi.publish(channel, text + number.to_s, as: :text) }
  when "thread" then Thread.new { Oribi.publish(channel, text, as: :text) }.join
  when "close" then Oribi::Live.command(Oribi::Live::Command.close_all(channel, 1000))
  end
  [200, { "content-type" => "text/plain" }, ["done"]]
end)
