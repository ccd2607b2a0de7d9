# frozen_string_literal: true

require "oribi/error"
require "oribi/live/client"
require "oribi/live/handlers"

module Oribi
  # Connections that stay open while no worker has anything to do with them: rack.upgrade. docs/live.md describes them.
  module Live
    # Opens the connection of a request. `lines`: more fields of the response to a WebSocket.
    def self.open(is_websocket, env, handler, lines)
      client = Client.new(0, protocol: is_websocket ? :websocket : :sse, env:, handler:)
      client.kept = Handlers.dump(handler, client.protocol)
      command(is_websocket ? Command.accept(lines, client.kept) : Command.hold(client.kept))
      wants = Handlers.wants(handler)
      command(Command.want(wants)) unless wants.empty?
      client
    end

    # Handles the event that a request is.
    def self.event(env)
      kind = env.delete("HTTP_ORIBI/EVENT")
      name = env.delete("HTTP_ORIBI/CONNECTION").hex
      pending = env.delete("HTTP_ORIBI/PENDING").to_i
      env.delete("CONTENT_LENGTH")
      content = env["rack.input"].read
      data = content.byteslice(4, content.unpack1("N"))
      payload = content.byteslice((4 + data.bytesize)..)
      Client.new(name, protocol: Handlers.protocol(data), env:, pending:).event(kind, data, payload)
    end
  end

  # Sends a message to all clients that have subscribed to a channel: in a worker, also in threads, with at most 63 KiB outside
  # of a request and an event. A WebSocket gets it as text if it is UTF-8, else as bytes; `as:` :text, :binary or :event decides
  # otherwise. Returns false if the message has more and the response to the request has ended.
  def self.publish(channel, message, as: nil)
    raise TypeError, "a message is a String, not #{message.inspect}" unless message.is_a?(String)

    Live.command(Live::Command.publish(as || Live::Command.kind_of(message), Live::Command.channel_of(channel), message))
  end
end
