# frozen_string_literal: true

# Cell sinatra: one route of the small framework, with the middleware that it brings itself.
require "sinatra/base"

# The app.
class Hello < Sinatra::Base
  set :environment, :production

  get "/" do
    content_type "text/plain"
    "Hello World"
  end
end

run Hello
