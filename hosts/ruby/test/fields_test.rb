# frozen_string_literal: true

require_relative "support/matrix"

# The head of a response: the app's part and the server's part.
module Fields
  include Matrix::Tests

  def get(target)
    response = server.get(target)
    assert_equal 200, response.status, response.body
    response
  end

  def test_lines_become_several_fields
    assert_equal %w[one two three], get("/bare/fields/lines").all("X-Lines")
    assert_equal %w[one two], get("/bare/fields/blank-lines").all("X-Lines")
    response = get("/bare/fields/only-newlines")
    assert_empty response.all("X-Lines")
    assert_equal ["there"], response.all("X-After")
  end

  def test_arrays_become_several_fields
    assert_equal %w[one two three], get("/bare/fields/array").all("X-Lines")
    assert_equal %w[a=1 b=2], get("/fields/cookies").all("Set-Cookie")
  end

  def test_values_that_are_no_strings
    response = get("/bare/fields/symbols")
    assert_equal %w[5 value], [response["X-Number"], response["X-Symbol"]]
  end

  # Middleware for another version of Rack adds the length in its own spelling, and some unsets it by nil.
  def test_the_same_length_twice_and_no_length
    %w[lengths length-numbers no-length].each do |name|
      response = get("/bare/fields/#{name}")
      assert_equal ["ok", ["2"]], [response.body, response.all("Content-Length")], name
    end
    assert_equal 500, server.get("/bare/fields/other-length").status
  end

  def test_values_are_bytes
    assert_equal "caf\u00e9".b, get("/fields/bytes")["X-Bytes"]
  end

  def test_empty_values
    assert_equal [""], get("/fields/empty").all("X-Empty")
  end

  def test_the_apps_date_and_server_take_the_place_of_the_servers
    response = get("/fields/date")
    assert_equal [["Mon, 01 Jan 2001 00:00:00 GMT"], ["an app"]], [response.all("Date"), response.all("Server")]
    response = get("/")
    assert_equal [1, ["Oribi"]], [response.all("Date").size, response.all("Server")]
  end

  def test_names_that_only_begin_like_others
    response = get("/fields/like-date")
    assert_equal(%w[1 2 3 4 5], %w[D Dat Ser Conn Dates].map { |name| response[name] })
    assert_equal [1, 1], [response.all("Date").size, response.all("Server").size]
  end

  def test_connection_is_the_servers
    connection = server.connection
    response = connection.get("/fields/connection")
    refute_match(/x-secret/, response.head)
    assert_equal "probe\n", connection.get("/").body
    connection.get("/fields/connection-close")
    assert connection.ended?
  end

  def test_messages_to_the_server_are_not_sent
    response = get("/fields/rack")
    refute_match(/rack\.|hidden/, response.head)
    assert_equal "yes", response["X-Shown"]
  end

  def test_many_and_long_fields
    response = get("/fields/many")
    (1..200).each { |number| assert_equal "value #{number}", response["X-Field-#{number}"] }
    assert_equal "v" * 20_000, get("/fields/long")["X-Long"]
  end

  def test_what_is_frozen_can_be_sent
    assert_equal "content", get("/bare/fields/frozen").body
  end

  def test_headers_need_only_each
    response = get("/bare/fields/pairs")
    assert_equal %w[1 2], [response["X-One"], response["X-Two"]]
  end

  def test_capitals_and_small_letters_mean_the_same
    %w[/bare/fields/capitals /fields/length].each do |target|
      response = get(target)
      assert_equal [["5"], [], "hello"], [response.all("Content-Length"), response.all("Transfer-Encoding"), response.body]
    end
  end

  def test_a_body_that_the_app_has_chunked
    response = get("/bare/fields/coding")
    assert_equal ["hello", 1], [response.body, response.all("Transfer-Encoding").size + response.all("Content-Length").size]
  end

  def test_every_status
    connection = server.connection
    [200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 418, 422, 429, 451, 500, 503,
     599].each do |code|
      assert_equal code, connection.get("/status?code=#{code}").status
    end
    assert_equal ["OK", "Not Found"], [connection.get("/").reason, connection.get("/status?code=404").reason]
    assert_equal "HTTP/1.1", connection.get("/").version
  end

  def test_a_status_that_ends_no_response_is_refused
    assert_equal 500, server.get("/status?code=100").status
    assert_equal 500, server.get("/status?code=103").status
    assert_equal "probe\n", server.get("/").body
  end

  # ---- Connections ---------------------------------------------------------------------------------------------------

  def test_keep_alive
    connection = server.connection
    5.times { assert_equal "probe\n", connection.get("/").body }
    connection.get("/", "Connection" => "close")
    assert connection.ended?
  end

  def test_keep_alive_of_the_old_protocol
    connection = server.connection
    2.times do
      connection.write("GET /bare/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
      response = connection.response
      assert_equal %W[probe\n keep-alive], [response.body, response["Connection"].downcase]
    end
  end

  def test_pipelined_requests_are_answered_in_their_order
    connection = server.connection
    targets = Array.new(50) { |number| number.even? ? "/environment?#{number}" : "/bodies/each?#{number}" }
    connection.write(targets.map { |target| Connection.text("GET", target) }.join)
    targets.each_with_index do |_, number|
      response = connection.response
      if number.odd?
        assert_equal "onetwothree", response.body
      else
        env = Marshal.load(response.body)[:env] # rubocop:disable Security/MarshalLoad -- the probe has made it
        assert_equal number.to_s, env["QUERY_STRING"][2]
      end
    end
  end

  def test_a_request_in_single_bytes
    connection = server.connection
    Connection.text("POST", "/input/read", {}, "hello").each_char { |byte| connection.write(byte) }
    assert_equal "hello", connection.response.body
  end

  def test_a_client_that_sends_no_more
    connection = server.connection
    connection.send_request("GET", "/bodies/each")
    connection.finish_sending
    assert_equal "onetwothree", connection.response.body
    assert connection.ended?
  end

  # Input that is not a valid request is answered with 400 and the connection is closed; the app never sees it.
  def test_broken_requests
    ["GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
     "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "nonsense\r\n\r\n",
     "GET / HTTP/1.1\r\nHost: a\r\nX y: z\r\n\r\n"].each do |text|
      connection = server.connection
      connection.write(text)
      assert_match(%r{\AHTTP/1.1 400 }, connection.rest, text)
    end
    refute_match(/nonsense/, server.log)
  end
end

Matrix.of(Fields)
