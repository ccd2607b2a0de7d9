# frozen_string_literal: true

require "English"

# Texts of a request are bytes.
module Text
  def self.of(bytes) = bytes.dup.force_encoding("UTF-8")
end

# A handler whose instance variables are carried from message to message.
class Guest
  def initialize(name)
    @name = name
    @messages = 0
  end

  def on_open(client)
    client.subscribe("room")
    client.write("welcome #{@name}") if client.protocol == :sse
  end

  def on_message(client, message)
    @messages += 1
    return client.write(message.reverse) if message.encoding == Encoding::BINARY

    order, text = message.split(" ", 2)
    answer(client, order, text)
  end

  def on_close(client)
    client.publish("room", "#{@name} left") unless @name == "quiet"
  end

  private

  def answer(client, order, text)
    case order
    when "echo" then client.write(text)
    when "count" then client.write("#{@messages} in #{Process.pid}")
    when "say" then client.publish("room", text)
    when "leave" then client.unsubscribe("room")
    when "path" then client.write(Text.of(client.env["PATH_INFO"]))
    when "bye" then client.close
    when "around" then client.subscribe("room", around: text.split("|", 2))
    when "outside" then client.unsubscribe("room", around: text.split("|", 2))
    when "beat" then client.beat(Integer(text), "beat of #{@name}")
    when "fork" then client.write(complaint_of_child(client))
    when "fail" then raise "the handler has failed"
    end
  end

  # The complaint about a subscription in a process that this one forks.
  def complaint_of_child(client)
    reader, writer = IO.pipe
    child = fork do
      client.subscribe("another")
    rescue Oribi::Error => e
      writer.write(e.message)
      writer.flush
    ensure
      exit!(0)
    end
    writer.close
    reader.read.tap { Process.wait(child) }
  end
end

class Fragile
  def initialize
    @block = proc {}
  end
end

module Plain
  def self.on_message(client, message)
    client.write("plain #{message}")
  end
end

# Sends parts, one after the other, and a last word before the server ends.
class Sender
  def on_open(client)
    client.write("welcome") if client.protocol == :sse
  end

  def on_message(client, order)
    @left, @size = order.split.map { |number| Integer(number) }
    on_drained(client)
  end

  def on_drained(client)
    return unless @left&.>=(0)

    client.write(@left.zero? ? "done" : "x" * @size)
    @left -= 1
  end

  def on_shutdown(client)
    client.write("bye")
  end
end

# A body that publishes when its response has ended.
class Late
  def each
    yield "late"
  end

  def close
    @answer = Oribi.publish("room", "after the end")
    warn "published after the end: #{@answer}"
  end
end

def complaint
  yield
rescue Oribi::Error => e
  e.message
end

def welcome(env, handler)
  env["rack.upgrade"] = handler
  fields = env["HTTP_SEC_WEBSOCKET_PROTOCOL"].to_s.include?("chat") ? { "sec-websocket-protocol" => "chat" } : {}
  [200, fields, []]
end

run(lambda do |env|
  case env["PATH_INFO"]
  when "/offer" then [200, { "content-type" => "text/plain" }, [env["rack.upgrade?"].inspect]]
  when %r{\A/(?:ws|events)/(.*)} then welcome(env, Guest.new(Text.of(Regexp.last_match(1))))
  when "/plain" then welcome(env, Plain)
  when "/sender" then welcome(env, Sender.new)
  when "/fragile" then welcome(env, Fragile.new)
  when "/refused"
    env["rack.upgrade"] = Plain
    [403, { "content-type" => "text/plain" }, ["no"]]
  when "/publish"
    Oribi.publish("room", Text.of(env["rack.input"].read))
    [204, {}, []]
  when "/thread"
    text = Text.of(env["rack.input"].read)
    answer = Thread.new { complaint { Oribi.publish("room", text).to_s } }.value
    [200, { "content-type" => "text/plain" }, [answer]]
  when "/after"
    [200, { "content-type" => "text/plain" }, Late.new]
  when "/fork"
    Process.wait(fork { Oribi.publish("room", "of a child") && exit!(7) })
    [200, { "content-type" => "text/plain" }, [$CHILD_STATUS.exitstatus.to_s]]
  else [404, { "content-type" => "text/plain" }, ["none"]]
  end
end)
