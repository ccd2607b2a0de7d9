# frozen_string_literal: true

require "oribi"

module Oribi
  # The common part of this server's Rack handlers: `run` and `valid_options`, as rackup calls them.
  module Handler
    # Serves until the server is ordered to stop. If that fails, exits with an error, which rackup itself would not do.
    def run(app, **options)
      configuration = Options.new(options, persona: persona).configuration
      keep_pid_file(options[:pid], configuration)
      yield self if block_given?
      status = serve(app, configuration)
      exit status unless status.zero?
    rescue Error => e
      abort "oribi: #{e.message}"
    end

    # Makes the server finish its requests and end. May be called in any process of the server, and when the server has already
    # ended. For apps that start the server themselves, as Sinatra's do: they call `stop` on the handler, for instance in an
    # at_exit handler. Workers inherit at_exit handlers, but the end of a worker must not end the server.
    def stop
      Process.kill(:TERM, @server) if @server
    end

    # For `rackup -s oribi -h`: each option, with its description.
    def valid_options
      Manual.new(persona).options
    end

    # Decides which rules apply.
    def persona
      Persona::ORIBI
    end

    # The same server under the name of Rhebok.
    module Rhebok
      include Handler

      def persona
        Persona::RHEBOK
      end
    end

    private

    # rackup removes its pid file in an at_exit handler, which workers inherit and run when they end. Emptying the path in a
    # worker keeps that handler from finding the file.
    def keep_pid_file(path, configuration)
      return if path.nil? || path.frozen?

      configuration.hook(:after_fork, ->(_worker = nil) { path.replace("") })
    end

    def serve(app, configuration)
      @server = Process.pid
      # The last handler that was set runs first.
      configuration.hook(:after_fork, ->(_worker = nil) { at_exit { @server = nil } })
      configuration.serve(app)
    ensure
      @server = nil
    end
  end
end

require "oribi/manual"
