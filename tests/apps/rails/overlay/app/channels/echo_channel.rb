# frozen_string_literal: true

# Sends a subscriber's messages back to it, and messages to all to all subscribers.
class EchoChannel < ApplicationCable::Channel
  def subscribed
    stream_from "everybody"
  end

  def echo(data)
    transmit({ echo: data["text"], process: Process.pid })
  end

  def announce(data)
    ActionCable.server.broadcast("everybody", { announcement: data["text"] })
  end
end
