# frozen_string_literal: true

require "oribi/handler"
require "rack/handler"

module Rack
  module Handler
    # The server under the name of Rhebok, for rackup of Rack 2, and for programs that use Rack::Handler.
    module Rhebok
      extend ::Oribi::Handler::Rhebok
    end

    register "rhebok", Rhebok
    register "Rhebok", Rhebok
  end
end
