# frozen_string_literal: true

require_relative "support/matrix"

# Sockets that an app takes over, other protocols, early hints, and work after the response.
module Sockets
  include Matrix::Tests

  # ---- Full hijack ---------------------------------------------------------------------------------------------------

  def test_full_hijack
    connection = server.connection
    connection.send_request("GET", "/hijack/full?id=#{id = new_id}")
    assert_equal "HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nhijacked", connection.rest
    assert_equal ["closed"], server.wait_for_events(id, 1)
  end

  def test_what_hijack_returns_is_an_io
    connection = server.connection
    connection.send_request("GET", "/hijack/class")
    kind = rack3? || self.class.server_options[:lint] == false ? "\\w+" : "[\\w:]+"
    assert_match(/\r\n\r\n#{kind} (true|false) true true true\z/, connection.rest)
    connection = server.connection
    connection.send_request("GET", "/bare/hijack/class")
    # Over TLS it is one end of a pair.
    assert_match(/\r\n\r\n#{unix? || encrypted? ? "UNIXSocket" : "TCPSocket"} true true true true\z/, connection.rest)
  end

  def test_a_hijacked_socket_lives_on_in_a_thread
    %w[/bare/hijack/echo /hijack/echo].each do |target|
      next if target == "/hijack/echo" && !rack3? # Lint's wrapper of Rack 2 has no gets.

      connection = server.connection
      connection.send_request("GET", "#{target}?id=#{id = new_id}", "Connection" => "Upgrade", "Upgrade" => "echo")
      assert_equal 101, connection.response.status
      3.times do |number|
        connection.write("line #{number}\n")
        assert_equal "LINE #{number}\n", connection.take_line
        assert_equal "probe\n", server.get("/").body
      end
      connection.finish_sending
      assert_equal ["ended"], server.wait_for_events(id, 1)
      assert connection.ended?
    end
  end

  def test_bytes_behind_a_request_that_is_hijacked_are_the_apps
    connection = server.connection
    connection.write("GET /bare/hijack/echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
    assert_equal 101, connection.response.status
    connection.write("hello\n")
    assert_equal "HELLO\n", connection.take_line
  end

  def test_an_app_that_raises_after_a_hijack
    connection = server.connection
    connection.send_request("GET", "/hijack/raises")
    assert connection.ended?, "nothing may be written to a socket that is no longer the server's"
    assert_equal "probe\n", server.get("/").body
  end

  def test_an_app_that_raises_leaves_no_hijacked_socket_open
    connection = server.connection
    connection.send_request("GET", "/bare/hijack/raises-open")
    assert_equal((unix? ? :orderly : :reset), end_of(connection))
    server.wait_for_log("raised after the hijack")
    assert_equal "probe\n", server.get("/").body
  end

  # ---- Partial hijack ------------------------------------------------------------------------------------------------

  def test_partial_hijack
    %w[/hijack/partial /bare/hijack/partial].each do |target|
      connection = server.connection
      connection.send_request("GET", "#{target}?id=#{id = new_id}")
      head, body = connection.rest.split("\r\n\r\n", 2)
      assert_match(%r{\AHTTP/1.1 200 OK\r\n}, head)
      assert_match(%r{^content-type: text/plain\r?$}i, head)
      refute_match(/rack\.hijack|transfer-encoding|content-length/i, head)
      assert_match(/^connection: close\r?$/i, head)
      assert_equal "from the hijacker", body
      assert_includes server.wait_for_events(id, 2), "closed"
      refute_includes server.events(id), "each"
    end
  end

  def test_partial_hijack_with_another_protocol
    connection = server.connection
    connection.send_request("GET", "/bare/hijack/partial-echo", "Connection" => "Upgrade", "Upgrade" => "echo")
    response = connection.response
    assert_equal [101, "echo"], [response.status, response["Upgrade"]]
    connection.write("hello")
    assert_equal "HELLO", connection.take_bytes(5)
    connection.finish_sending
    assert connection.ended?
  end

  # The ways in which a connection ends.
  def end_of(connection)
    socket = connection.socket
    loop do
      raise Waiting::TimeOver, "no end\n#{server.log}" unless socket.to_io.wait_readable(Waiting::PATIENCE)

      socket.readpartial(1000)
    end
  rescue EOFError
    :orderly
  rescue Errno::ECONNRESET
    :reset
  end

  def test_a_hijacker_that_raises_ends_its_connection
    %w[/bare/hijack/partial-raises /bare/protocol/stream-raises].each do |target|
      connection = server.connection
      connection.send_request("GET", "#{target}?id=#{id = new_id}", "Connection" => "Upgrade", "Upgrade" => "echo")
      # Only on a Unix socket does the end not show that the response is incomplete.
      assert_equal((unix? ? :orderly : :reset), end_of(connection), target)
      assert_equal ["close"], server.wait_for_events(id, 1)
      server.wait_for_log(/raised in (?:the hijacker|another protocol)/)
    end
    assert_equal "probe\n", server.get("/").body
  end

  def test_a_partial_hijack_without_content
    connection = server.connection
    connection.send_request("HEAD", "/bare/hijack/partial?id=#{id = new_id}")
    response = connection.response("HEAD")
    assert_equal [200, "text/plain"], [response.status, response["Content-Type"]]
    assert_equal "probe\n", connection.get("/").body, "nothing is behind the head"
    assert_equal ["close"], server.wait_for_events(id, 1)
  end

  # ---- Other protocols -----------------------------------------------------------------------------------------------

  def test_the_protocols_that_a_client_offers
    skip_unless_rack3 do
      upgrade = { "Connection" => "Upgrade", "Upgrade" => "echo, websocket" }
      assert_equal %w[echo websocket].inspect, server.get("/protocol", upgrade).body
      assert_equal "nil", server.get("/protocol").body
      connection = server.connection
      connection.send_request("GET", "/hijack/protocol", upgrade)
      response = connection.response
      assert_equal [101, "echo", "upgrade"], [response.status, response["Upgrade"], response["Connection"].downcase]
      assert_equal 'speaking ["echo", "websocket"]', connection.rest
    end
  end

  def test_a_stream_speaks_the_protocol_that_was_chosen
    skip_unless_rack3 do
      connection = server.connection
      connection.send_request("GET", "/protocol/stream", "Connection" => "Upgrade", "Upgrade" => "echo")
      response = connection.response
      assert_equal [101, "echo"], [response.status, response["Upgrade"]]
      assert_nil response["Transfer-Encoding"]
      assert_equal "speaking echo", connection.rest
    end
  end

  # Runs a test of a feature that Rack 2 does not have.
  def skip_unless_rack3
    return assert_equal("2", Rack.release[0]) unless rack3?

    yield
  end

  # ---- Early hints ---------------------------------------------------------------------------------------------------

  def test_early_hints
    connection = server.connection
    connection.send_request("GET", "/hints")
    first, second, final = Array.new(3) { connection.response }
    assert_equal [103, ["</style.css>; rel=preload"]], [first.status, first.all("Link")]
    assert_equal [103, %w[</a> </b>]], [second.status, second.all("Link")]
    assert_equal [200, "hinted"], [final.status, final.body]
    assert_equal "probe\n", connection.get("/").body
  end

  def test_early_hints_are_not_for_the_old_protocol
    connection = server.connection
    connection.write("GET /hints HTTP/1.0\r\n\r\n")
    assert_match(%r{\AHTTP/1.1 200 OK\r\n.*\r\n\r\nhinted\z}m, connection.rest)
  end

  def test_early_hints_that_would_split_the_response
    connection = server.connection
    connection.send_request("GET", "/bare/hints/bad")
    response = connection.response
    assert_equal [200, "taken"], [response.status, response.body]
    server.wait_for_log(%r{GET /bare/hints/bad: the early hints were not sent: })
  end

  def test_early_hints_that_cannot_be_sent_are_no_error_of_the_app
    assert_equal "nil nil nil nil", server.get("/bare/hints/odd").body
    assert_equal "0", server.get("/bare/hints/forked").body
    connection = server.connection
    connection.send_request("GET", "/bare/hints/hijacked")
    assert_match(/\r\n\r\nnil\z/, connection.rest)
  end

  def test_early_hints_that_come_too_late
    connection = server.connection
    response = connection.get("/bare/hints/late")
    assert_equal [200, "onetaken"], [response.status, response.body]
    assert response.complete?
    assert_equal "probe\n", connection.get("/").body
  end

  # ---- After the response --------------------------------------------------------------------------------------------

  def test_response_finished
    skip_unless_rack3 do
      connection = server.connection
      assert_equal "onetwo", connection.get("/finished?id=#{id = new_id}").body
      events = server.wait_for_events(id, 4)
      assert_equal ["each", "close", "finished second Hash Integer Hash nil true 200 nil",
                    "finished first Hash Integer Hash nil true 200 nil"], events
    end
  end

  def test_response_finished_when_the_app_raises
    skip_unless_rack3 do
      server.get("/finished/raise?id=#{id = new_id}")
      assert_equal ['finished only Hash nil nil RuntimeError true nil "raised with a callback"'], server.wait_for_events(id, 1)
    end
  end

  def test_response_finished_when_the_body_raises
    skip_unless_rack3 do
      server.get("/finished/body-raises?id=#{id = new_id}")
      assert_match(/finished only Hash .* RuntimeError true .* "raised in each"/, server.wait_for_events(id, 2).last)
    end
  end

  def test_a_callback_that_raises_does_not_keep_the_others
    skip_unless_rack3 do
      assert_equal "fine", server.get("/finished/callback-raises?id=#{id = new_id}").body
      names = server.wait_for_events(id, 2).map { |event| event.split[1] }
      assert_equal %w[last first], names
      server.wait_for_log(/raised in a callback/)
    end
  end

  def test_response_finished_behind_a_stream
    skip_unless_rack3 do
      assert_equal "streamed", server.get("/finished/stream?id=#{id = new_id}").body
      assert_match(/finished only .* 200 nil/, server.wait_for_events(id, 2).last)
    end
  end

  def test_after_reply
    assert_equal "replied", server.get("/after_reply?id=#{id = new_id}").body
    assert_equal %w[first second], server.wait_for_events(id, 2)
  end

  def test_the_client_has_its_response_before_after_reply_is_over
    id = new_id
    assert_equal "replied", server.get("/after_reply/waits?id=#{id}").body
    assert_equal ["begun"], server.wait_for_events(id, 1)
    FileUtils.touch(File.join(server.directory, id))
    assert_equal %w[begun ended], server.wait_for_events(id, 2)
  end

  def test_after_reply_that_raises
    assert_equal "replied", server.get("/after_reply/raises?id=#{id = new_id}").body
    assert_equal ["second"], server.wait_for_events(id, 1)
    server.wait_for_log(/raised after the reply/)
  end
end

Matrix.of(Sockets)
