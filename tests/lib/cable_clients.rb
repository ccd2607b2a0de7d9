# frozen_string_literal: true

require "json"
require "timeout"
require_relative "server_process"

# Clients of Action Cable: WebSockets of Python's websockets, which tests/live/client.py holds, and the protocol
# actioncable-v1-json on them.
class CableClients
  CLIENT = "#{ServerProcess::ROOT}/tests/live/client.py".freeze

  def initialize(url)
    @url = url.sub("http", "ws")
    @client = IO.popen(["/usr/bin/python3", CLIENT], "r+")
    @client.sync = true
    @lines = Hash.new { |lines, name| lines[name] = Queue.new }
    @lock = Mutex.new
    @reader = Thread.new do
      while (line = @client.gets)
        name, rest = line.chomp.split(" ", 2)
        queue(name) << rest
      end
    end
  end

  # Opens a WebSocket from a page of the site, and returns the answer: `open SUBPROTOCOL` or `refused STATUS`.
  def connect(name, path = "/cable")
    @client.puts("page #{name} #{@url}#{path} actioncable-v1-json")
    line(name)
  end

  # Opens one and waits for the welcome.
  def welcomed(name, path = "/cable")
    answer = connect(name, path)
    raise "#{name}: #{answer}" unless answer == "open actioncable-v1-json"

    hear(name)
  end

  # Sends a command of the protocol.
  def command(name, command, identifier, data = nil)
    message = { command:, identifier: identifier.to_json }
    message[:data] = data.to_json if data
    @client.puts("text #{name} #{message.to_json}")
  end

  # Subscribes and returns the type of the answer.
  def subscribe(name, **identifier)
    command(name, "subscribe", identifier)
    answer = hear(name)
    raise "the answer is for another one: #{answer}" unless answer["identifier"] == identifier.to_json

    answer["type"]
  end

  def perform(name, identifier, action, **data)
    command(name, "message", identifier, { action:, **data })
  end

  def close(name)
    @client.puts("close #{name} 1000")
  end

  # The next message that is no ping; `closed CODE REASON` at the end.
  def hear(name)
    loop do
      message = next_message(name)
      return message unless message.is_a?(Hash) && message["type"] == "ping"
    end
  end

  # The next message, also a ping.
  def next_message(name)
    text = line(name)
    text.start_with?("text ") ? JSON.parse(text.delete_prefix("text ")) : text
  end

  def stop
    Process.kill(:KILL, @client.pid)
    @reader.join
    @client.close
  end

  private

  def queue(name)
    @lock.synchronize { @lines[name] }
  end

  def line(name)
    Timeout.timeout(ServerProcess::PATIENCE) { queue(name).pop }
  end
end
