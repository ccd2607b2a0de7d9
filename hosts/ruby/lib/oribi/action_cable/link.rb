# frozen_string_literal: true

module Oribi
  module ActionCable
    # The handler of a connection (rack.upgrade): makes the object that Action Cable has for a connection, for each event from
    # the state that the one before has left.
    class Link
      # The signs of life that Action Cable's clients expect: they connect again after six seconds without any.
      PING = '{"type":"ping"}'
      INTERVAL = 3

      # Answers a handshake.
      def self.open(server, env)
        new.open(server, env)
      end

      def open(server, env)
        connect_to(server, env)
        @connection.process
      end

      def on_open(client)
        @socket.client = client
        @connection.on_open
        # A client that hears no ping and was not welcomed connects again.
        client.beat(INTERVAL, PING) if client.open? && Resumption.opened?(@connection)
      end

      def on_message(client, message)
        resume(client)
        @connection.on_message(message)
      end

      def on_close(client)
        resume(client)
        @connection.on_close("", 1006)
      end

      def marshal_dump
        @connection ? Resumption.dump(@connection) : @state
      end

      def marshal_load(state)
        @state = state
      end

      private

      def connect_to(server, env)
        @socket = Socket.new(env, self)
        @connection = server.config.connection_class.call.new(EdgeServer.new(server, @socket), env)
      end

      def resume(client)
        connect_to(::ActionCable.server, client.env)
        @socket.client = client
        Resumption.load(@connection, @state)
      end
    end
  end
end
