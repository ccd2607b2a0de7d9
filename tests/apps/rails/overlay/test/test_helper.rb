# frozen_string_literal: true

ENV["RAILS_ENV"] ||= "test"
require_relative "../config/environment"
require "rails/test_help"
require_relative "live_server"

# With LIVE_URL the app's own tests make their requests of the server that runs there. With LIVE_SCHEME=https that server
# passes this scheme to the app, even if the proxy in front of the tests does not encrypt.
ActionDispatch::IntegrationTest.app = LiveServer.new(ENV["LIVE_URL"]) if ENV["LIVE_URL"]
ActionDispatch::IntegrationTest.setup { https! } if ENV["LIVE_SCHEME"] == "https"
