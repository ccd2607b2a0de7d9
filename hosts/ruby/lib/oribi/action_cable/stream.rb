# frozen_string_literal: true

module Oribi
  module ActionCable
    # A stream of a subscription: the edge sends the broadcasts, in an envelope with the identifier of the subscription.
    class Stream
      attr_reader :envelope

      def initialize(identifier)
        @envelope = ["{\"identifier\":#{ActiveSupport::JSON.encode(identifier)},\"message\":", "}"].freeze
      end

      # The bytes that the edge keeps for it besides the name.
      def size
        @envelope.sum(&:bytesize)
      end
    end
  end
end
