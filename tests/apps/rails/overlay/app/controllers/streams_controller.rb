# frozen_string_literal: true

# A response that a thread of its own writes.
class StreamsController < ApplicationController
  include ActionController::Live

  # Sends a line, and the rest only when the client has shown that it has read it.
  def live
    response.headers["content-type"] = "text/plain"
    response.headers["last-modified"] = Time.now.httpdate # else Rack::ETag collects the whole response
    response.stream.write("line 0\n")
    sleep 0.01 while params[:until] && !File.exist?(params[:until])
    params[:lines].to_i.times { |number| response.stream.write("line #{number + 1}\n") }
  ensure
    response.stream.close
  end
end
