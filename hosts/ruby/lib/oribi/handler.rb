# frozen_string_literal: true

require "oribi"

module Oribi
  # The common part of this server's Rack handlers: `run` and `valid_options`, as rackup calls them.
  module Handler
    # Serves until it gets the order to stop. If that fails, exits with an error, which rackup itself would not do.
    def run(app, **options)
      configuration = Options.new(options, persona: persona).configuration
      keep_pid_file(options[:pid], configuration)
      yield self if block_given?
      status = serve(app, configuration)
      exit status unless status.zero?
    rescue Error => e
      abort "oribi: #{e.message}"
    end

    # Makes the server finish its requests and end; may be called in any of its processes. For apps that serve themselves, as
    # Sinatra's do: they get the handler and stop it, also when it has ended long before, and in at_exit handlers. Workers
    # inherit these, and their end is not that of the server.
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

    # rackup removes its pid file in an at_exit handler, which workers inherit and run when they end. So the handler must not
    # find the file there.
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
