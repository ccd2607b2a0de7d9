# frozen_string_literal: true

require "oribi/handler"
require "rack/handler"

module Rack
  module Handler
    # The server by the name of Rhebok, for rackup of Rack 2, and for programs that ask for Rack::Handler.
    module Rhebok
      extend ::Oribi::Handler::Rhebok
    end

    register "rhebok", Rhebok
    register "Rhebok", Rhebok
  end
end
