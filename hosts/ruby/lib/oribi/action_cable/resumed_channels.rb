# frozen_string_literal: true

require "delegate"

module Oribi
  module ActionCable
    # The Hash of a connection's channels by their identifiers, from the state that the event before has left. A channel is made
    # when it is asked for: a message is for one of them, and its connection may have hundreds. Other methods of Hash make all.
    class ResumedChannels < Delegator
      # The block makes a channel of its state.
      def initialize(subscribed, &load)
        super(subscribed.to_h { |state| [state.identifier, state] })
        @load = load
      end

      def [](identifier)
        channel = @channels[identifier]
        channel.is_a?(Resumption::Subscribed) ? @channels[identifier] = @load.call(channel) : channel
      end

      def []=(identifier, channel)
        @channels[identifier] = channel
      end

      def key?(identifier)
        @channels.key?(identifier)
      end

      def keys
        @channels.keys
      end

      # The channel that is removed has been asked for.
      def delete(identifier)
        @channels.delete(identifier)
      end

      # Those that were not asked for are states.
      def as_they_are
        @channels.values
      end

      def __getobj__
        @channels.each_key { |identifier| self[identifier] }
        @channels
      end

      def __setobj__(channels)
        @channels = channels
      end
    end
  end
end
