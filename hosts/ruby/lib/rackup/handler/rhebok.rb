# frozen_string_literal: true

require "oribi/handler"
require "rackup/handler"

module Rackup
  module Handler
    # The server under the name of Rhebok, for the rackup gem, which runs Rack 3.
    module Rhebok
      extend ::Oribi::Handler::Rhebok
    end

    register "rhebok", Rhebok
    register "Rhebok", Rhebok
  end
end
