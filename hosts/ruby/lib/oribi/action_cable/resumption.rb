# frozen_string_literal: true

module Oribi
  module ActionCable
    # The state of a connection between two events: its identifiers, its subscriptions with their streams, and all that
    # state_attr_accessor names.
    module Resumption
      # The state of a channel.
      Subscribed = Struct.new(:identifier, :kept, :streams)

      # The instance variables that Action Cable has set in channels and connections, and this library.
      OWN = %i[@connection @identifier @params @defer_subscription_confirmation_counter @reject_subscription
               @subscription_confirmation_sent @_streams @active_periodic_timers @parameter_filter
               @server @env @coder @worker_pool @logger @websocket @subscriptions @message_buffer @_internal_subscriptions
               @started_at @protocol @request @connection_identifier @oribi_packed @oribi_resumed].freeze

      class << self
        def dump(connection)
          warn_of_lost_values(connection, connection.logger, names_of(connection))
          subscriptions = connection.subscriptions.instance_variable_get(:@subscriptions)
          {
            values: KeptValues.dump(connection, names_of(connection)),
            identifier: connection.instance_variable_get(:@connection_identifier),
            since: connection.instance_variable_get(:@started_at),
            tags: connection.logger.tags,
            opened: opened?(connection),
            subscriptions: subscriptions.map { |identifier, channel| dump_channel(identifier, channel) }
          }
        end

        # Gives a new connection the state of the one before.
        def load(connection, state)
          connection.instance_variable_set(:@oribi_resumed, true)
          KeptValues.load(connection, state[:values])
          connection.instance_variable_set(:@connection_identifier, state[:identifier]) if state[:identifier]
          connection.instance_variable_set(:@started_at, state[:since])
          connection.logger.add_tags(*state[:tags])
          subscriptions = connection.subscriptions.instance_variable_get(:@subscriptions)
          state[:subscriptions].each do |subscribed|
            channel = load_channel(connection, subscribed)
            subscriptions[subscribed.identifier] = channel if channel
          end
          connection.send(:message_buffer).process! if state[:opened]
        end

        # Whether Action Cable has welcomed the client. Before that, it keeps messages waiting.
        def opened?(connection)
          connection.send(:message_buffer).processing?
        end

        private

        def names_of(connection)
          connection.identifiers.to_a | connection.class.state_names
        end

        def dump_channel(identifier, channel)
          names = channel.class.state_names
          warn_of_lost_values(channel, channel.connection.logger, names)
          Subscribed.new(identifier, KeptValues.dump(channel, names), channel.send(:streams).keys)
        end

        # Logs, once for each class, which values that are set at the beginning do not reach the next event.
        def warn_of_lost_values(object, logger, names)
          return if object.instance_variable_defined?(:@oribi_resumed) || warned.include?(object.class.name)

          lost = object.instance_variables - OWN - names.map { |name| :"@#{name}" }
          lost.reject! { |name| object.instance_variable_get(name).nil? }
          return if lost.empty?

          warned << object.class.name
          logger.warn("#{object.class}: #{lost.join(', ')} will be nil in the next event: name it in state_attr_accessor")
        end

        def warned
          @warned ||= []
        end

        def load_channel(connection, subscribed)
          identifier = subscribed.identifier
          parameters = ActiveSupport::JSON.decode(identifier).with_indifferent_access
          channel = parameters[:channel].safe_constantize&.new(connection, identifier, parameters)
          return end_subscription(connection, subscribed) unless channel

          KeptValues.load(channel, subscribed.kept)
          channel.instance_variable_set(:@oribi_resumed, true)
          channel.instance_variable_set(:@subscription_confirmation_sent, true)
          streams = channel.send(:streams)
          subscribed.streams.each { |name| streams[name] = Stream.new(identifier) }
          channel
        end

        # Ends a subscription whose class has gone: a reload has brought other code.
        def end_subscription(connection, subscribed)
          subscribed.streams.each { |name| connection.server.pubsub.unsubscribe(name, Stream.new(subscribed.identifier)) }
          connection.transmit(identifier: subscribed.identifier, type: ::ActionCable::INTERNAL[:message_types][:rejection])
          nil
        end
      end
    end
  end
end
