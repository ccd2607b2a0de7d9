# frozen_string_literal: true

# The app as a program that serves itself, on the port that it is given.
require_relative "app"

App.get("/stop") do
  App.quit!
  "Good bye\n"
end
App.run!(server: "oribi", bind: "127.0.0.1", port: Integer(ARGV.first))
