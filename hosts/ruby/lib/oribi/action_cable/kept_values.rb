# frozen_string_literal: true

module Oribi
  module ActionCable
    # Instance variables that go from event to event. Extends the classes of connections and channels.
    module KeptValues
      # Makes accessors of instance variables that the next event still has. A record goes by its GlobalID and is found again
      # when it is read; other values must be such that Marshal can dump them.
      def state_attr_accessor(*names)
        attr_accessor(*names)

        @own_state_names = own_state_names | names
        read_lazily(names)
      end

      def identified_by(*names)
        super
        read_lazily(names.flatten)
      end

      # The names given to state_attr_accessor, also those of superclasses.
      def state_names
        inherited = superclass.respond_to?(:state_names) ? superclass.state_names : []
        inherited | own_state_names
      end

      private

      def own_state_names
        @own_state_names ||= []
      end

      def read_lazily(names)
        prepend(Module.new do
          names.each do |name|
            define_method(name) do
              KeptValues.unpack(self, name)
              super()
            end
            define_method("#{name}=") do |value|
              KeptValues.packed_in(self).delete(name)
              super(value)
            end
          end
        end)
      end

      class << self
        # The records of an object that have not been found again yet.
        def packed_in(object)
          object.instance_variable_get(:@oribi_packed) || object.instance_variable_set(:@oribi_packed, {})
        end

        def unpack(object, name)
          gid = packed_in(object)[name] or return
          # A record that has gone raises an error here, also the next time: to be without it is something else.
          object.instance_variable_set("@#{name}", GlobalID::Locator.locate(gid))
          packed_in(object).delete(name)
        end

        # The values of an object, as pairs of bytes and whether they are a GlobalID.
        def dump(object, names)
          names.to_h do |name|
            value = object.instance_variable_get("@#{name}")
            gid = packed_in(object)[name] || (value.to_gid.to_s if value.respond_to?(:to_gid))
            [name, gid ? [gid, true] : [Marshal.dump(value), false]]
          rescue StandardError => e
            raise Error, "#{name} of #{object.class} cannot be kept: #{e.message}"
          end
        end

        def load(object, values)
          values.each do |name, (bytes, is_gid)|
            if is_gid
              packed_in(object)[name] = bytes
            else
              value = Marshal.load(bytes) # rubocop:disable Security/MarshalLoad -- a worker has dumped it
              object.instance_variable_set("@#{name}", value)
            end
          end
        end
      end
    end

    # Keeps clients from calling the accessors of state_attr_accessor: each public method of a channel is an action otherwise.
    # Extends the class of channels.
    module Actions
      def action_methods
        super - state_names.flat_map { |name| [name.to_s, "#{name}="] }
      end
    end
  end
end
