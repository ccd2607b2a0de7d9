# frozen_string_literal: true

require "digest"
require_relative "support/matrix"

# The kinds of bodies that an app may return, each of which is closed.
module Bodies
  include Matrix::Tests

  def get(target)
    response = server.get(target)
    assert_equal 200, response.status, response.body
    assert response.complete?
    response
  end

  # A response that is cut. With an edge or HTTP/2, an unknown number of its bytes arrives before the cut; nil without any.
  def get_cut(target)
    server.get(target)
  rescue Connection::Ended
    raise unless OverHTTP2.on? || TestServer::EDGE
  end

  # Closed means: once, and before the next request of the connection is answered or soon after.
  def assert_closed_once(id, connection)
    server.wait_for_events(id, 1)
    Waiting.wait_until(-> { "close, there are #{server.events(id)}" }) { server.events(id).include?("close") }
    assert_equal "probe\n", connection.get("/").body
    assert_equal 1, server.events(id).count("close"), server.events(id).inspect
  end

  def test_arrays
    response = get("/bare/bodies/array")
    assert_equal ["one two three", "13"], [response.body, response["Content-Length"]]
    assert_nil response["Transfer-Encoding"]
    assert_equal "one two three", get("/bodies/array").body
  end

  def test_empty_bodies
    %w[/bare/bodies/empty /bodies/empty /bodies/each-empty].each do |target|
      response = get(target)
      assert_equal ["", "0"], [response.body, response["Content-Length"]], target
    end
  end

  def test_each
    %w[/bare /].each { |prefix| assert_equal "onetwothree", get("#{prefix.chomp('/')}/bodies/each").body }
    assert_equal "chunked", get("/bodies/each")["Transfer-Encoding"]
    assert_equal "piece 0\npiece 1\npiece 2\n", get("/bodies/enumerator").body
  end

  # The bytes after the last piece (Rack::Lint hides that a body has trailers), on a connection that ends with the response.
  def behind_pieces(target)
    connection = server.connection
    connection.write("GET #{target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    rest = connection.rest.split("\r\n\r\n", 2)[1].to_s.delete_prefix("3\r\none\r\n3\r\ntwo\r\n")
    # The proxy writes names in its own way.
    OverHTTP2.on? ? rest.downcase : rest
  end

  def test_trailers
    %w[each call].each do |way|
      assert_equal "0\r\ngrpc-status: 0\r\nx-sum: a\r\nx-sum: b\r\nx-yielded: 2\r\n\r\n",
                   behind_pieces("/bare/trailers/#{way}/some")
      assert_equal "0\r\ngrpc-status: 0\r\nx-sum: a\r\nx-sum: b\r\nx-yielded: 0\r\n\r\n",
                   behind_pieces("/bare/trailers/#{way}/some-alone")
      assert_equal "0\r\n\r\n", behind_pieces("/bare/trailers/#{way}/nil")
    end
    assert_equal "onetwo", behind_pieces("/bare/trailers/each/length")
  end

  def test_trailers_that_cannot_be_cut_the_response
    %w[each call].each do |way|
      %w[text forbidden raises].each do |name|
        # With HTTP/2 an unknown number of its bytes arrives before the reset.
        refute_match(/0\r\n\r\n\z/, behind_pieces("/bare/trailers/#{way}/#{name}"), "#{way} #{name}") if OverHTTP2.on?
        assert_equal "", behind_pieces("/bare/trailers/#{way}/#{name}"), "#{way} #{name}" unless OverHTTP2.on?
      end
    end
    log = server.log
    assert_match(/trailers of the body must be a Hash or nil, not the String "x-sum: 1"/, log)
    assert_match(/Set-Cookie cannot be a trailer/, log)
  end

  def test_blank_pieces_do_not_end_the_body
    assert_equal "onetwo", get("/bodies/each-blank").body
  end

  def test_a_length_that_the_app_gives_is_used
    response = get("/bodies/each-length")
    assert_equal ["onetwothree", ["11"], []], [response.body, response.all("Content-Length"), response.all("Transfer-Encoding")]
  end

  def test_to_ary
    response = get("/bare/bodies/to_ary?id=#{id = new_id}")
    assert_equal %w[onetwo 6], [response.body, response["Content-Length"]]
    server.wait_for_events(id, 2)
    refute_includes server.events(id), "each"
  end

  def test_pieces_are_made_strings
    %w[/bare/bodies/values /bare/bodies/array-values].each { |target| assert_equal "ContentAgain0", get(target).body }
  end

  def test_bytes_are_counted_not_characters
    response = get("/bodies/wide")
    assert_equal "caf\u00e9 \u263a".b, response.body
  end

  def test_more_pieces_than_one_system_call_takes
    expected = Array.new(5000) { |number| "#{number} " }.join
    %w[/bodies/many /bare/bodies/many].each { |target| assert_equal expected, get("#{target}?count=5000").body }
  end

  def test_large_bodies
    [65_536, 1_000_000, 20_000_000].each do |size|
      body = get("/bare/bodies/large?bytes=#{size}").body
      assert_equal size, body.bytesize
      assert_equal Digest::SHA256.hexdigest(pattern(size)), Digest::SHA256.hexdigest(body)
    end
  end

  def pattern(size)
    ((0..250).map(&:chr).join.b * ((size / 251) + 1)).byteslice(0, size)
  end

  def test_pieces_leave_when_they_are_made
    id = new_id
    connection = server.connection
    connection.send_request("GET", "/bodies/waits?id=#{id}")
    assert_match(/200 OK/, connection.take_line)
    nil while connection.take_line != "\r\n"
    assert_equal "5\r\nfirst\r\n", connection.take_line + connection.take_line
    FileUtils.touch(File.join(server.directory, id))
    assert_equal "6\r\nsecond\r\n0\r\n\r\n", Array.new(4) { connection.take_line }.join
  end

  def test_a_client_of_the_old_protocol_gets_no_chunks
    connection = server.connection
    connection.write("GET /bodies/each HTTP/1.0\r\n\r\n")
    head, body = connection.rest.split("\r\n\r\n")
    assert_equal "onetwothree", body
    refute_match(/transfer-encoding/i, head)
  end

  def test_a_client_that_reads_slowly
    connection = server.connection
    id = new_id
    connection.send_request("GET", "/bodies/pieces?bytes=16777216&id=#{id}")
    alone = self.class.server_options[:settings] == { workers: 1 }
    assert_equal "probe\n", server.get("/").body, "others are served" unless alone
    response = connection.response
    assert_equal 16_777_216, response.body.bytesize
    assert_closed_once(id, connection)
  end

  # ---- close ---------------------------------------------------------------------------------------------------------

  def test_bodies_are_closed_once
    %w[/bodies/each /bare/bodies/each /bodies/each-empty /bodies/each-length /bare/files/sized?bytes=5
       /files/sized?bytes=5].each do |target|
      connection = server.connection
      id = new_id
      assert_equal 200, connection.get("#{target}#{target.include?('?') ? '&' : '?'}id=#{id}").status
      assert_closed_once(id, connection)
    end
  end

  def test_a_body_is_closed_when_nothing_of_it_is_sent
    { "HEAD" => "/bare/bodies/each?", "GET" => "/bodies/without-content?code=204&" }.each do |method, target|
      connection = server.connection
      id = new_id
      assert_equal "", connection.request(method, "#{target}id=#{id}").body
      assert_closed_once(id, connection)
    end
  end

  def test_a_body_is_closed_when_it_raises
    %w[/bodies/raises /bodies/raises-at-once /bare/bodies/raises /bare/bodies/raises-at-once].each do |target|
      id = new_id
      get_cut("#{target}?id=#{id}")
      assert_closed_once(id, server.connection)
    end
  end

  def test_a_body_is_closed_when_its_response_is_refused
    id = new_id
    assert_equal 500, server.get("/bare/bodies/without-content?code=1000&id=#{id}").status
    assert_closed_once(id, server.connection)
  end

  def test_a_body_is_closed_when_the_client_leaves
    connection = server.connection
    id = new_id
    connection.send_request("GET", "/bodies/pieces?bytes=100000000&id=#{id}")
    connection.take_bytes(1000)
    connection.reset
    assert_closed_once(id, server.connection)
  end

  def test_what_close_raises_is_logged_and_the_response_whole
    connection = server.connection
    assert_equal "onetwo", connection.get("/bodies/raises-in-close?id=#{id = new_id}").body
    server.wait_for_log(/raised in close/)
    assert_closed_once(id, connection)
  end

  # ---- Failing in the middle -----------------------------------------------------------------------------------------

  def test_a_body_that_raises_before_its_first_piece_is_answered
    %w[bodies/raises-at-once bodies/raises-behind-nothing bodies/unframed stream/raises-at-once stream/bad-head
       stream/unframed].each do |target|
      connection = server.connection
      assert_equal 500, connection.get("/bare/#{target}?id=#{id = new_id}").status, target
      Waiting.wait_until("close of #{target}") { server.events(id).include?("close") }
      assert_equal 1, server.events(id).count("close"), target
      refute_includes server.events(id), "called"
    end
    refute get_cut("/bare/stream/raises-behind-flush?id=#{new_id}")&.complete?
  end

  def test_a_response_that_breaks_off_does_not_look_whole
    response = get_cut("/bodies/raises?id=#{new_id}")
    assert_includes [200, nil], response&.status
    refute response&.complete?
    server.wait_for_log(/raised in each/)
  end

  def test_a_body_that_is_too_short_does_not_look_whole
    refute get_cut("/bare/bodies/short?id=#{new_id}")&.complete?
  end

  def test_a_body_that_is_too_long_is_cut
    connection = server.connection
    fields = OverHTTP2.on? ? { "Connection" => "close" } : {}
    connection.send_request("GET", "/bare/bodies/long?id=#{new_id}", fields)
    assert_equal "onet", connection.rest[/\r\n\r\n(.*)/m, 1]
  end

  # ---- Without content -----------------------------------------------------------------------------------------------

  def test_no_content_where_there_must_be_none
    [204, 304].each do |code|
      ["/bare/bodies/without-content", "/bare/bodies/array-without-content", "/bodies/without-content"].each do |target|
        connection = server.connection
        connection.write("GET #{target}?code=#{code}&id=#{new_id} HTTP/1.1\r\nHost: a\r\n\r\n" \
                         "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        head, rest = connection.rest.split("\r\n\r\n", 2)
        assert_match(%r{\AHTTP/1.1 #{code} }, head)
        refute_match(/transfer-encoding|content-length: [1-9]/i, head)
        assert_match(%r{\AHTTP/1.1 200 }, rest)
      end
    end
  end

  def test_head
    %w[/bodies/array /bare/bodies/each /files/sized?bytes=100000 /fields/length].each do |target|
      connection = server.connection
      connection.write("HEAD #{target} HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      head, rest = connection.rest.split("\r\n\r\n", 2)
      assert_match(%r{\AHTTP/1.1 200 }, head)
      assert_match(%r{\AHTTP/1.1 200 }, rest, target)
    end
    assert_equal "100000", server.request("HEAD", "/files/sized?bytes=100000")["Content-Length"]
    assert_equal "5", server.request("HEAD", "/fields/length")["Content-Length"]
  end

  def test_a_stream_is_not_run_without_content
    { "HEAD" => 200, "GET" => 204 }.each do |method, code|
      connection = server.connection
      id = new_id
      assert_equal "", connection.request(method, "/stream/without-content?code=#{code}&id=#{id}").body
      assert_closed_once(id, connection)
      refute_includes server.events(id), "called"
    end
  end

  def test_a_body_without_end_is_left_behind_its_length
    connection = server.connection
    fields = OverHTTP2.on? ? { "Connection" => "close" } : {}
    connection.send_request("GET", "/bare/bodies/endless?id=#{id = new_id}", fields)
    assert_equal "a piecea p", connection.rest[/\r\n\r\n(.*)/m, 1]
    assert_closed_once(id, server.connection)
  end

  # ---- Files ---------------------------------------------------------------------------------------------------------

  def test_files_are_sent_without_reading_them
    [1, 70_000, 5_000_000].each do |size|
      %w[/bare/files/sized /bare/files/unsized].each do |target|
        connection = server.connection
        response = connection.get("#{target}?bytes=#{size}&id=#{id = new_id}")
        assert_equal [size, size.to_s], [response.body.bytesize, response["Content-Length"]]
        assert_equal pattern(size), response.body
        assert_closed_once(id, connection)
        refute_includes server.events(id), "each"
      end
    end
  end

  def test_files_behind_middleware_that_hides_them
    assert_equal pattern(70_000), get("/files/sized?bytes=70000&id=#{new_id}").body
  end

  def test_a_file_that_is_not_there
    assert_equal 500, server.get("/bare/files/missing?id=#{new_id}").status
    assert_equal "probe\n", server.get("/").body
  end

  # ---- Bodies that are called ----------------------------------------------------------------------------------------

  # Rack 2 knows no such body; Lint would refuse it.
  def stream(target)
    rack3? ? target : "/bare#{target}"
  end

  def test_streams
    connection = server.connection
    response = connection.get("#{stream('/stream/write')}?id=#{id = new_id}")
    assert_equal "one two three [4, true]", response.body
    assert_equal ["closed=true", "close"], server.wait_for_events(id, 2)
    assert_equal "probe\n", connection.get("/").body
  end

  def test_a_stream_with_a_length
    response = get(stream("/stream/length"))
    assert_equal ["hello", "5", nil], [response.body, response["Content-Length"], response["Transfer-Encoding"]]
  end

  def test_a_stream_that_reads
    assert_equal "ping| and pong", server.post(stream("/stream/reads"), "ping and pong").body
  end

  def test_a_stream_goes_on_in_a_thread
    response = get("#{stream('/stream/thread')}?id=#{id = new_id}")
    assert_equal "piece 0 piece 1 piece 2 ", response.body
    server.wait_for_events(id, 2)
    assert_equal %w[close done], server.events(id).sort
  end

  def test_a_request_behind_a_stream_that_goes_on_in_a_thread
    connection = server.connection
    target = stream("/stream/thread")
    connection.write(Connection.text("GET", target) + Connection.text("GET", target) + Connection.text("GET", "/"))
    2.times { assert_equal "piece 0 piece 1 piece 2 ", connection.response.body }
    assert_equal "probe\n", connection.response.body
  end

  def test_a_stream_that_raises_does_not_look_whole
    refute get_cut("#{stream('/stream/raises')}?id=#{new_id}")&.complete?
    server.wait_for_log(/raised in call/)
  end

  def test_a_stream_learns_that_its_client_has_gone
    connection = server.connection
    connection.send_request("GET", "#{stream('/stream/gone')}?id=#{id = new_id}")
    connection.take_bytes(1000)
    connection.reset
    assert_match(/EPIPE|IOError/, server.wait_for_events(id, 1).first)
  end
end

Matrix.of(Bodies)
