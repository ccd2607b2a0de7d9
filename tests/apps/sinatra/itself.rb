# frozen_string_literal: true

# The app as a program that serves itself, on the port and with the options of the server that it is given (MaxRequests=1).
require_relative "app"

App.get("/stop") do
  App.quit!
  "Good bye\n"
end
port, *options = ARGV
App.run!(server: "oribi", bind: "127.0.0.1", port: Integer(port), server_settings: options.to_h { |option| option.split("=") })
