# frozen_string_literal: true

# Asks for things that an edge cannot do.
class OddChannel < ApplicationCable::Channel
  periodically(every: 1) { transmit({ tick: true }) }

  def subscribed
    @forgotten = "soon"
    stream_from("odd") { |message| transmit({ seen: message }) } if params[:block]
  end
end
