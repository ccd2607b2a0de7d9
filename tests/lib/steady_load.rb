# frozen_string_literal: true

require "net/http"
require_relative "server_process"

# Clients that request the same page all the time, some on kept connections, and some on a new connection each time. They record
# every request that was not answered with 200.
class SteadyLoad
  # Starts the clients; half of them keep their connections.
  def initialize(server, path, clients: 8)
    @server = server
    @path = path
    @answers = []
    @losses = []
    @stopped = false
    @threads = Array.new(clients) { |number| Thread.new { ask_again_and_again(keep: number.even?) } }
  end

  # The faults, in words.
  attr_reader :losses

  # Waits until so many more answers have arrived.
  def run(count)
    goal = @answers.size + count
    ServerProcess.wait_until { @answers.size >= goal } or raise "only #{@answers.size} of #{goal} answers; #{@losses.first}"
  end

  # The latest answer's content.
  def latest
    @answers.last
  end

  # Lets each client have the answer that it waits for, and ends.
  def stop
    @stopped = true
    @threads.each(&:join)
  end

  private

  def ask_again_and_again(keep:)
    until @stopped
      begin
        # Left to itself, it asks once more when a connection ends without an answer.
        Net::HTTP.start("127.0.0.1", @server.port, max_retries: 0) do |http|
          loop do
            ask(http)
            break if @stopped || !keep
          end
        end
      rescue SystemCallError, IOError, Net::ProtocolError, Timeout::Error => e
        @losses << "#{e.class}: #{e.message}"
      end
    end
  end

  def ask(http)
    response = http.get(@path)
    response.code == "200" ? @answers << response.body : @losses << "#{response.code}: #{response.body}"
  end
end
