# frozen_string_literal: true

module Oribi
  module ActionCable
    # Extends Action Cable's server: its connections stay open at an edge, if there is one, and broadcasts reach those.
    module ServerHook
      def call(env)
        # Events come back to the one server that a process has.
        return super unless env["rack.upgrade?"] == :websocket && equal?(::ActionCable.server)

        Link.open(self, env)
      end

      # The adapter of config/cable.yml, for the connections that the edge does not have.
      def pubsub
        adapter = super
        adapter.extend(Broadcasts) unless adapter.is_a?(Broadcasts)
        adapter
      end

      # Extends an adapter.
      module Broadcasts
        def broadcast(broadcasting, payload)
          Streams.broadcast(self, broadcasting, payload)
          super
        end
      end
    end
  end
end
