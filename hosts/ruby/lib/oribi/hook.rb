# frozen_string_literal: true

module Oribi
  # Adapts the callables of programs to those that the server calls with a worker's number.
  module Hook
    # Makes a callable that calls `callable` with a worker's index, from 0 as in other servers, and with `others`, or with as
    # many of these as `callable` takes.
    def self.with_index(callable, *others)
      wanted = count(callable)
      lambda do |number = nil|
        callable.call(*[number && (number - 1), *others].first(wanted))
      end
    end

    # Makes a callable that calls `callable` with a server and a worker, as Unicorn does.
    def self.with_server(callable, server)
      wanted = count(callable)
      lambda do |number = nil|
        callable.call(*[server, UnicornWorker.new(number)].first(wanted))
      end
    end

    # Makes a callable that calls `callable` only the first time.
    def self.once(callable)
      done = false
      lambda do |*arguments|
        next if done

        done = true
        callable.call(*arguments)
      end
    end

    # Makes a callable that calls `callable` with an error, the env and the status, or with as many of these as `callable`
    # takes.
    def self.with_error(callable)
      wanted = count(callable, 3)
      ->(*arguments) { callable.call(*arguments.first(wanted)) }
    end

    # Returns the number of parameters of a callable; `many` if it has a `*rest`.
    def self.count(callable, many = 2)
      parameters = callable.respond_to?(:parameters) ? callable.parameters : callable.method(:call).parameters
      return many if parameters.any? { |kind,| kind == :rest }

      parameters.count { |kind,| %i[req opt].include?(kind) }
    end
  end
end
