# frozen_string_literal: true

require "socket"
require_relative "waiting"

# The effect of ORIBI_TEST_HTTP2=on: tests speak HTTP/1 with a proxy, nghttpx, which speaks HTTP/2 with the server, with or
# without TLS. Tests whose subject is HTTP/1 itself are then left out.
module OverHTTP2
  # The reasons why tests are left out with HTTP/2, by the names of the tests.
  ABOUT_HTTP1 = {
    "test_a_client_of_the_old_protocol_gets_no_chunks" => "the version is that of the connection",
    "test_a_client_that_sends_no_more" => "the proxy forgets clients that end their side",
    "test_a_request_in_single_bytes" => "the proxy decides by the first bytes which protocol is spoken",
    "test_addresses" => "the proxy has connections of its own",
    "test_an_old_protocol" => "the version is that of the connection",
    "test_broken_requests" => "the proxy refuses them",
    "test_connection_is_the_servers" => "there is no such field",
    "test_every_method" => "the proxy refuses those that it does not know",
    "test_the_path_is_as_it_was_sent" => "the proxy decodes letters: tests/apps/http2.t"
  }.freeze

  def self.on?
    ENV["ORIBI_TEST_HTTP2"] == "on"
  end

  # A proxy in front of a server, which leaves everything as it is.
  class Proxy
    OPTIONS = %w[--conf=/dev/null --workers=1 --no-via --no-server-rewrite --no-location-rewrite --no-add-x-forwarded-proto
                 --log-level=ERROR --max-request-header-fields=1000 --max-response-header-fields=1000].freeze

    attr_reader :port

    # backend: an address, as nghttpx writes it. certificate: a file, if the server encrypts.
    def initialize(backend, certificate)
      @port = FreePort.next
      tls = ";tls;sni=localhost" if certificate
      command = ["nghttpx", *OPTIONS, "--frontend=127.0.0.1,#{@port};no-tls", "--backend=#{backend};;proto=h2#{tls}"]
      command << "--cacert=#{certificate}" if certificate
      # The proxy ends when the tests end, however they end.
      @pid = Process.spawn("setpriv", "--pdeathsig", "KILL", *command, err: File::NULL)
      Waiting.wait_until("nghttpx") do
        TCPSocket.new("127.0.0.1", @port).close || true
      rescue Errno::ECONNREFUSED
        false
      end
    end

    def kill
      Process.kill(:KILL, @pid)
      Process.wait(@pid)
    end
  end
end
