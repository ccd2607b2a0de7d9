# frozen_string_literal: true

require_relative "native_server"

# Every way through the extension while garbage is collected at every allocation, and while objects move.
class NativeCollectionTest < Minitest::Test
  APP = File.expand_path("support/collection.rb", __dir__)

  def serve(way, threads: 1, &test)
    NativeServer.run(APP, way, threads, *NativeServer::RACK, &test)
  end

  def check(way, requests, **options)
    serve(way, **options) do |server|
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

  # Twice, so that both new and reused environments are tested.
  def test_collecting_at_every_allocation
    check("stress", 2)
  end

  def test_compacting_at_every_collection
    check("moving", 2)
  end

  def test_compacting_between_requests
    serve("between") do |server|
      30.times do |number|
        response = server.get("/compact?#{number}", fields: { "X-Name" => "name #{number % 5}" })
        assert_equal ["#{number}false", "name #{number % 5}"], [response.content, response["x-name"]]
      end
    end
  end

  # The collector must remember a reference from an old object, or the next collection of young objects frees its target.
  def test_young_objects_that_old_ones_keep
    app = lambda do |env|
      4.times { GC.start(full_mark: false) } if env["PATH_INFO"] == "/age"
      [200, {}, [env["HTTP_X_NAME"].to_s, Array.new(2000) { |number| { number => +"other" } }.size.to_s]]
    end
    NativeServer.open(app) do |server|
      # Here the context grows old; the next request has the first template of its kind.
      server.get("/age")
      %w[/ /age /].each do |path|
        5.times do |number|
          names = Array.new(number + 1) { |index| ["X-Other-#{index}", "value"] }.to_h
          assert_equal "own2000", server.get(path, fields: names.merge("X-Name" => "own")).content, -> { server.log }
        end
        server.get("/age")
      end
    end
  end

  def test_threads_that_collect
    check("thread", 5, threads: 4)
  end
end
