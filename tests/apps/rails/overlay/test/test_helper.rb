# frozen_string_literal: true

ENV["RAILS_ENV"] ||= "test"
require_relative "../config/environment"
require "rails/test_help"
require_relative "live_server"

# With LIVE_URL, the app's own tests send their requests to the server at this URL. With LIVE_SCHEME=https, that server tells
# the app that clients use https, even if the proxy between the tests and the server does not encrypt.
ActionDispatch::IntegrationTest.app = LiveServer.new(ENV["LIVE_URL"]) if ENV["LIVE_URL"]
ActionDispatch::IntegrationTest.setup { https! } if ENV["LIVE_SCHEME"] == "https"
