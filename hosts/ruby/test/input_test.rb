# frozen_string_literal: true

require "digest"
require_relative "support/matrix"

# rack.input: the content of a request.
module Input
  include Matrix::Tests

  # Held in memory, and (beyond body_buffer_size) in a file.
  SMALL = "line one\nline two\n\nthe last line"
  LARGE = (SMALL * 4000)

  def each_size(&)
    { "small" => SMALL, "large" => LARGE }.each_value(&)
  end

  def post(path, content, fields = {})
    response = server.post(path, content, fields)
    assert_equal 200, response.status, response.body
    response.body
  end

  def test_everything_at_once
    each_size { |content| assert_equal content, post("/input/read", content) }
  end

  def test_in_pieces
    each_size do |content|
      assert_equal "#{content.bytesize} #{Digest::SHA256.hexdigest(content)}", post("/input/digest", content)
    end
  end

  def test_what_read_returns
    seen = ["", "abc", "def", "def", "ghi", nil, "", "", "", nil, ""].map { |value| value&.b }
    assert_equal "#{seen.inspect}[#<Encoding:ASCII-8BIT>]",
                 post("/input/reads", "abcdefghi").sub("BINARY (ASCII-8BIT)", "ASCII-8BIT")
  end

  def test_lines
    assert_equal ["line one\n", "line two\n", "\nthe last line", nil].inspect, post("/input/gets", SMALL)
    assert_equal ["line one\n", "line two\n", "\n", "the last line"].inspect, post("/input/each", SMALL)
    assert_equal LARGE.lines.inspect, post("/input/each", LARGE)
  end

  def test_methods_of_files
    each_size { |content| assert_equal "[]", post("/bare/input/calls", content) }
  end

  def test_libraries_that_read
    assert_equal '["b", "c"]', post("/bare/input/xml", "<?xml version='1.0' encoding='UTF-8'?>\n<a><b/><c>text</c></a>\n")
    assert_equal '[1, "two", nil]', post("/bare/input/marshal", Marshal.dump([1, "two", nil]))
  end

  def test_rewind
    path = rack3? ? "/bare/input/rewind" : "/input/rewind"
    each_size { |content| assert_equal [content, content].inspect, post(path, content) }
  end

  def test_reading_while_the_response_is_sent
    each_size { |content| assert_equal "#{content[0, 2]}|#{content[2..]}", post("/input/late", content) }
  end

  def test_close_belongs_to_the_third_rack
    if rack3?
      assert_equal "closed", post("/input/close", SMALL)
    else
      assert_equal 500, server.post("/input/close", SMALL).status, "Lint of Rack 2 forbids it"
    end
  end

  def test_without_content
    present = TestServer::RACK31 ? [false, nil] : [true, ""]
    assert_equal [*present, nil].inspect, server.get("/input/presence").body
    assert_match(/\A\[#{present.map(&:inspect).join(", ")}, /, server.post("/input/presence", "").body)
  end

  def test_content_that_the_app_does_not_read
    connection = server.connection
    each_size do |content|
      assert_equal "unread", connection.post("/input/unread", content).body
      assert_equal "probe\n", connection.get("/").body, "the next request is read from its beginning"
    end
  end

  def test_binary_content
    content = (0..255).map(&:chr).join.b * 3
    assert_equal content, post("/input/read", content)
  end

  def test_a_get_may_have_content
    assert_equal "for GET", server.request("GET", "/input/read", {}, "for GET").body
  end

  def test_chunked_content
    connection = server.connection
    connection.write("POST /input/read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n")
    ["5\r\nhello\r\n", "1;extension=1\r\n \r\n", "5\r\nworld\r\n", "0\r\nX-Behind: it\r\n\r\n"].each do |chunk|
      connection.write(chunk)
    end
    assert_equal "hello world", connection.response.body
    connection.write("POST /input/presence HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    assert_equal [true, "abc", "3"].inspect, connection.response.body
  end

  # The response to a request with a field X-Sum in its head, chunked content and these trailers.
  def post_chunked(connection, path, content, trailers)
    connection.write("POST #{path} HTTP/1.1\r\nHost: a\r\nX-Sum: head\r\nTransfer-Encoding: chunked\r\n\r\n")
    connection.write("#{content.bytesize.to_s(16)}\r\n#{content}\r\n0\r\n#{trailers}\r\n")
    connection.response
  end

  def test_trailers_stand_apart
    connection = server.connection
    sent = "X-Sum: 1\r\nHost: b\r\nempty:\r\nX-Three: a\r\nx-sum:  2 \r\nX-THREE: b\r\nx-three: c\r\n"
    expected = { "x-sum" => %w[1 2], "empty" => "", "x-three" => %w[a b c] }
    each_size do |content|
      seen = post_chunked(connection, "/input/trailers", content, sent).body
      assert_equal [content.bytesize, "head", expected, [["UTF-8"], ["ASCII-8BIT"]]].inspect, seen
      seen = post_chunked(connection, "/input/trailers", content, "").body
      assert_equal [content.bytesize, "head", nil, [[], []]].inspect, seen
      assert_equal [content.bytesize, nil, nil, [[], []]].inspect, connection.post("/input/trailers", content).body
    end
  end

  def test_chunked_content_has_a_length_and_no_coding
    connection = server.connection
    connection.write("POST /environment HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    env = Marshal.load(connection.response.body)[:env] # rubocop:disable Security/MarshalLoad -- the probe has made it
    assert_equal "3", env["CONTENT_LENGTH"][2]
    refute env.key?("HTTP_TRANSFER_ENCODING")
  end

  def test_large_content_both_ways
    content = "0123456789abcdef" * 400_000
    assert_equal content, post("/input/echo", content)
  end

  def test_content_that_trickles_in
    connection = server.connection
    connection.write("POST /input/read HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
    "0123456789".each_char do |byte|
      connection.write(byte)
      assert_equal "probe\n", server.get("/").body, "others are served meanwhile"
    end
    assert_equal "0123456789", connection.response.body
  end

  def test_a_client_that_leaves_halfway_is_not_heard
    id = new_id
    connection = server.connection
    connection.write("POST /bodies/each?id=#{id} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf")
    connection.reset
    assert_equal "probe\n", server.get("/").body
    assert_empty server.events(id)
  end

  def test_expect_continue
    connection = server.connection
    connection.write("POST /input/read HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n")
    assert_equal 100, connection.response.status
    connection.write("hello")
    assert_equal "hello", connection.response.body
    connection.write("POST /input/read HTTP/1.1\r\nHost: a\r\nExpect: something\r\nContent-Length: 5\r\n\r\n")
    assert_equal 417, connection.response.status
  end

  def test_curl_uploads
    Dir.mktmpdir do |directory|
      file = File.join(directory, "upload")
      File.binwrite(file, LARGE)
      ["-T#{file}", "--data-binary @#{file}", "--data-binary @#{file} -H Transfer-Encoding:chunked -H Expect:100-continue",
       "--http1.0 --data-binary @#{file}"].each do |arguments|
        command = ["curl", "-sS", "-m", "30", *server.curl_arguments, *arguments.split, server.url("/input/digest")]
        assert_equal "#{LARGE.bytesize} #{Digest::SHA256.hexdigest(LARGE)}", IO.popen(command, &:read), arguments
      end
    end
  end
end

Matrix.of(Input, settings: { body_buffer_size: "16k" })
