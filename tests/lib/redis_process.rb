# frozen_string_literal: true

require_relative "server_process"

# A real Redis for a test, which keeps nothing on the disk.
class RedisProcess
  attr_reader :url

  def initialize(folder)
    port = FreePort.next
    @url = "redis://127.0.0.1:#{port}"
    # The same program has several names; the package of its tools starts no service.
    program = %w[redis-check-rdb redis-server]
    @process = ServerProcess.new(program, "--port", port.to_s, "--bind", "127.0.0.1", "--save", "", "--dir", folder, port:)
  end

  def stop
    @process.stop
  end
end
