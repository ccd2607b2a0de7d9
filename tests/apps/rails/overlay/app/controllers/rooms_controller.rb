# frozen_string_literal: true

# Messages to the clients of Action Cable, from requests and from jobs.
class RoomsController < ApplicationController
  skip_forgery_protection

  def create
    ActionCable.server.broadcast("room #{params[:room]}", { text: params[:text] })
    head :no_content
  end

  # Of a thread that no request waits for.
  def later
    BroadcastJob.perform_later("room #{params[:room]}", params[:text])
    head :no_content
  end

  def disconnect
    note = Note.find(params[:note])
    ActionCable.server.remote_connections.where(note:).disconnect
    head :no_content
  end

  def threads
    render plain: "#{Thread.list.size} threads"
  end
end
