# frozen_string_literal: true

require "delegate"

module Oribi
  module ActionCable
    # Action Cable's server, as the object of a connection at an edge sees it during an event: it does at once what the real one
    # leaves to its threads.
    class EdgeServer < SimpleDelegator
      # The socket of the connection.
      attr_reader :edge_socket

      def initialize(server, socket)
        super(server)
        @edge_socket = socket
      end

      def worker_pool
        InlineWorker.instance
      end

      def event_loop
        @event_loop ||= EventLoop.new(@edge_socket)
      end

      def pubsub
        @pubsub ||= Subscriptions.new(__getobj__, @edge_socket)
      end

      # Those at an edge are not listed: they have no object between two events.
      def add_connection(_connection); end

      def remove_connection(_connection); end

      # Does at once what an event loop does later.
      class EventLoop
        attr_reader :edge_socket

        def initialize(socket)
          @edge_socket = socket
        end

        def post(task = nil)
          task ? task.call : yield
        end

        def timer(_interval)
          raise Error, "a connection that an edge keeps open has no timers"
        end
      end

      # The subscriptions of a connection, as commands to its edge.
      class Subscriptions < SimpleDelegator
        def initialize(server, socket)
          super(server.pubsub)
          @socket = socket
          @config = server.config
        end

        # `handler`: a Stream, or what Action Cable does with internal messages, which the edge does instead.
        def subscribe(broadcasting, handler, success = nil)
          @socket.client.subscribe(Streams.channel(@config, broadcasting), **options(handler))
          success&.call
        end

        def unsubscribe(broadcasting, handler)
          @socket.client.unsubscribe(Streams.channel(@config, broadcasting), **options(handler))
        end

        private

        def options(handler)
          handler.is_a?(Stream) ? { around: handler.envelope } : {}
        end
      end
    end
  end
end
