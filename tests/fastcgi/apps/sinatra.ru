# frozen_string_literal: true

# The Sinatra app behind the web servers.

require "rack/lint"
require "sinatra/base"

module Behind
  class Sinatra < ::Sinatra::Base
    PERIOD = (0..250).to_a.pack("C*")

    set :environment, :production
    set :protection, false
    disable :dump_errors
    before { content_type "text/plain" }

    helpers do
      def environment
        env.select { |_, value| value.is_a?(String) }.sort.map { |name, value| "#{name}=#{value}\n" }
      end
    end

    get("/") { "probe\n" }
    get(%r{/environment(/.*)?}) { environment }
    get(%r{//.*}) { environment }

    post("/echo") { request.body.read }
    post("/form") { "Hello, #{params[:name]}!\n" }
    get("/download/:bytes") { (PERIOD * (1 + (params[:bytes].to_i / 251)))[0, params[:bytes].to_i] }

    # Sends a piece, and the second one when the pipe that the query names gets a byte.
    get "/pieces" do
      stream do |out|
        out << "first\n"
        out << "second, #{File.read(params[:gate])}"
      end
    end

    get "/etag" do
      etag "tag"
      "tagged\n"
    end
    # The filter's data: a line, and the rest in capital letters.
    post "/filter" do
      data = env["oribi.data"] or return "nothing to filter\n"
      first = data.gets&.chomp || "nothing"
      rest = data.read
      "#{first}|#{rest.size <= 65_536 ? rest.upcase : rest.size}|#{request.body.read}"
    end

    get "/authorizer" do
      headers "Variable-ROLE" => env["FCGI_ROLE"]
      halt params.fetch(:status, 200).to_i, "never seen"
    end
    get("/failure") { raise "as asked" }
    get("/redirect") { redirect to("/environment") }
    get "/cookies" do
      response.set_cookie("one", "1")
      response.set_cookie("two", "2")
      "cookies\n"
    end
  end
end

# The environment of requests must follow Rack.
use Rack::Lint
run Behind::Sinatra
