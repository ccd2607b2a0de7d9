# frozen_string_literal: true

require_relative "native_server"
require "tempfile"

class NativeResponseTest < Minitest::Test
  # A body that yields pieces and records whether it was closed.
  class Pieces
    def initialize(pieces, closed = [])
      @pieces = pieces
      @closed = closed
    end

    def each
      @pieces.each { |piece| yield piece.respond_to?(:call) ? piece.call : piece }
    end

    def close
      @closed << true
    end
  end

  # The client's view of such an answer of the app.
  def answer(status = 200, headers = {}, body = [], method: "GET", path: "/")
    NativeServer.open(->(_) { [status, headers, body] }) do |server|
      response = server.request(method, path)
      yield response, server if block_given?
      return response
    end
  end

  def test_a_body_may_keep_its_block_but_not_use_it_when_the_response_is_over
    kept = nil
    body = Object.new
    body.define_singleton_method(:each) { |&take| (kept = take).call("piece") }
    late = lambda do
      kept.call("late")
    rescue IOError => e
      e.message
    end
    app = ->(env) { [200, {}, env["PATH_INFO"] == "/late" ? [late.call] : body] }
    NativeServer.open(app) do |server|
      assert_equal "piece", server.request("GET", "/").content
      assert_match(/the response is over/, server.request("GET", "/late").content)
    end
  end

  def test_lines_and_arrays_become_fields
    response = answer(200, { "x-lines" => "Foo\nBar", "x-odd" => "\na\n\nb\n", "x-none" => "\n\n", "x-array" => %w[a b],
                             "x-empty" => "", "x-number" => 5, symbol: "s" })
    assert_equal %w[Foo Bar], response.all("x-lines")
    assert_equal %w[a b], response.all("x-odd")
    assert_equal [], response.all("x-none")
    assert_equal %w[a b], response.all("x-array")
    assert_equal [""], response.all("x-empty").map(&:to_s)
    assert_equal ["5"], response.all("x-number")
    assert_equal ["s"], response.all("symbol")
  end

  def test_headers_that_only_have_each
    headers = Object.new
    def headers.each
      yield "x-a", +"1" * 3
      yield ["x-b", "2"]
    end
    response = answer(200, headers)
    assert_equal %w[111 2], [response["x-a"], response["x-b"]]
  end

  def test_more_fields_than_usual
    response = answer(200, (1..100).to_h { |number| ["x-#{number}", [number.to_s, "again"]] })
    assert_equal (1..100).map(&:to_s), (1..100).map { |number| response["x-#{number}"] }
  end

  def test_messages_to_the_server_are_not_sent
    assert_nil answer(200, { "rack.something" => "x" })["rack.something"]
  end

  def test_statuses_that_no_document_assigns
    [299, 600, 799, 999].each { |status| assert_equal status, answer(status).status }
  end

  def test_a_status_that_is_text
    assert_equal 404, answer("404").status
  end

  def test_pieces_of_all_kinds
    pieces = ["Content", "", "Again", nil, 0]
    assert_equal ["ContentAgain0", "13"], answer(200, {}, pieces).then { |it| [it.content, it["content-length"]] }
    response = answer(200, {}, Pieces.new(pieces))
    assert_equal ["ContentAgain0", "chunked"], [response.content, response["transfer-encoding"]]
  end

  def test_more_pieces_than_are_gathered
    pieces = Array.new(5000) { |number| "#{number}," }
    assert_equal pieces.join, answer(200, {}, pieces).content
    assert_equal pieces.join, answer(200, {}, Pieces.new(pieces)).content
  end

  def test_a_single_piece_of_the_announced_length_is_a_whole_response
    response = answer(200, { "content-length" => "5" }, Pieces.new(["hello"]))
    assert_equal ["hello", "5", nil], [response.content, response["content-length"], response["transfer-encoding"]]
  end

  def test_more_than_the_announced_length_is_logged
    answer(200, { "content-length" => "5" }, Pieces.new(%w[hello more])) do |response, server|
      assert_equal "hello", response.content
      server.wait_for_log(/Content-Length/)
    end
  end

  def test_nothing_yielded
    assert_equal ["", "0"], answer(200, {}, Pieces.new([])).then { |it| [it.content, it["content-length"]] }
  end

  def test_bodies_with_to_ary
    body = Object.new
    def body.to_ary = %w[a b]
    def body.each = raise("each was called")
    assert_equal %w[ab 2], answer(200, {}, body).then { |it| [it.content, it["content-length"]] }
  end

  def test_arrays_in_the_proxies_of_middleware
    app = lambda do |env|
      next [200, {}, [$closed.to_s]] if env["PATH_INFO"] == "/closed" # rubocop:disable Style/GlobalVars

      inner = Rack::BodyProxy.new(%w[a b]) { $closed = true } # rubocop:disable Style/GlobalVars
      [200, {}, Rack::BodyProxy.new(inner) { nil }]
    end
    NativeServer.open(app) do |server|
      assert_equal %w[ab 2], server.get("/").then { |it| [it.content, it["content-length"]] }
      assert_equal "true", server.get("/closed").content
    end
  end

  def test_bodies_that_apps_have_chunked
    pieces = ["3\r\nab", "c\r\n4;x=y\r\ndefg\r", "\n0\r\n", "T: x\r\n\r\n"]
    response = answer(200, { "Transfer-Encoding" => "chunked" }, Pieces.new(pieces))
    assert_equal "abcdefg", response.content
    assert_equal 500, answer(200, { "Transfer-Encoding" => "chunked" }, ["no chunk"]).status
    assert_equal "abc", answer(200, { "transfer-encoding" => "chunked" }, ["3\r\nabc\r\n0\r\n\r\n"]).content
  end

  def test_no_content_where_there_must_be_none
    [["HEAD", 200], ["GET", 204], ["GET", 304]].each do |method, status|
      never = Pieces.new([-> { raise "asked for content" }])
      [["content"], never].each do |body|
        response = answer(status, {}, body, method: method)
        assert_equal [status, "", nil], [response.status, response.content, response["transfer-encoding"]]
      end
    end
  end

  def test_files
    Tempfile.create do |file|
      file.write("hello file")
      file.flush
      body = Struct.new(:to_path).new(file.path)
      def body.each = raise("each was called")
      assert_equal ["hello file", "10"], answer(200, {}, body).then { |it| [it.content, it["content-length"]] }
      assert_equal "hello", answer(200, { "content-length" => "5" }, body).content
      assert_equal ["hello file", "10"], answer(200, { "content-length" => "50" }, body)
        .then { |it| [it.content, it["content-length"]] }
    end
  end

  def test_what_is_no_file_is_iterated
    ["/nowhere/at/all", "/proc/self/stat", Dir.tmpdir, "/dev/null", "a\0b", "", nil].each do |path|
      body = Pieces.new(["pieces"])
      body.define_singleton_method(:to_path) { path }
      assert_equal "pieces", answer(200, {}, body).content, path.inspect
    end
  end

  def test_ranges_of_files_are_the_apps
    Tempfile.create do |file|
      file.write("0123456789")
      file.flush
      app = Rack::Files.new(File.dirname(file.path))
      NativeServer.open(app) do |server|
        response = server.get("/#{File.basename(file.path)}", fields: { "Range" => "bytes=2-4" })
        assert_equal [206, "234"], [response.status, response.content]
        assert_equal "0123456789", server.get("/#{File.basename(file.path)}").content
      end
    end
  end

  def test_bodies_are_closed_once
    bodies = {
      "/each" => [%w[a b]], "/empty" => [[]], "/raises" => [["a", -> { raise "in each" }]],
      "/raises-at-once" => [[-> { raise "in each" }]], "/bad" => [["a"], { "x y" => "z" }]
    }
    closed = Hash.new { |hash, key| hash[key] = [] }
    app = lambda do |env|
      next [200, {}, [closed.transform_values(&:size).inspect]] if env["PATH_INFO"] == "/closed"

      pieces, headers = bodies.fetch(env["PATH_INFO"])
      [200, headers || {}, Pieces.new(pieces, closed[env["PATH_INFO"]])]
    end
    NativeServer.open(app) do |server|
      bodies.each_key { |path| server.request("GET", path) unless path == "/raises" }
      assert_nil server.connect.then { |socket|
        socket.write("GET /raises HTTP/1.1\r\nHost: a\r\n\r\n")
        socket.read[/0\r\n\r\n/]
      }
      server.request("HEAD", "/each")
      counts = { "/each" => 2, "/empty" => 1, "/raises-at-once" => 1, "/bad" => 1, "/raises" => 1 }
      assert_equal counts.inspect, server.get("/closed").content
    end
  end

  def test_what_each_raises_before_the_first_piece_is_answered
    assert_equal 500, answer(200, {}, Pieces.new([-> { raise "in each" }])).status
  end

  def test_close_that_raises_is_logged
    body = Pieces.new(["x"])
    def body.close = raise("in close")
    answer(200, {}, body) do |response, server|
      assert_equal "x", response.content
      server.wait_for_log(/close of the body failed.*in close/)
    end
  end

  def test_the_body_of_a_client_that_has_gone_is_closed
    app = lambda do |env|
      next [200, {}, [$closed.to_s]] if env["PATH_INFO"] == "/closed" # rubocop:disable Style/GlobalVars

      body = Enumerator.new { |yielder| loop { yielder << ("x" * 100_000) } }
      def body.close = $closed = true # rubocop:disable Style/GlobalVars
      [200, {}, body]
    end
    NativeServer.open(app, settings: { threads: 2 }) do |server|
      socket = server.connect
      socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      socket.readpartial(10)
      socket.close
      server.wait_until("close") { server.get("/closed").content == "true" }
    end
  end

  def test_large_bodies_reach_slow_clients
    content = "0123456789" * 1_000_000
    assert_equal content, answer(200, {}, [content]).content
    assert_equal content, answer(200, {}, Pieces.new(content.scan(/.{100000}/))).content
  end
end
