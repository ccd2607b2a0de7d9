# frozen_string_literal: true

require_relative "native_server"
require "tempfile"

# Every way through the extension while garbage is collected at every allocation, and while objects move.
class NativeCollectionTest < Minitest::Test
  class Body
    def each
      yield +"a" * 50
      yield +"b" * 50
    end

    def close; end
  end

  FILE = Tempfile.new("oribi").tap { |file| file.write("c" * 100) && file.flush }

  APP = lambda do |env|
    headers = { "x-long" => "v" * 40, "x-lines" => "a" * 30 + "\n" + "b" * 30, "x-number" => 123,
                +"x-list" => ["c" * 30, +"d" * 30] }
    40.times { |number| headers["x-#{number}"] = "value #{number}" } if env["QUERY_STRING"] == "many"
    case env["PATH_INFO"]
    when "/array" then [200, headers, ["a" * 50, 5, +"b" * 50]]
    when "/each" then ["200", headers, Body.new]
    when "/file" then [200, headers, Struct.new(:to_path).new(FILE.path)]
    when "/call" then [200, headers, ->(stream) { stream.write("a" * 50) && stream.close }]
    when "/input" then [200, headers, [env["rack.input"].gets, env["rack.input"].read(5), env["rack.input"].read]]
    when "/env" then [200, headers, [env.map { |name, value| "#{name}=#{value}\n" if value.is_a?(String) }.join]]
    when "/raise" then raise "with a message " * 10
    when "/garbage" then [200, { "a b" => "c" }, nil]
    when "/hints" then env["rack.early_hints"].call(headers) || [200, {}, ["hinted"]]
    when "/after"
      env["rack.after_reply"] << -> { env["counter"] = 1 }
      env["rack.response_finished"]&.push(->(*) { env["counter"] = 2 })
      [200, headers, ["after"]]
    when "/hijack"
      env["rack.hijack"].call.then { |io| io.write("HTTP/1.1 200 OK\r\n\r\ntaken") && io.close }
    when "/partial" then [200, headers.merge("rack.hijack" => ->(io) { io.write("partial") && io.close }), []]
    end
  end

  def check(hook, requests, **settings)
    NativeServer.open(APP, settings: settings, hooks: { after_fork: [hook] }, environment: "development") do |server|
      requests.times do
        assert_equal "#{'a' * 50}5#{'b' * 50}", server.get("/array").content, -> { server.log }
        response = server.get("/each?many", fields: { "X-Some" => "thing" })
        assert_equal "a" * 50 + "b" * 50, response.content
        assert_equal ["a" * 30, "b" * 30, "c" * 30, "d" * 30], response.all("x-lines") + response.all("x-list")
        assert_equal "value 39", response["x-39"]
        assert_equal "c" * 100, server.get("/file").content
        assert_equal "a" * 50, server.get("/call").content
        assert_equal "line\nhello world", server.post("/input", "line\nhello world").content
        assert_match(/^HTTP_X_UNKNOWN=something long enough for memory of its own$/,
                     server.get("/env", fields: { "X-Unknown" => "something long enough for memory of its own" }).content)
        assert_includes server.get("/raise").content, "with a message with"
        assert_equal 500, server.get("/garbage").status
        assert_includes server.get("/hints").content, "hinted"
        assert_equal "after", server.get("/after").content
        assert_equal "taken", server.get("/hijack").content
        assert_equal "partial", server.get("/partial").content
      end
    end
  end

  def test_collecting_at_every_allocation
    check(->(*) { GC.stress = true }, 1)
  end

  def test_compacting_at_every_collection
    check(->(*) { GC.auto_compact = true && GC.stress = true }, 1)
  end

  def test_compacting_between_requests
    app = lambda do |env|
      GC.compact
      env["rack.after_reply"] << -> { GC.compact }
      [200, { "x-name" => env["HTTP_X_NAME"] }, [env["PATH_INFO"], env["SERVER_NAME"].empty?.to_s]]
    end
    NativeServer.open(app) do |server|
      30.times do |number|
        response = server.get("/#{number}", fields: { "X-Name" => "name #{number % 5}" })
        assert_equal ["/#{number}false", "name #{number % 5}"], [response.content, response["x-name"]]
      end
    end
  end

  def test_threads_that_collect
    check(->(*) { Thread.new { loop { GC.start && sleep(0.001) } } }, 5, threads: 4)
  end
end
