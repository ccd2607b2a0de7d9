# frozen_string_literal: true

require "digest"

module Oribi
  module ActionCable
    # Streams of Action Cable as channels of the edge. Extends ActionCable::Channel::Base.
    module Streams
      # The beginning of the names of those channels, which keeps messages of others out.
      PREFIX = "cable"

      # The name of Action Cable's own streams, by which connections are told to disconnect.
      INTERNAL = "action_cable/"

      class << self
        def channel(config, broadcasting)
          name = [PREFIX, config.cable&.dig(:channel_prefix), broadcasting].compact.join(":")
          name.bytesize > 1024 ? "#{PREFIX}:#{Digest::SHA256.hexdigest(name)}" : name
        end

        # Sends a broadcast to the connections at edges. `payload`: JSON.
        def broadcast(adapter, broadcasting, payload)
          edges = edges_of(adapter) or return

          channel = channel(adapter.server.config, broadcasting)
          if broadcasting.start_with?(INTERNAL)
            disconnect(edges, channel, ActiveSupport::JSON.decode(payload))
          else
            edges.publish(channel, payload)
          end
        end

        private

        # The way to edges: of this server, or else, in a console or another program, of servers that share a Redis. nil: there
        # is none.
        def edges_of(adapter)
          Live.respond_to?(:reachable?) && Live.reachable? ? OwnEdges : Relay.of(adapter)
        end

        def disconnect(edges, channel, message)
          return unless message["type"] == "disconnect"

          # Action Cable gives a reason since 7.0.
          if (reason = ::ActionCable::INTERNAL[:disconnect_reasons][:remote])
            farewell = { type: "disconnect", reason:, reconnect: message.fetch("reconnect", true) }
            edges.publish(channel, ActiveSupport::JSON.encode(farewell))
          end
          edges.close_all(channel, 1000)
        end
      end

      # The edges of this server.
      module OwnEdges
        def self.publish(channel, message) = Oribi.publish(channel, message, as: :text)

        def self.close_all(channel, code) = Live.command(Live::Command.close_all(channel, code))
      end

      # A stream that the edge would not take is no stream: the client is not to wait for its messages.
      def stream_from(broadcasting, ...)
        excess = at_edge? && excess_of_stream or return super
        message = "#{self.class}: stream_from(#{broadcasting.inspect}) is refused: #{excess}"
        raise Error, message if subscription_confirmation_sent?

        logger.error(message)
        reject
      end

      # Rejects a subscription that the edge could not keep: it would end its connection, whose client would come again with it.
      def run_callbacks(kind, *)
        result = super
        if kind == :subscribe && at_edge? && !subscription_rejected? && connection.server.edge_socket.overfull?
          logger.error("#{self.class} is refused: what is kept of a connection has at most 64 KiB")
          reject
        end
        result
      end

      private

      # The limit that one more stream would exceed, or nil.
      def excess_of_stream
        size = Stream.new(identifier).size
        return "the identifier of a subscription with streams has at most 8 KiB" if size > Live::Command::LARGEST_ENVELOPE

        streams, bytes = Resumption.streams_of(connection)
        if streams >= Live::Command::MOST_SUBSCRIPTIONS
          "a connection has at most #{Live::Command::MOST_SUBSCRIPTIONS} streams"
        elsif bytes + size > Live::Command::MOST_ENVELOPES
          "the identifiers of a connection's streams have at most 64 KiB"
        end
      end

      def worker_pool_stream_handler(broadcasting, user_handler, coder: nil)
        return super unless at_edge?

        odd = if user_handler
                "a block, which an edge cannot call: broadcasts go to clients as they are"
              elsif ![nil, ActiveSupport::JSON].include?(coder)
                "a coder, and an edge has that of JSON"
              end
        raise Error, "#{self.class}: stream_from(#{broadcasting.inspect}) has #{odd}" if odd

        Stream.new(identifier)
      end

      def start_periodic_timers
        return super unless at_edge?

        timers = self.class.periodic_timers.size
        return if timers.zero?

        logger.error("#{self.class}: `periodically` never runs, because nothing of a connection that an edge keeps open " \
                     "lives between its messages; broadcast to its stream from elsewhere instead")
      end

      def at_edge?
        connection.server.respond_to?(:edge_socket)
      end
    end
  end
end
