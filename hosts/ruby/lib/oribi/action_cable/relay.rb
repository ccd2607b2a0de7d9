# frozen_string_literal: true

require "securerandom"

module Oribi
  module ActionCable
    # Broadcasts of a process that has no edge, such as Sidekiq or a console: over the Redis of Action Cable's adapter, where
    # servers with `--relay` hear them.
    class Relay
      # As --relay-prefix has it.
      PREFIX = ENV.fetch("ORIBI_RELAY_PREFIX", "oribi:")

      # The beginning of a message that is no text, with the number of its sender.
      MARK = ("\0oribi\x01".b + SecureRandom.bytes(16)).freeze

      # nil if the adapter is not that of Redis.
      def self.of(adapter)
        new(adapter) if adapter.respond_to?(:redis_connection_for_broadcasts, true)
      end

      def initialize(adapter)
        @adapter = adapter
      end

      # `message`: a text.
      def publish(channel, message)
        @adapter.send(:redis_connection_for_broadcasts).publish("#{PREFIX}#{channel}", message)
      end

      # Closes all that have subscribed to a channel.
      def close_all(channel, code)
        publish(channel, MARK + [11, code].pack("Cn"))
      end
    end
  end
end
