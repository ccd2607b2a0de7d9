# frozen_string_literal: true

module Oribi
  module ActionCable
    # The WebSocket of a connection at an edge, in place of ActionCable::Connection::ClientSocket.
    class Socket
      # The bytes of what is kept above which one subscription more may be too many.
      MUCH = 32 << 10

      # The bytes that are left for values that grow.
      SPARE = 1 << 10

      # The client of the event; nil before the connection is open.
      attr_accessor :client

      def initialize(env, link)
        @env = env
        @link = link
      end

      # The first one of Action Cable's subprotocols that the client knows.
      def protocol
        offered = @env["HTTP_SEC_WEBSOCKET_PROTOCOL"].to_s.split(/\s*,\s*/)
        ::ActionCable::INTERNAL[:protocols].find { |known| offered.include?(known) }
      end

      def rack_response
        @env["rack.upgrade"] = @link
        [101, protocol ? { "sec-websocket-protocol" => protocol } : {}, []]
      end

      def alive?
        !@client.nil? && @client.open?
      end

      def transmit(message)
        @client.write(message)
      end

      def close(*)
        @client.close
      end

      # Whether no room is left for what is kept of the connection, with some bytes for values that grow.
      def overfull?
        # To know the size takes as long as to keep it.
        @client.kept.bytesize > MUCH && Marshal.dump(@link).bytesize > Live::Handlers::LARGEST - SPARE
      end
    end

    # Extends ActionCable::Connection::WebSocket.
    module WebSocketHook
      def initialize(env, event_target, event_loop, **options)
        if event_loop.respond_to?(:edge_socket)
          @websocket = event_loop.edge_socket
        else
          super
        end
      end
    end
  end
end
