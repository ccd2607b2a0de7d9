# frozen_string_literal: true

# Sends back to a subscriber what it says, and to all subscribers what is said to all.
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
