# frozen_string_literal: true

require "socket"

# Ports for servers of tests.
module FreePort
  # A port of 127.0.0.1 without a listener, outside of the range from which the kernel chooses: there a server of another test
  # could get it before that of the caller does. Each process begins at another place.
  def self.next
    if @owner != Process.pid || @last > 31_000
      @owner = Process.pid
      @last = 12_000 + (@owner * 37 % 18_000)
    end
    loop do
      @last += 1
      TCPServer.new("127.0.0.1", @last).close
      return @last
    rescue Errno::EADDRINUSE
      next
    end
  end
end
