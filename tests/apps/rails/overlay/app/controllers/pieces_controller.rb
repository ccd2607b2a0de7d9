# frozen_string_literal: true

# A body that is asked for one piece after another.
class PiecesController < ApplicationController
  def index
    headers["content-type"] = "text/plain"
    headers["last-modified"] = Time.now.httpdate # else Rack::ETag collects the whole response
    count = params[:lines].to_i
    self.response_body = Enumerator.new { |body| count.times { |number| body << "line #{number}\n" } }
  end
end
