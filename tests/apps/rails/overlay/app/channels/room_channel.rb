# frozen_string_literal: true

# A room of many. Its state goes from message to message by the names that it has declared, at an edge too.
class RoomChannel < ApplicationCable::Channel
  respond_to?(:state_attr_accessor) ? state_attr_accessor(:count, :last) : attr_accessor(:count, :last)

  def subscribed
    return reject if params[:room] == "secret"

    self.count = 0
    stream_from "room #{params[:room]}"
    stream_from "ends" if params[:ends]
  end

  def unsubscribed
    ActionCable.server.broadcast("ends", { "left" => params[:room], "count" => count })
  end

  def say(data)
    self.count += 1
    ActionCable.server.broadcast("room #{params[:room]}", { text: data["text"], count: count, by: note&.text })
  end

  def ask
    transmit({ count: count, last: last&.text, process: Process.pid })
  end

  def keep(data)
    self.last = Note.create!(text: data["text"])
    ask
  end

  def quiet
    stop_all_streams
    ask
  end

  def later(data)
    Thread.new { ActionCable.server.broadcast("room #{params[:room]}", { later: data["text"] }) }.join
  end

  def fail
    raise "the channel has failed"
  end
end
