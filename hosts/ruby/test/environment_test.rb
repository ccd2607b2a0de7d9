# frozen_string_literal: true

require_relative "support/matrix"

# The view that an app has of a request: names, values and encodings.
module Environment
  include Matrix::Tests

  ALWAYS = %w[
    REQUEST_METHOD REQUEST_PATH SCRIPT_NAME PATH_INFO REQUEST_URI QUERY_STRING SERVER_NAME SERVER_PORT SERVER_PROTOCOL
    SERVER_SOFTWARE REMOTE_ADDR REMOTE_PORT HTTP_HOST rack.url_scheme rack.errors rack.hijack? rack.early_hints rack.after_reply
    oribi.deadline rack.multithread rack.multiprocess rack.run_once
  ].freeze
  OF_GENERATION =
    if TestServer::RACK31
      %w[rack.response_finished]
    elsif TestServer::RACK3
      %w[rack.response_finished rack.input]
    else
      %w[rack.version rack.input HTTP_VERSION]
    end

  # Of a client that resumes no session and asks for no name.
  OF_TLS = %w[HTTPS SSL_PROTOCOL SSL_CIPHER SSL_CIPHER_USEKEYSIZE SSL_CIPHER_ALGKEYSIZE SSL_SESSION_RESUMED].freeze

  def environment(target = "/environment", fields = {})
    decoded(server.get(target, fields))
  end

  def decoded(response)
    assert_equal 200, response.status, response.body
    @seen = Marshal.load(response.body) # rubocop:disable Security/MarshalLoad -- the probe has made it
    @seen[:env].transform_values { |_, _, value| value }
  end

  def encoding_of(name)
    @seen[:env].fetch(name)[1]
  end

  def test_a_request_without_content
    connection = server.connection
    env = decoded(connection.get("/environment?a=%31&b", "User-Agent" => "test", "X-One" => %w[first second]))
    of_connection = encrypted? ? OF_TLS : []
    # A connection of HTTP/2 also belongs to other requests. The proxy asks for a name.
    of_connection += OverHTTP2.on? ? [*("SSL_TLS_SNI" if encrypted?)] : ["rack.hijack"]
    assert_equal (ALWAYS + OF_GENERATION + of_connection + %w[HTTP_USER_AGENT HTTP_X_ONE]).sort, env.keys.sort
    expected = {
      "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/environment",
      "REQUEST_URI" => "/environment?a=%31&b", "REQUEST_PATH" => "/environment",
      "QUERY_STRING" => "a=%31&b", "SERVER_PROTOCOL" => OverHTTP2.on? ? "HTTP/2.0" : "HTTP/1.1",
      "HTTP_HOST" => "example.org", "HTTP_USER_AGENT" => "test",
      "HTTP_X_ONE" => "first, second", "rack.url_scheme" => encrypted? ? "https" : "http", "rack.multiprocess" => true,
      "rack.run_once" => false,
      "rack.multithread" => self.class.server_options[:settings].key?(:threads),
      "rack.hijack?" => !OverHTTP2.on?
    }
    assert_equal expected, env.slice(*expected.keys)
    assert_equal "String", @seen[:env]["SERVER_PORT"][0]
  end

  def test_addresses
    connection = server.connection
    env = decoded(connection.get("/environment"))
    if unix?
      assert_equal ["127.0.0.1", "0"], env.values_at("REMOTE_ADDR", "REMOTE_PORT")
    else
      own = connection.socket.to_io.local_address
      assert_equal [own.ip_address, own.ip_port.to_s], env.values_at("REMOTE_ADDR", "REMOTE_PORT")
    end
    assert_equal "example.org", env["SERVER_NAME"]
    assert_equal encrypted? ? "443" : "80", env["SERVER_PORT"]
    { "shop.example:8080" => %w[shop.example 8080], "[::1]:8080" => %w[[::1] 8080] }.each do |host, expected|
      assert_equal expected, decoded(connection.get("/environment", "Host" => host)).values_at("SERVER_NAME", "SERVER_PORT")
    end
  end

  def test_keys_are_the_strings_of_the_source
    environment
    assert_empty @seen[:keys_not_interned]
    assert_equal ["UTF-8"], @seen[:encodings]
  end

  def test_the_path_is_as_it_was_sent
    connection = server.connection
    connection.write("GET /%65nvironment HTTP/1.1\r\nHost: a\r\n\r\n")
    assert_equal 404, connection.response.status, "the path must not be decoded"
    env = decoded(connection.get("/environment?%2e%00"))
    assert_equal "%2e%00", env["QUERY_STRING"]
  end

  def test_values_are_bytes
    env = environment("/environment?%C3%A9", "X-Bytes" => "caf\xE9".b, "X-Utf8" => "caf\u00e9")
    assert_equal "caf\xE9".b, env["HTTP_X_BYTES"]
    assert_equal "caf\xC3\xA9".b, env["HTTP_X_UTF8"]
    %w[HTTP_X_BYTES QUERY_STRING].each { |name| assert_equal Encoding::BINARY, Encoding.find(encoding_of(name)) }
  end

  def test_the_fields_of_content_have_no_prefix
    env = decoded(server.post("/environment", "abc", "content-TYPE" => "text/plain"))
    assert_equal %w[text/plain 3], env.values_at("CONTENT_TYPE", "CONTENT_LENGTH")
    refute env.key?("HTTP_CONTENT_TYPE")
    refute env.key?("HTTP_CONTENT_LENGTH")
    assert env.key?("rack.input")
  end

  def test_a_request_without_content_has_no_content_length
    refute environment.key?("CONTENT_LENGTH")
  end

  def test_names_that_pass_for_others_are_dropped
    env = environment("/environment", "Proxy" => "evil", "X_Forwarded_For" => "evil", "Content_Length" => "5",
                                      "Version" => "HTTP/9.9")
    refute env.key?("HTTP_PROXY")
    refute_includes env.values, "evil"
    refute_includes env.values, "HTTP/9.9"
    refute env.key?("CONTENT_LENGTH")
  end

  def test_an_old_protocol
    connection = server.connection
    connection.write("GET /environment HTTP/1.0\r\n\r\n")
    env = decoded(connection.response)
    assert_equal "HTTP/1.0", env["SERVER_PROTOCOL"]
    refute env.key?("HTTP_HOST")
    assert connection.ended?
  end

  def test_every_method
    %w[GET POST PUT PATCH DELETE OPTIONS PROPFIND X-ODD].each do |method|
      assert_equal method, server.request(method, "/method").body
    end
  end

  def test_targets_in_other_forms
    connection = server.connection
    connection.write("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
    assert_equal 404, connection.response.status, "an app may see the asterisk"
    connection.write("GET http://example.org/environment?a HTTP/1.1\r\nHost: example.org\r\n\r\n")
    env = decoded(connection.response)
    assert_equal ["/environment", "a"], env.values_at("PATH_INFO", "QUERY_STRING")
  end

  def test_what_an_app_does_to_one_env_is_not_seen_in_the_next
    connection = server.connection
    first = decoded(connection.get("/environment?same"))
    4.times { assert_equal "spoiled", connection.get("/bare/spoil?x=spoil", "X-Spoil" => "1").body }
    assert_equal first, decoded(connection.get("/environment?same"))
  end

  def test_an_env_that_is_kept_stays_what_it_was
    connection = server.connection
    connection.get("/bare/keep?first")
    20.times { |number| connection.get("/?#{number}") }
    assert_includes ["first", ""], connection.get("/bare/keep?second").body
  end

  def test_requests_on_one_connection_differ
    connection = server.connection
    20.times do |number|
      fields = number.odd? ? { "Cookie" => "number=#{number}", "X-#{number}" => number.to_s } : {}
      env = decoded(connection.get("/environment?#{number}", fields))
      assert_equal number.to_s, env["QUERY_STRING"]
      assert_equal [*("number=#{number}" if number.odd?)], [*env["HTTP_COOKIE"]]
      assert_equal number.odd? ? ["HTTP_X_#{number}"] : [], env.keys.grep(/\AHTTP_X_\d/)
    end
  end

  def test_errors_go_to_the_log
    assert_equal "said", server.get("/errors").body
    server.wait_for_log(/^put by the probe\n(?:.*\n)*?written by the probe$/)
  end
end

Matrix.of(Environment)
