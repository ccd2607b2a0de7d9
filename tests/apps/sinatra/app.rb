# frozen_string_literal: true

require "digest"
require "sinatra/base"

# A little of everything that Sinatra apps do.
class App < Sinatra::Base
  enable :sessions
  set :session_secret, "only a test: #{'x' * 64}"
  # As Sinatra would set it for its own server; the server is chosen outside.
  set :lock, false

  get("/") { "Hello from Sinatra\n" }
  get("/hello/:name") { |name| "Hello, #{name}!\n" }
  post("/form") { "Hello, #{params[:name]}!\n" }

  get "/visit" do
    session[:visits] = session[:visits].to_i + 1
    "visit #{session[:visits]}\n"
  end

  post "/upload" do
    file = params[:file]
    "#{file[:filename]}: #{digest_of(file[:tempfile])}\n"
  end
  put("/raw") { "#{digest_of(request.body)}\n" }

  # Sends a line, and the rest only when the client has shown that it has read it.
  get "/stream/:lines" do
    content_type "text/plain"
    stream do |out|
      out << "line 0\n"
      sleep 0.01 while params[:until] && !File.exist?(params[:until])
      params[:lines].to_i.times { |number| out << "line #{number + 1}\n" }
    end
  end

  get("/file") { send_file params[:path], type: "application/octet-stream" }
  get("/address/:path") { |path| "#{url("/#{path}")}\n" }
  get("/redirect") { redirect "/hello/again" }
  get("/process") { "#{Process.pid} #{Thread.current.object_id}\n" }
  get("/failure") { raise "This page is out of order" }
  get("/halt") { halt 418, { "x-reason" => "teapot" }, "short and stout\n" }
  not_found { "Nothing here\n" }

  private

  def digest_of(file)
    content = file ? file.read : ""
    "#{content.bytesize} bytes, sha256 #{Digest::SHA256.hexdigest(content)}"
  end
end
