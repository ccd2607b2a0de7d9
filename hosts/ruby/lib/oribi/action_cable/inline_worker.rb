# frozen_string_literal: true

module Oribi
  module ActionCable
    # Does the work of Action Cable's pool of threads in the thread of the event, with the same callbacks around it.
    class InlineWorker < ::ActionCable::Server::Worker
      def self.instance
        @instance ||= new
      end

      # There is no pool of threads.
      def initialize
        @executor = nil
      end

      def halt; end

      def stopping?
        false
      end

      def async_invoke(receiver, method, *args, connection: receiver, &block)
        before = self.connection
        invoke(receiver, method, *args, connection:, &block)
      ensure
        self.connection = before
      end
    end
  end
end
