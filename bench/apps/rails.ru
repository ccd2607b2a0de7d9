# frozen_string_literal: true

# Cell rails: one action behind the router and the middleware that Rails has in production, without a database. The log has only
# warnings and errors: a line for each request would be a choice of the operator, and not a cost of serving.
ENV["RAILS_ENV"] = "production"
require "rails"
require "action_controller/railtie"

# The app.
class HelloApplication < Rails::Application
  config.root = __dir__
  config.cache_classes = true
  config.eager_load = true
  config.consider_all_requests_local = false
  config.secret_key_base = "of no use to anybody, since nothing is signed with it"
  config.cache_store = :null_store
  config.logger = Logger.new($stderr)
  config.log_level = :warn
  routes.append { get "/", to: "hello#show" }
end

# The action.
class HelloController < ActionController::Base
  def show
    headers["Content-Length"] = "11" # Unicorn would add none, and the end would look like a broken connection
    render plain: "Hello World"
  end
end

HelloApplication.initialize!
run HelloApplication
