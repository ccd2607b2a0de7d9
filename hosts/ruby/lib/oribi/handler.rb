# frozen_string_literal: true

require "oribi"

module Oribi
  # What Rack's handlers by the names of this server have in common: `run` and `valid_options`, as rackup wants them.
  module Handler
    # Serves until told to stop. Ends the process when that has failed: rackup itself would end well.
    def run(app, **options)
      configuration = Options.new(options, persona: persona).configuration
      keep_pid_file(options[:pid], configuration)
      yield self if block_given?
      status = serve(app, configuration)
      exit status unless status.zero?
    rescue Error => e
      abort "oribi: #{e.message}"
    end

    # Has the server finish what it has begun and end, from whichever of its processes it is called. For apps that serve
    # themselves, as Sinatra's do: they are given the handler and stop it, also when it has ended long ago.
    def stop
      Process.kill(:TERM, @server) if @server
    end

    # For `rackup -s oribi -h`: each option, with what it does.
    def valid_options
      Manual.new(persona).options
    end

    # By whose rules it is called.
    def persona
      Persona::ORIBI
    end

    # The same server for those who call it Rhebok.
    module Rhebok
      include Handler

      def persona
        Persona::RHEBOK
      end
    end

    private

    # rackup removes its pid file in an at_exit handler, which workers inherit and run when they end. There it must not find it.
    def keep_pid_file(path, configuration)
      return if path.nil? || path.frozen?

      configuration.hook(:after_fork, ->(_worker = nil) { path.replace("") })
    end

    def serve(app, configuration)
      @server = Process.pid
      configuration.serve(app)
    ensure
      @server = nil
    end
  end
end

require "oribi/manual"
