# frozen_string_literal: true

require_relative "nginx"
require_relative "server_process"

# A proxy in front of a server: nginx, which speaks HTTP/1 with it, or with ORIBI_TEST_HTTP2=on nghttpx, which speaks HTTP/2.
module Proxy
  def self.over_http2?
    ENV["ORIBI_TEST_HTTP2"] == "on"
  end

  def self.before(server)
    over_http2? ? Nghttpx.new(server) : Nginx.new(server)
  end

  # An nghttpx that leaves everything as it is.
  class Nghttpx < ServerProcess
    OPTIONS = %w[--conf=/dev/null --workers=1 --no-via --no-server-rewrite --no-location-rewrite --log-level=ERROR].freeze

    def initialize(server)
      port = FreePort.next
      backend = server.upstream.sub(/\A127.0.0.1:/, "127.0.0.1,")
      tls, believed = server.encrypted? ? [";tls;sni=localhost", ["--cacert=#{Certificate.file}"]] : ["", []]
      command = ["nghttpx", *OPTIONS, "--frontend=127.0.0.1,#{port};no-tls", "--backend=#{backend};;proto=h2#{tls}", *believed]
      super(*command, port:)
    end
  end
end
