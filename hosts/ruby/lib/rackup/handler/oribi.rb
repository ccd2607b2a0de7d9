# frozen_string_literal: true

require "oribi/handler"
require "rackup/handler"

module Rackup
  module Handler
    # The server for the rackup gem, which runs Rack 3.
    module Oribi
      extend ::Oribi::Handler
    end

    register "oribi", Oribi
    register "Oribi", Oribi
  end
end
