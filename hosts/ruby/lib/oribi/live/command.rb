# frozen_string_literal: true

module Oribi
  module Live
    # The commands of an app to the edge that owns the connections, as bytes: docs/live.md describes them.
    module Command
      KINDS = { text: 1, binary: 2, event: 3 }.freeze
      EVENTS = { drained: 1, shutdown: 2 }.freeze

      # The most bytes of a message of 16 MiB with all that is sent with it.
      LARGEST = (16 << 20) + (2 << 10)

      # The most bytes around a message.
      LARGEST_ENVELOPE = 8 << 10

      # The most subscriptions of a connection, and the most bytes around the messages of all of them.
      MOST_SUBSCRIPTIONS = 1024
      MOST_ENVELOPES = 64 << 10

      module_function

      # `lines`: more fields of the response, each as "Name: value\r\n".
      def accept(lines, data) = whole(1, [lines.bytesize].pack("N"), lines, data)

      # `connection` 0 is that of the request.
      def send(connection, kind, payload) = whole(2, [connection, number_of(kind)].pack("Q>C"), payload)

      def close(connection, code) = whole(3, [connection, code].pack("Q>n"))

      def subscribe(channel) = whole(4, channel)

      def unsubscribe(channel) = whole(5, channel)

      def publish(kind, channel, payload) = whole(6, [number_of(kind)].pack("C"), sized(channel), payload)

      def data(data) = whole(7, data)

      def hold(data) = whole(8, data)

      # `envelope`: the texts before and after each message of text.
      def subscribe_with(channel, envelope) = whole(9, sized(channel), sized(envelope[0]), envelope[1])

      def unsubscribe_with(channel, envelope) = whole(10, sized(channel), sized(envelope[0]), envelope[1])

      # Closes all that have subscribed to a channel.
      def close_all(channel, code) = whole(11, [code].pack("n"), sized(channel))

      # The events, besides messages and the end, that the connection of the request has from now on.
      def want(events) = whole(13, [events.sum { |event| EVENTS.fetch(event) }].pack("C"))

      # `interval` is in seconds.
      def beat(interval, text) = whole(12, [(interval * 1000).round].pack("N"), text)

      def sized(part) = [part.bytesize].pack("n") + part.b

      def whole(tag, *parts)
        size = parts.sum(&:bytesize)
        raise ArgumentError, "a message has at most 16 MiB, not #{size} bytes" if size > LARGEST

        parts.each_with_object([tag, size].pack("CN")) { |part, bytes| bytes << part.b }
      end

      def number_of(kind)
        KINDS.fetch(kind) { raise ArgumentError, "a message is :text, :binary or :event, not #{kind.inspect}" }
      end

      # The kind of a message: text if it is valid UTF-8 and meant as such.
      def kind_of(message)
        text = [Encoding::UTF_8, Encoding::US_ASCII].include?(message.encoding) && message.valid_encoding?
        text ? :text : :binary
      end

      # The two texts of an envelope.
      def envelope_of(texts)
        valid = texts.is_a?(Array) && texts.size == 2 && texts.all? { |text| text.is_a?(String) && kind_of(text) == :text }
        raise ArgumentError, "`around` has two Strings of text, not #{texts.inspect}" unless valid
        raise ArgumentError, "the texts of `around` have at most 8 KiB" if texts.sum(&:bytesize) > LARGEST_ENVELOPE

        texts
      end

      # The name of a channel.
      def channel_of(name)
        raise TypeError, "a channel is a String or a Symbol, not #{name.inspect}" unless name.respond_to?(:to_sym)

        name = name.to_s
        raise ArgumentError, "the name of a channel has at most 1024 bytes" if name.bytesize > 1024

        name
      end
    end
  end
end
