# frozen_string_literal: true

require_relative "native_server"

class NativeEnvironmentTest < Minitest::Test
  RACK3 = NativeServer::RACK.first >= 3

  # The environment of a request as the app sees it, without what cannot be marshalled.
  def environment(path = "/", method: "GET", fields: {}, content: nil, **extras)
    app = lambda do |env|
      kept = env.select { |_, value| [String, Array, TrueClass, FalseClass].include?(value.class) }
      [200, {}, [Marshal.dump(kept)]]
    end
    NativeServer.open(app, **extras) do |server|
      content = server.request(method, path, fields: fields, content: content).content
      return Marshal.load(content) # rubocop:disable Security/MarshalLoad
    end
  end

  def test_the_path_stays_as_sent
    env = environment("/caf%C3%A9/%2e%2e/a+b?q=%20&r")
    assert_equal "/caf%C3%A9/%2e%2e/a+b", env["PATH_INFO"]
    assert_equal "q=%20&r", env["QUERY_STRING"]
    assert_equal "/caf%C3%A9/%2e%2e/a+b?q=%20&r", env["REQUEST_URI"]
    assert_equal "", env["SCRIPT_NAME"]
  end

  def test_variables_that_are_always_there
    env = environment
    assert_equal "GET", env["REQUEST_METHOD"]
    assert_equal "", env["QUERY_STRING"]
    assert_equal "HTTP/1.1", env["SERVER_PROTOCOL"]
    assert_equal "http", env["rack.url_scheme"]
    assert_equal true, env["rack.hijack?"]
    assert_equal [], env["rack.after_reply"]
    assert_equal "example.org", env["HTTP_HOST"]
    refute_empty env["SERVER_NAME"]
    assert Integer(env["SERVER_PORT"])
  end

  def test_variables_of_the_generation
    env = environment
    if RACK3
      assert_equal [], env["rack.response_finished"]
      refute env.key?("rack.version")
    else
      assert_equal [1, 3], env["rack.version"]
      assert_equal [false, true, false], env.values_at("rack.multithread", "rack.multiprocess", "rack.run_once")
    end
  end

  def test_whether_there_are_other_threads
    key = "rack.multithread"
    assert_equal [false, true], [1, 2].map { |threads| environment(settings: { threads: threads })[key] }
  end

  def test_methods_and_protocols_that_are_not_the_usual_ones
    assert_equal "PROPFIND", environment(method: "PROPFIND")["REQUEST_METHOD"]
    assert_equal "DELETE", environment(method: "DELETE")["REQUEST_METHOD"]
  end

  def test_values_are_bytes
    env = environment("/", fields: { "X-Name" => "caf\u00e9".b, "Referer" => "caf\u00e9".b })
    %w[HTTP_X_NAME HTTP_REFERER].each do |name|
      assert_equal Encoding::BINARY, env[name].encoding
      assert_equal "caf\u00e9".b, env[name]
    end
  end

  def test_content_fields_have_no_prefix
    env = environment(method: "POST", content: "abc", fields: { "Content-Type" => "text/plain" })
    assert_equal "3", env["CONTENT_LENGTH"]
    assert_equal "text/plain", env["CONTENT_TYPE"]
    refute env.key?("HTTP_CONTENT_LENGTH")
    refute env.key?("HTTP_CONTENT_TYPE")
  end

  def test_a_client_cannot_change_the_version
    env = environment(fields: { "Version" => "HTTP/9.9" })
    refute_equal "HTTP/9.9", env["HTTP_VERSION"]
  end

  def test_more_fields_than_the_template_has_room_for
    fields = (1..80).to_h { |number| ["X-Field-#{number}", "value #{number}"] }
    env = environment(fields: fields)
    assert_equal((1..80).map { |number| "value #{number}" }, (1..80).map { |number| env["HTTP_X_FIELD_#{number}"] })
  end

  def test_many_different_lists_of_fields
    app = ->(env) { [200, {}, [env.select { |name,| name.start_with?("HTTP_X") }.inspect, env.keys.uniq.size == env.size]] }
    NativeServer.open(app) do |server|
      100.times do |number|
        fields = (0..number % 40).to_h { |count| ["X-#{number % 40}-#{count}", "#{number} #{count}"] }
        expected = fields.transform_keys { |name| "HTTP_#{name.tr('-', '_')}" }
        assert_equal "#{expected.inspect}true", server.get("/", fields: fields).content
      end
    end
  end

  def test_the_protocols_that_a_client_offers
    env = environment(fields: { "Connection" => "upgrade, close", "Upgrade" => "websocket, \th2c ,,x" })
    RACK3 ? assert_equal(%w[websocket h2c x], env["rack.protocol"]) : refute(env.key?("rack.protocol"))
  end

  def test_one_request_does_not_see_what_another_changed
    app = lambda do |env|
      seen = [env["counter"], env["QUERY_STRING"], env["HTTP_X"]].inspect
      env["counter"] = 1
      env["QUERY_STRING"] = "changed"
      env.delete("SERVER_NAME")
      [200, {}, [seen]]
    end
    NativeServer.open(app) do |server|
      assert_equal [nil, "a", "1"].inspect, server.get("/?a", fields: { "X" => "1" }).content
      assert_equal [nil, "", nil].inspect, server.get("/").content
    end
  end

  def test_errors_go_to_the_log
    NativeServer.open(->(env) { env["rack.errors"].puts("this is wrong") || [200, {}, []] }) do |server|
      server.get("/")
      server.wait_for_log(/this is wrong/)
    end
  end

  def test_lint_has_nothing_to_say
    app = Rack::Lint.new(->(env) { [200, {}, [env["rack.input"]&.read.to_s]] })
    NativeServer.open(app) do |server|
      assert_equal [200, ""], server.get("/").to_a.values_at(0, 2)
      assert_equal [200, "abc"], server.post("/a%20b?c=d", "abc").to_a.values_at(0, 2)
      assert_equal 200, server.request("OPTIONS", "*").status, server.log
    end
  end

  # The data of a request is freed with it, for any number of lists of fields: its content and the deleted file.
  def test_nothing_of_a_request_stays
    app = lambda do |env|
      next [200, {}, []] unless env["PATH_INFO"] == "/count"

      4.times { GC.start }
      files = `ls -l /proc/#{Process.pid}/fd`.scan("(deleted)").size
      [200, {}, ["#{files} #{ObjectSpace.each_object(Oribi::Input).count}"]]
    end
    NativeServer.open(app, settings: { body_buffer_size: 1 }) do |server|
      60.times { |number| server.post("/", "content", fields: { "X-#{number % 30}" => "1" }) }
      # The collector takes what still lies about on the stack for a reference, and one Input is shared by all.
      files, inputs = server.get("/count").content.split.map(&:to_i)
      assert_operator files, :<=, 2
      assert_operator inputs, :<=, 3
    end
  end
end
