# frozen_string_literal: true

require "oribi/handler"
require "rack/handler"

module Rack
  module Handler
    # The server for rackup of Rack 2, and for programs that use Rack::Handler.
    module Oribi
      extend ::Oribi::Handler
    end

    register "oribi", Oribi
    register "Oribi", Oribi
  end
end
