# frozen_string_literal: true

require "base64"
require "digest"
require "json"
require "securerandom"
require "timeout"

# A small WebSocket client (RFC 6455): text messages over a socket that is already connected.
class WebSocketClient
  # After the client's key in the digest that proves a handshake, RFC 6455 section 1.3.
  HANDSHAKE = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
  TEXT = 1
  CLOSE = 8
  PING = 9
  PONG = 10

  # The status line and the fields of the answer to the handshake, names in lower case.
  attr_reader :status, :fields

  # Shakes hands; `status` shows whether the server has agreed.
  def initialize(socket, host, path, protocol: nil, scheme: "http")
    @socket = socket
    @key = SecureRandom.base64(16)
    @socket.write("GET #{path} HTTP/1.1\r\nHost: #{host}\r\nOrigin: #{scheme}://#{host}\r\n" \
                  "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" \
                  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: #{@key}\r\n" \
                  "#{"Sec-WebSocket-Protocol: #{protocol}\r\n" if protocol}\r\n")
    head = patiently { @socket.gets("\r\n\r\n") }
    @status, *lines = head.to_s.chomp("\r\n\r\n").split("\r\n")
    @fields = lines.to_h { |line| line.split(/:\s*/, 2).then { |name, value| [name.downcase, value] } }
  end

  # Whether the server has proved that it has read the handshake.
  def accepted?
    @status.to_s.start_with?("HTTP/1.1 101 ") && @fields["sec-websocket-accept"] == Digest::SHA1.base64digest(@key + HANDSHAKE)
  end

  def send_text(text)
    send_frame(TEXT, text)
  end

  # The next text message; nil when the server closes.
  def receive
    patiently do
      loop do
        type, payload = receive_frame
        case type
        when TEXT then break payload.force_encoding(Encoding::UTF_8)
        when PING then send_frame(PONG, payload)
        when CLOSE, nil then break nil
        end
      end
    end
  end

  def close
    send_frame(CLOSE, [1000].pack("n"))
  ensure
    @socket.close
  end

  private

  # A client's frames are masked, RFC 6455 section 5.3; the server's frames are not.
  def send_frame(type, payload)
    mask = SecureRandom.bytes(4).bytes
    masked = payload.b.bytes.each_with_index.map { |byte, index| byte ^ mask[index % 4] }
    size = payload.bytesize < 126 ? [0x80 | payload.bytesize].pack("C") : [0x80 | 126, payload.bytesize].pack("Cn")
    @socket.write([0x80 | type].pack("C") + size + [*mask, *masked].pack("C*"))
  end

  def receive_frame
    type, length = @socket.read(2)&.unpack("CC")
    return unless length

    length = @socket.read(2).unpack1("n") if length == 126
    length = @socket.read(8).unpack1("Q>") if length == 127
    [type & 0x0f, @socket.read(length)]
  end

  def patiently(&)
    Timeout.timeout(ServerProcess::PATIENCE, &)
  end
end
