# frozen_string_literal: true

require "net/http"

# A Rack app that passes every request on to a server, so that tests written for an app without a server can be made with one.
class LiveServer
  def initialize(url)
    @url = URI(url)
  end

  def call(env)
    options = { use_ssl: @url.scheme == "https", max_retries: 0 }
    response = Net::HTTP.start(@url.host, @url.port, options) { |http| http.request(request_for(env)) }
    headers = response.to_hash.transform_values { |values| field(values) }
    headers.delete("transfer-encoding")
    [response.code.to_i, headers,
     [String.new(response.body.to_s, encoding: response.type_params["charset"] || Encoding::BINARY)]]
  end

  private

  def request_for(env)
    request = Net::HTTP.const_get(env["REQUEST_METHOD"].capitalize).new(Rack::Request.new(env).fullpath)
    env.each { |name, value| request[name.delete_prefix("HTTP_").tr("_", "-")] = value if name.start_with?("HTTP_") }
    request["Accept-Encoding"] = "identity"
    request["Content-Type"] = env["CONTENT_TYPE"] if env["CONTENT_TYPE"]
    request.body = env["rack.input"].read if env["rack.input"] && request.request_body_permitted?
    request
  end

  # One field that was sent several times: Rack 3 wants an Array, Rack 2 lines.
  def field(values)
    return values.first if values.one?

    Rack.release < "3" ? values.join("\n") : values
  end
end
