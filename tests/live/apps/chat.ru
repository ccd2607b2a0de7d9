# frozen_string_literal: true

# A chat, and news that the app stores in the file TEST_NEWS: a client that comes again gets those that it has missed.

# Texts of a request are bytes.
module Text
  def self.of(bytes) = bytes.dup.force_encoding("UTF-8")
end

module News
  def self.add(text)
    number = File.open(ENV.fetch("TEST_NEWS"), "a+") { |file| file.puts(text).then { file.rewind && file.count } }
    Oribi.publish("news", event(number, text), as: :event)
  end

  def self.after(number)
    File.readlines(ENV.fetch("TEST_NEWS"), chomp: true).each.with_index(1).drop(number).map { |text, place| event(place, text) }
  end

  def self.event(number, text) = "id: #{number}\ndata: #{text}"
end

module Reader
  def self.on_open(client)
    client.subscribe("news")
    client.write("retry: 100", as: :event)
    last = client.env["HTTP_LAST_EVENT_ID"]
    News.after(Integer(last)).each { |event| client.write(event, as: :event) } if last
  end
end

class Guest
  def initialize(name)
    @name = name
  end

  def on_open(client)
    client.subscribe("chat")
    client.write("welcome #{@name}")
  end

  def on_message(client, message)
    return client.write(message.reverse) if message.encoding == Encoding::BINARY

    client.publish("chat", "#{@name}: #{message}")
  end
end

run(lambda do |env|
  case env["rack.upgrade?"]
  when :websocket then env["rack.upgrade"] = Guest.new(Text.of(env["QUERY_STRING"]))
  when :sse then env["rack.upgrade"] = Reader
  else News.add(Text.of(env["rack.input"].read))
  end
  [env["rack.upgrade?"] ? 200 : 204, {}, []]
end)
