# frozen_string_literal: true

require "fileutils"
require "socket"
require "tmpdir"

# Ports for servers of tests.
module FreePort
  # A port of 127.0.0.1 without a listener, outside of the range from which the kernel chooses: there a server of another test
  # could get it before that of the caller does. Each process begins at another place, and locks its ports until it ends.
  def self.next
    if @owner != Process.pid || @last > 31_000
      @owner = Process.pid
      @last = 12_000 + (@owner * 37 % 18_000)
    end
    loop do
      @last += 1
      return @last if lock(@last) && free?(@last)
    end
  end

  # Whether no other process has the port. Tests in Perl lock the same files.
  def self.lock(port)
    folder = File.join(Dir.tmpdir, "oribi-test-ports-#{Process.euid}")
    FileUtils.mkdir_p(folder)
    file = File.open(File.join(folder, port.to_s), "a")
    (@locks ||= []) << file
    file.flock(File::LOCK_EX | File::LOCK_NB)
  end

  def self.free?(port)
    TCPServer.new("127.0.0.1", port).close
    true
  rescue Errno::EADDRINUSE
    false
  end
end
