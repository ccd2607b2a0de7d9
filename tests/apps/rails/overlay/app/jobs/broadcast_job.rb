# frozen_string_literal: true

class BroadcastJob < ApplicationJob
  def perform(stream, text)
    ActionCable.server.broadcast(stream, { text: })
  end
end
