# frozen_string_literal: true

require "active_support/lazy_load_hooks"
require "oribi/live"

module Oribi
  # Action Cable on connections that an edge keeps open: no thread and no worker has anything to do with a silent one. A line
  # `require "oribi/action_cable"` in config/application.rb is all. Where there is no edge, all is as without it. docs/live.md
  # describes it.
  module ActionCable
    autoload :Actions, "oribi/action_cable/kept_values"
    autoload :EdgeServer, "oribi/action_cable/edge_server"
    autoload :InlineWorker, "oribi/action_cable/inline_worker"
    autoload :Link, "oribi/action_cable/link"
    autoload :Relay, "oribi/action_cable/relay"
    autoload :Resumption, "oribi/action_cable/resumption"
    autoload :ResumedChannels, "oribi/action_cable/resumed_channels"
    autoload :Socket, "oribi/action_cable/socket"
    autoload :Stream, "oribi/action_cable/stream"
    autoload :Streams, "oribi/action_cable/streams"
    autoload :KeptValues, "oribi/action_cable/kept_values"
    autoload :ServerHook, "oribi/action_cable/server_hook"
    autoload :WebSocketHook, "oribi/action_cable/socket"

    ActiveSupport.on_load(:action_cable) { ::ActionCable::Server::Base.prepend(ServerHook) }
    ActiveSupport.on_load(:action_cable_connection) do
      extend KeptValues
      ::ActionCable::Connection::WebSocket.prepend(WebSocketHook)
    end
    ActiveSupport.on_load(:action_cable_channel) do
      extend KeptValues
      singleton_class.prepend(Actions)
      prepend Streams
    end
  end
end
