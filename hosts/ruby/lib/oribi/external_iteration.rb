# frozen_string_literal: true

module Oribi
  # Enumerator#next, before Ruby 3.2: the fiber that Ruby makes for it would block its thread when it waits. Here it gets one
  # that waits by the scheduler. An Enumerator that Ruby has begun stays with Ruby until it is rewound.
  module ExternalIteration
    # The values that an Enumerator has still to give.
    class Cursor
      NEXT = Enumerator.instance_method(:next)

      def initialize(enumerator)
        @fiber = Fiber.new(blocking: false) do
          @result = enumerator.each do |*values|
            Fiber.yield(values)
            take_fed
          end
        end
      end

      def peek
        return @ahead if @ahead

        @ahead = advance
      end

      def take
        peek.tap { @ahead = nil }
      end

      def feed(value)
        raise TypeError, "feed value already set" if @fed

        @fed = [value]
      end

      private

      def advance
        values = @fiber.resume if @fiber.alive?
        return values if @fiber.alive?

        # Only Ruby can give an exception this result.
        result = @result
        NEXT.bind_call(Enumerator.new { result })
      end

      def take_fed
        @fed&.first.tap { @fed = nil }
      end
    end

    # Enumerators that the app has begun while it was loaded cannot be told from others.
    def self.begin
      ObjectSpace.each_object(Enumerator) do |enumerator|
        enumerator.instance_variable_set(:@oribi_by_ruby, true) unless enumerator.frozen?
      end
      Enumerator.prepend(self)
    end

    def next
      cursor = oribi_cursor or return super
      oribi_single(oribi_guarded(cursor, &:take))
    end

    def next_values
      cursor = oribi_cursor or return super
      oribi_guarded(cursor, &:take)
    end

    def peek
      cursor = oribi_cursor or return super
      oribi_single(oribi_guarded(cursor, &:peek))
    end

    def peek_values
      cursor = oribi_cursor or return super
      oribi_guarded(cursor, &:peek)
    end

    def feed(value)
      @oribi_cursor ? @oribi_cursor.feed(value) : super
    end

    def rewind
      @oribi_cursor = @oribi_by_ruby = nil unless frozen?
      super
    end

    def initialize_copy(other)
      raise TypeError, "can't copy execution context" if other.instance_variable_get(:@oribi_cursor)

      super
    end

    private

    def oribi_cursor
      return @oribi_cursor if @oribi_cursor || @oribi_by_ruby || frozen?
      return @oribi_cursor = Cursor.new(self) if Fiber.current_scheduler.is_a?(Scheduler::OfWorker)

      @oribi_by_ruby = true
      nil
    end

    def oribi_single(values)
      values.size > 1 ? values : values.first
    end

    # After an error it begins anew, as Ruby's does.
    def oribi_guarded(cursor)
      yield cursor
    rescue StopIteration
      raise
    rescue Exception # rubocop:disable Lint/RescueException -- raised again
      @oribi_cursor = nil
      raise
    end
  end
end
