# frozen_string_literal: true

require "socket"
require_relative "waiting"

# A client that shows bytes as they are: it sends the bytes that a test gives it and reads one response after the other.
class Connection
  Response = Struct.new(:version, :status, :reason, :fields, :body, :complete, :head) do
    # The values of all fields with that name, in their order.
    def all(name)
      fields.select { |key, _| key.casecmp?(name) }.map(&:last)
    end

    def [](name)
      values = all(name)
      values.join(", ") unless values.empty?
    end

    def complete?
      complete
    end
  end

  # The server closed or reset the connection before a response was there.
  class Ended < StandardError; end

  # The server closed or reset the connection over TLS without close_notify, as a server does that is killed or cuts a response.
  class Cut < Ended; end

  attr_reader :socket

  def initialize(socket)
    @socket = socket
    @buffer = String.new(encoding: Encoding::BINARY)
  end

  # Sends these bytes; false if the server takes no more.
  def write(bytes)
    bytes = bytes.b
    until bytes.empty?
      raise Waiting::TimeOver, "the server takes no more bytes" unless @socket.to_io.wait_writable(Waiting::PATIENCE)

      count = @socket.write_nonblock(bytes, exception: false)
      bytes = bytes.byteslice(count..) unless count == :wait_writable
    end
    true
  rescue Errno::EPIPE, Errno::ECONNRESET
    false
  end

  def request(method, target, fields = {}, content = nil)
    send_request(method, target, fields, content)
    response(method)
  end

  def get(target, fields = {})
    request("GET", target, fields)
  end

  def post(target, content, fields = {})
    request("POST", target, fields, content)
  end

  def send_request(method, target, fields = {}, content = nil)
    write(Connection.text(method, target, fields, content))
  end

  # A request's bytes. Values that are Arrays become several fields.
  def self.text(method, target, fields = {}, content = nil)
    lines = { "Host" => "example.org", **fields }
    lines["Content-Length"] = content.bytesize if content && !lines.key?("Transfer-Encoding")
    head = lines.flat_map { |name, values| Array(values).map { |value| "#{name}: ".b << value.to_s.b << "\r\n" } }
    "#{method} #{target} HTTP/1.1\r\n".b + head.join.b + "\r\n".b + content.to_s.b
  end

  # Reads one response, which may be an informational one.
  def response(method = "GET")
    head = take_head
    line, *lines = head.split("\r\n")
    match = %r{\A(HTTP/1\.[01]) (\d{3})(?: (.*))?\z}.match(line) or raise "no status line: #{line.inspect}"
    response = Response.new(match[1], match[2].to_i, match[3], lines.map { |text| text.split(/: ?/, 2) }, +"", true, head)
    read_content(response) if content?(response, method)
    response
  end

  # The response after all informational ones.
  def final_response(method = "GET")
    loop do
      response = response(method)
      return response unless response.status.between?(100, 199) && response.status != 101
    end
  end

  # Everything until the server closes.
  def rest
    nil while fill
    take(@buffer.bytesize)
  end

  # So many bytes, or fewer at the end.
  def take_bytes(count)
    nil while @buffer.bytesize < count && fill
    take([count, @buffer.bytesize].min)
  end

  def take_line
    until (at = @buffer.index("\n"))
      return take(@buffer.bytesize) unless fill
    end
    take(at + 1)
  end

  # True when the server has closed the connection and sent nothing more.
  def ended?
    !fill && @buffer.empty?
  rescue Cut
    @buffer.empty?
  end

  # Over TLS, close_notify must come before the end of the connection; without it a client counts as broken.
  def finish_sending
    @socket.__send__(:stop) if encrypted?
    @socket.to_io.close_write
  end

  # Ends the connection at once, as a client does that is killed.
  def reset
    socket = @socket.to_io
    socket.setsockopt(Socket::Option.linger(true, 0))
    socket.close
  end

  def encrypted?
    @socket != @socket.to_io
  end

  def close
    @socket.close
  end

  private

  # One more piece into the buffer; false at the end.
  def fill
    # A socket whose data is already decrypted does not become readable.
    while (piece = @socket.read_nonblock(262_144, exception: false)) == :wait_readable
      readable = @socket.to_io.wait_readable(Waiting::PATIENCE)
      raise Waiting::TimeOver, "no answer; so far: #{@buffer.inspect[0, 500]}" unless readable
    end
    return false unless piece

    @buffer << piece
    true
  rescue Errno::ECONNRESET
    false
  rescue OpenSSL::SSL::SSLError => e
    raise Cut, e.message
  end

  def take(count)
    @buffer.slice!(0, count)
  end

  def take_head
    until (at = @buffer.index("\r\n\r\n"))
      raise Ended, "the connection ended after #{@buffer.inspect}" unless fill
    end
    take(at + 4).byteslice(0, at)
  end

  def content?(response, method)
    method != "HEAD" && response.status >= 200 && ![204, 304].include?(response.status)
  end

  def read_content(response)
    if response["Transfer-Encoding"] == "chunked"
      read_chunks(response)
    elsif (length = response["Content-Length"])
      response.body = take_bytes(Integer(length, 10))
      response.complete = response.body.bytesize == Integer(length, 10)
    else
      response.body = rest
    end
  end

  def read_chunks(response)
    loop do
      line = take_line
      return response.complete = false unless line.end_with?("\r\n")

      size = Integer(line.chomp, 16)
      data = take_bytes(size + 2)
      response.body << data.byteslice(0, size)
      return response.complete = false unless data.bytesize == size + 2
      raise "a chunk without its end" unless data.end_with?("\r\n")
      return if size.zero?
    end
  end
end
