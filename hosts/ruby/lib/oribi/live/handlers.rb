# frozen_string_literal: true

module Oribi
  module Live
    # Handlers as bytes, which an edge keeps between two events. Only the edge sends them: no client can.
    module Handlers
      PROTOCOLS = { websocket: "W", sse: "S" }.freeze
      LARGEST = 64 << 10

      module_function

      def dump(handler, protocol)
        bytes = PROTOCOLS.fetch(protocol) + Marshal.dump(handler)
        raise Error, "#{subject(handler)} has #{bytes.bytesize} bytes, and may have #{LARGEST}" if bytes.bytesize > LARGEST

        bytes
      rescue TypeError, ArgumentError => e
        raise Error, "#{subject(handler)} cannot be kept: #{culprit(handler) || e.message}. A handler is a class or module " \
                     "with a name, or an object whose instance variables Marshal can dump: client.env has the environment"
      end

      # The events that a handler has besides those of every connection.
      def wants(handler)
        Command::EVENTS.keys.select { |event| handler.respond_to?(:"on_#{event}") }
      end

      def protocol(bytes)
        PROTOCOLS.key(bytes[0])
      end

      def load(bytes)
        Marshal.load(bytes.byteslice(1..)) # rubocop:disable Security/MarshalLoad -- the worker has dumped it
      end

      def subject(handler)
        "the handler in rack.upgrade (#{handler.is_a?(Module) ? handler : "an instance of #{handler.class}"})"
      end

      # The instance variable that cannot be dumped.
      def culprit(handler)
        handler.instance_variables.each do |name|
          Marshal.dump(handler.instance_variable_get(name))
        rescue TypeError, ArgumentError => e
          return "#{name}: #{e.message}"
        end
        nil
      end
    end
  end
end
