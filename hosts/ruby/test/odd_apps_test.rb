# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# For every action of an app (a deed), at every place where the server calls it: the request ends, the next requests on the same
# and on another connection are answered correctly, and the worker is replaced only if the app has ended it.
class OddAppsTest < Minitest::Test
  APP = File.join(__dir__, "support/odd_apps.ru")
  CONTENT = "first\nsecond\nthird\n"
  # Deeds that end the process, at once or in good order; to kill the main thread is one.
  ENDINGS = %w[exit abort exit-now].freeze
  KILLS = %w[kill kill-from-outside].freeze
  # Deeds that do no harm to the response.
  HARMLESS = %w[fork-and-exit fork-and-return].freeze
  # Places at which the response has been sent before, or is the app's own.
  BEHIND = %w[finished after-reply close stream-closed].freeze

  def self.list
    source = File.read(APP)
    %w[PLACES DEEDS].map { |name| source[/^  #{name} = \{\n(.*?)^  \}\.freeze/m, 1].scan(/^    "([a-z-]+)" => /).flatten }
  end

  PLACES, DEEDS = list
  # A connection of HTTP/2 also belongs to other requests, so its socket cannot be taken.
  SOCKETS = %w[hijack partial-hijack].freeze

  [1, 3].each do |threads|
    (OverHTTP2.on? ? PLACES - SOCKETS : PLACES).each do |place|
      define_method(:"test_#{place.tr("-", "_")}_with_#{threads}_threads") do
        settings = { workers: 1, threads: threads, respawn_interval: "10ms" }
        TestServer.open(app: APP, settings: settings) do |server|
          endings = threads == 1 ? ENDINGS + KILLS : ENDINGS
          DEEDS.each { |deed| check(server, place, deed, endings.include?(deed)) }
          server.close_connections
          refute_match(/panicked|\[BUG\]|was killed by signal/, server.log)
        end
      end
    end
  end

  def test_the_lists_are_those_of_the_app
    TestServer.open(app: APP) { |server| assert_equal PLACES.product(DEEDS).size, server.get("/list").body.lines.size }
  end

  private

  # The processes in which the app was to end its own.
  def ended
    @ended ||= []
  end

  def check(server, place, deed, ends)
    before = pid(server)
    connection = server.connection
    connection.send_request("POST", "/#{place}/#{deed}", {}, CONTENT)
    response = response_of(connection)
    # The previous action may also have ended this process.
    return check(server, place, deed, ends) if lost?(response) && ended.include?(before)

    said = -> { "#{place}/#{deed}: #{response.inspect[0, 300]}\n#{server.log}" }
    assert_answered(response, place, deed, said)
    follow(connection, response, ends, said)
    after = pid(server)
    # Some deeds never happen, because the server never calls the app at their place: comparisons, for instance. The previous
    # deed may have ended the process that was asked first. Then another process has done this deed, and may have answered again
    # after it.
    return ended.push(before, after) if ends
    # If an app has written its response itself, its process ends after the client has read the response: that process may have
    # answered once more when this deed began.
    return check(server, place, deed, ends) if before != after && ended.include?(before)

    assert_equal(before, after, said)
  rescue Waiting::TimeOver => e
    flunk("#{place}/#{deed}: #{e.message}\n#{server.log}")
  ensure
    connection&.close
  end

  # nil if the connection has ended without one.
  def response_of(connection)
    connection.final_response
  rescue Connection::Ended
    nil
  end

  # Behind an edge the server answers in place of a process that has ended.
  def lost?(response)
    response.nil? || response.status == 502
  end

  def assert_answered(response, place, deed, said)
    # Only a socket that the app has taken, and a process that has ended, give no answer. An edge answers for the latter.
    return if response.nil? && (deed == "exit-now" || place == "hijack")
    return if lost?(response) && deed == "exit-now"
    # With HTTP/2 a response that is cut may have nothing in front of the word for that.
    return if response.nil? && OverHTTP2.on?

    refute_nil response, said
    assert_includes [200, 500], response.status, said
    # Bodies that were changed are as the app has changed them.
    return unless HARMLESS.include?(deed) || (BEHIND.include?(place) && deed != "exit-now")

    assert_equal [200, true], [response.status, response.complete?], said
  end

  # Sends the next request on the same connection. A process that ends may also end the connection; with an edge only the
  # request is lost.
  def follow(connection, response, ends, said)
    return if response.nil? || !response.complete? || response["connection"] == "close"

    answer = connection.get("/")
    lost?(answer) ? assert(ends, said) : assert_match(/\A\d+\z/, answer.body, said)
  rescue Connection::Ended
    assert ends, said
  end

  # Returns the process ID of a worker, asked on a new connection. If the app ends the worker at once, a connection that the
  # worker had accepted is lost, or a request that it had taken from an edge, because it is unknown whether the request had any
  # effect. Then asks again.
  def pid(server)
    body = Waiting.wait_until(-> { "an answer\n#{server.log}" }) do
      answer = server.get("/")
      answer.body unless lost?(answer)
    rescue Connection::Ended
      nil
    end
    assert_match(/\A\d+\z/, body, server.log)
    body
  end
end
