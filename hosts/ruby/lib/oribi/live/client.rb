# frozen_string_literal: true

require "oribi/live/command"

module Oribi
  module Live
    # A connection that an edge keeps open, as handlers see it (rack.upgrade). It lives as long as an event: the next event has
    # another one.
    class Client
      # The environment of the request that has opened the connection; nil in the event of another connection.
      attr_reader :env

      # :websocket or :sse; nil in the event of another connection.
      attr_reader :protocol

      attr_reader :handler

      # A client that a handler keeps is the same connection in the next event.
      def self._load(bytes)
        name = bytes.unpack1("Q>")
        name.zero? || name == Live.client&.name ? Live.client : new(name)
      end

      # `name` is 0 while the connection is being opened, because the edge names it later.
      # `pending`: the messages that the edge has not sent completely.
      def initialize(name, protocol: nil, env: nil, handler: nil, pending: 0)
        @name = name
        @protocol = protocol
        @env = env
        @handler = handler
        @pending = pending
        @open = true
      end

      # Sends a String: as text if it is UTF-8, else as bytes. On a stream of events it is the data of an event; with
      # `as: :event` it has lines of an event ("event: news\ndata: ..."). Returns whether the connection was open.
      def write(data, as: nil)
        data = data.to_s
        return false unless open?

        send_command(Command.send(reachable_name, as || kind_of(data), data)).tap { |sent| @pending += 1 if sent }
      end

      # Closes the connection, after all that was written.
      def close
        return unless open?

        send_command(Command.close(reachable_name, 1000))
        @open = false
        nil
      end

      def open?
        @open
      end

      # The messages before the next on_drained: 0 if the handler has no such method, or in events of other connections.
      def pending
        return -1 unless @open

        own? && @handler.respond_to?(:on_drained) ? @pending : 0
      end

      # Whether `subscribe` exists.
      def pubsub?
        true
      end

      # Makes the client get all messages to a channel. They do not pass through the app. `around`: two Strings, which come
      # before and after each message of text; a channel with others is another subscription.
      def subscribe(channel, around: nil, **options, &block)
        raise ArgumentError, "messages of a channel go to the client directly, not to a block" if block || options[:handler]
        raise ArgumentError, "a channel has one name: patterns are not supported" if options[:match]

        unknown = options.keys - %i[as handler match]
        raise ArgumentError, "subscribe has no option #{unknown.first.inspect}" unless unknown.empty?

        command_of_own(:subscribe, channel, around) && channel
      end

      def unsubscribe(channel, around: nil)
        command_of_own(:unsubscribe, channel, around)
      end

      # Sends a text every so many seconds, until `beat(0)`; there is one for each client. It costs no event.
      def beat(interval, text = "")
        unless interval.is_a?(Numeric) && (interval.zero? || interval.between?(1, 86_400))
          raise ArgumentError, "an interval has 1 to 86400 seconds, or 0, not #{interval.inspect}"
        end
        raise ArgumentError, "such a text has at most 1024 bytes" if text.bytesize > 1024

        own!
        open? && send_command(Command.beat(interval, text))
      end

      def publish(channel, message, engine = nil, as: nil)
        raise ArgumentError, "there is one engine, which reaches all connections" unless engine.nil?

        Oribi.publish(channel, message, as:)
      end

      # Replaces the handler: the old one gets on_close, the new one on_open.
      def handler=(handler)
        return if handler.equal?(@handler)

        call(:on_close) if @handler
        before = Handlers.wants(@handler)
        @handler = handler
        unless handler
          close
          return
        end

        wants = Handlers.wants(handler)
        send_command(Command.want(wants)) unless wants == before
        call(:on_open)
      end

      def inspect
        "#<#{self.class} #{@protocol || format('%016x', @name)}>"
      end

      def _dump(_level)
        [@name].pack("Q>")
      end

      # ---- For the server --------------------------------------------------------------------------------------------------

      # 0: not known.
      attr_reader :name

      # Runs a block in which this is the current client; afterwards it is one of another event.
      def during
        before = Live.client
        Live.client = self
        yield
      ensure
        Live.client = before
      end

      # The connection is being opened.
      def opened
        during { handle { call(:on_open) } }
      end

      # Handles an event.
      def event(kind, data, payload)
        during do
          @handler = Handlers.load(data)
          @kept = data
          case kind
          when "text" then handle { call(:on_message, payload.force_encoding(Encoding::UTF_8)) }
          when "binary" then handle { call(:on_message, payload) }
          when "drained" then handle { call(:on_drained) }
          when "shutdown" then handle { call(:on_shutdown) }
          when "close" then closed
          end
        end
      end

      # The handler as bytes, as the edge keeps it.
      attr_accessor :kept

      private

      # The data of the connection changes only if the handler has changed.
      def handle
        yield
        return unless open?

        data = Handlers.dump(@handler, @protocol)
        send_command(Command.data(data)) unless data == @kept
      end

      def closed
        @open = false
        call(:on_close)
      end

      def call(callback, *arguments)
        @handler.public_send(callback, self, *arguments) if @handler.respond_to?(callback)
      end

      def kind_of(data)
        @protocol == :sse ? :text : Command.kind_of(data)
      end

      def own?
        equal?(Live.client)
      end

      def reachable_name
        return 0 if own?
        raise Error, "a client that is kept from on_open is reached only in the events of its own connection" if @name.zero?

        @name
      end

      def own!
        raise Error, "a client subscribes only in the events of its own connection" unless own?
      end

      def command_of_own(order, channel, envelope)
        own!
        channel = Command.channel_of(channel)
        return open? && send_command(Command.public_send(order, channel)) unless envelope

        open? && send_command(Command.public_send("#{order}_with", channel, Command.envelope_of(envelope)))
      end

      def send_command(bytes)
        Live.command(bytes)
      end
    end
  end
end
