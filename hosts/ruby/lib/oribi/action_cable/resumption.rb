# frozen_string_literal: true

module Oribi
  module ActionCable
    # The state of a connection between two events: its identifiers, its subscriptions with their streams, and all that
    # state_attr_accessor names.
    module Resumption
      # The state of a channel. `channel`: the name of its class. `standing`: whether it was confirmed and rejected, and what
      # its confirmation waits for; nil for one that was confirmed only.
      Subscribed = Struct.new(:identifier, :channel, :kept, :streams, :standing)

      # The instance variables that Action Cable has set in channels and connections, and this library.
      OWN = %i[@connection @identifier @params @defer_subscription_confirmation_counter @reject_subscription
               @subscription_confirmation_sent @_streams @active_periodic_timers @parameter_filter
               @server @env @coder @worker_pool @logger @websocket @subscriptions @message_buffer @_internal_subscriptions
               @started_at @protocol @request @connection_identifier @oribi_packed @oribi_resumed].freeze

      class << self
        def dump(connection)
          warn_of_lost_values(connection, connection.logger, names_of(connection))
          {
            values: KeptValues.dump(connection, names_of(connection)),
            identifier: connection.instance_variable_get(:@connection_identifier),
            since: connection.instance_variable_get(:@started_at),
            tags: connection.logger.tags,
            opened: opened?(connection),
            subscriptions: channels_of(connection).map { |channel| channel.is_a?(Subscribed) ? channel : dump_channel(channel) }
          }
        end

        # Gives a new connection the state of the one before.
        def load(connection, state)
          connection.instance_variable_set(:@oribi_resumed, true)
          KeptValues.load(connection, state[:values])
          connection.instance_variable_set(:@connection_identifier, state[:identifier]) if state[:identifier]
          connection.instance_variable_set(:@started_at, state[:since])
          connection.logger.add_tags(*state[:tags])
          channels = ResumedChannels.new(those_with_class(connection, state[:subscriptions])) do |subscribed|
            load_channel(connection, subscribed)
          end
          connection.subscriptions.instance_variable_set(:@subscriptions, channels)
          connection.send(:message_buffer).process! if state[:opened]
        end

        # Whether Action Cable has welcomed the client. Before that, it keeps messages waiting.
        def opened?(connection)
          connection.send(:message_buffer).processing?
        end

        # The number of streams of a connection, with Action Cable's own, and the bytes of their envelopes.
        def streams_of(connection)
          channels_of(connection).inject([1, 0]) do |(count, bytes), channel|
            streams = channel.is_a?(Subscribed) ? channel.streams : channel.send(:streams)
            next [count, bytes] if streams.empty?

            [count + streams.size, bytes + (streams.size * Stream.new(channel.identifier).size)]
          end
        end

        private

        # The channels of a connection, those that no command has addressed yet as Subscribed.
        def channels_of(connection)
          channels = connection.subscriptions.instance_variable_get(:@subscriptions)
          channels.is_a?(ResumedChannels) ? channels.as_they_are : channels.values
        end

        def names_of(connection)
          connection.identifiers.to_a | connection.class.state_names
        end

        def dump_channel(channel)
          names = channel.class.state_names
          warn_of_lost_values(channel, channel.connection.logger, names)
          Subscribed.new(channel.identifier, channel.class.name, KeptValues.dump(channel, names), channel.send(:streams).keys,
                         standing_of(channel))
        end

        def standing_of(channel)
          confirmed = channel.send(:subscription_confirmation_sent?)
          rejected = channel.send(:subscription_rejected?)
          return if confirmed && !rejected

          [confirmed, rejected, channel.instance_variable_get(:@defer_subscription_confirmation_counter).value]
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

        # The subscriptions whose classes exist. The others end: a reload has brought other code.
        def those_with_class(connection, subscriptions)
          exists = Hash.new { |known, name| known[name] = !name.safe_constantize.nil? }
          kept, ended = subscriptions.partition { |subscribed| exists[subscribed.channel] }
          ended.each { |subscribed| end_subscription(connection, subscribed) }
          kept
        end

        def load_channel(connection, subscribed)
          identifier = subscribed.identifier
          parameters = ActiveSupport::JSON.decode(identifier).with_indifferent_access
          channel = subscribed.channel.constantize.new(connection, identifier, parameters)
          KeptValues.load(channel, subscribed.kept)
          channel.instance_variable_set(:@oribi_resumed, true)
          give_standing(channel, *subscribed.standing || [true, nil, 0])
          streams = channel.send(:streams)
          subscribed.streams.each { |name| streams[name] = Stream.new(identifier) }
          channel
        end

        def give_standing(channel, confirmed, rejected, deferrals)
          channel.instance_variable_set(:@subscription_confirmation_sent, confirmed)
          channel.instance_variable_set(:@reject_subscription, rejected)
          channel.instance_variable_get(:@defer_subscription_confirmation_counter).value = deferrals
        end

        def end_subscription(connection, subscribed)
          subscribed.streams.each { |name| connection.server.pubsub.unsubscribe(name, Stream.new(subscribed.identifier)) }
          connection.transmit(identifier: subscribed.identifier, type: ::ActionCable::INTERNAL[:message_types][:rejection])
        end
      end
    end
  end
end
