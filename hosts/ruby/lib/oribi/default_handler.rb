# frozen_string_literal: true

module Oribi
  # Lets `rails server` and `rackup` choose Oribi by themselves, if the app has neither Puma nor another server that they know:
  # Oribi is asked for just before WEBrick, which is not made for production.
  module DefaultHandler
    # Extends the lists of handlers that are loaded: that of the rackup gem, and that of Rack 2.
    def self.offer
      ::Rackup::Handler.singleton_class.prepend(self) if defined?(::Rackup::Handler)
      ::Rack::Handler.singleton_class.prepend(self) if defined?(::Rack::Handler)
    end

    # The list of `default` begins with Puma. Other lists are choices of a program, which stay as they are.
    def pick(server_names)
      names = Array(server_names).map(&:to_s)
      names.insert(names.index("webrick") || -1, "oribi") if names.first == "puma" && !names.include?("oribi")
      super(names)
    end
  end
end
