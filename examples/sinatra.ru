# frozen_string_literal: true

# A Sinatra app: pages, a form, uploads and a response in pieces.
#
#     oribi examples/sinatra.ru
#     curl -F file=@README.md http://127.0.0.1:5000/upload

require "digest"
require "sinatra/base"

module Example
  class Sinatra < ::Sinatra::Base
    before { content_type "text/plain", charset: "utf-8" }

    helpers do
      def digest(content)
        "#{content.bytesize} bytes, sha256 #{Digest::SHA256.hexdigest(content)}\n"
      end
    end

    get("/") { "Hello from Sinatra\n" }

    get("/hello/:name") { "Hello, #{params[:name]}!\n" }

    post("/form") { "Hello, #{params[:name]}!\n" }

    post "/upload" do
      upload = params[:file]
      "#{upload[:filename]}: #{digest(upload[:tempfile].read)}"
    end

    put("/raw") { digest(request.body.read) }

    get "/stream/:lines" do
      stream { |out| 1.upto(params[:lines].to_i) { |line| out << "line #{line}\n" } }
    end
  end
end

run Example::Sinatra
