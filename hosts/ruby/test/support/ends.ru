# frozen_string_literal: true

# An app whose requests end in each of the ways in which a request can end: GET /END. It notes which promises of Rack are
# kept: that the body is closed, and that work for after the response is done. Middleware relies on both, as it does in real
# apps.

require "rack"
require "uri"

module Ends
  module_function

  def note(env, event)
    id = URI.decode_www_form(env["QUERY_STRING"]).to_h["id"]
    File.open(ENV.fetch("PROBE_EVENTS"), "a") { |file| file.syswrite("#{id} #{event}\n") }
  end

  # Keeps the user of a request in the thread, as RequestStore does, and notes that of another one.
  class Store
    def initialize(app)
      @app = app
    end

    def call(env)
      Ends.note(env, "stale") if Thread.current[:user]
      Thread.current[:user] = env
      response = @app.call(env)
      response.push(Rack::BodyProxy.new(response.pop) { Thread.current[:user] = nil })
      returned = true
      response
    ensure
      Thread.current[:user] = nil unless returned
    end
  end

  # A body with the methods that are given.
  def body(env, **methods)
    Object.new.tap do |body|
      body.define_singleton_method(:close) { Ends.note(env, "close") }
      methods.each { |name, method| body.define_singleton_method(name, &method) }
    end
  end

  def pieces(env, *pieces, &last)
    each = lambda do |&take|
      pieces.each(&take)
      last&.call(take)
    end
    body(env, each: each)
  end

  # A deadline that is over at once.
  def sleep_too_long(env)
    env["oribi.deadline"].call(0.001)
    sleep
  end

  ENDS = {
    # In good order.
    "each" => ->(env) { [200, {}, Ends.pieces(env, "one", "two")] },
    "nothing" => ->(env) { [200, {}, Ends.pieces(env)] },
    "array" => lambda { |env|
      array = Class.new(Array).new(["fine"])
      array.define_singleton_method(:close) { Ends.note(env, "close") }
      [200, {}, array]
    },
    "file" => ->(env) { [200, {}, Ends.body(env, each: -> {}, to_path: -> { __FILE__ })] },
    "call" => lambda { |env|
      call = lambda do |stream|
        stream.write("one")
        stream.close
      end
      [200, {}, Ends.body(env, call: call)]
    },
    "call-leaves-open" => ->(env) { [200, {}, Ends.body(env, call: ->(stream) { stream.write("one") })] },
    "call-without-bytes" => ->(env) { [200, {}, Ends.body(env, call: ->(stream) { stream.close })] },
    "204" => ->(env) { [204, {}, Ends.pieces(env, "one")] },
    "304" => ->(env) { [304, {}, Ends.body(env, call: ->(_stream) {})] },
    # A response that cannot be sent, or not to its end.
    "status" => ->(env) { ["fine", {}, Ends.pieces(env, "one")] },
    "headers" => ->(env) { [200, { "x" => "a\r\nb" }, Ends.pieces(env, "one")] },
    "unframed" => ->(env) { [200, { "transfer-encoding" => "chunked" }, Ends.pieces(env, "one")] },
    "short" => ->(env) { [200, { "content-length" => "9" }, Ends.pieces(env, "one")] },
    "long" => ->(env) { [200, { "content-length" => "4" }, Ends.pieces(env, "one", "two")] },
    # The body fails.
    "each-raises-first" => ->(env) { [200, {}, Ends.pieces(env) { raise "first" }] },
    "each-raises-later" => ->(env) { [200, {}, Ends.pieces(env, "one") { raise "later" }] },
    "piece-raises" => ->(env) { [200, {}, Ends.pieces(env, Ends.body(env, to_s: -> { raise "piece" }, close: -> {}))] },
    "call-raises-first" => ->(env) { [200, {}, Ends.body(env, call: ->(_stream) { raise "first" })] },
    "call-raises-later" => lambda { |env|
      call = lambda do |stream|
        stream.write("one")
        raise "later"
      end
      [200, {}, Ends.body(env, call: call)]
    },
    "close-raises" => lambda { |env|
      close = lambda do
        Ends.note(env, "close")
        raise "in close"
      end
      [200, {}, Ends.body(env, each: ->(&take) { take.call("one") }, close: close)]
    },
    "throw" => ->(env) { [200, {}, Ends.pieces(env, "one") { throw :nowhere }] },
    "kill" => ->(env) { [200, {}, Ends.pieces(env, "one") { Thread.current.kill }] },
    "exit" => ->(env) { [200, {}, Ends.pieces(env, "one") { exit(3) }] },
    "late-first" => ->(env) { [200, {}, Ends.pieces(env) { Ends.sleep_too_long(env) }] },
    "late" => ->(env) { [200, {}, Ends.pieces(env, "one") { Ends.sleep_too_long(env) }] },
    # The client of this request reads the beginning of the response and goes.
    "gone" => ->(env) { [200, {}, Ends.pieces(env) { |take| loop { take.call("x" * 65_536) } }] },
    "gone-from-call" => ->(env) { [200, {}, Ends.body(env, call: ->(stream) { loop { stream.write("x" * 65_536) } })] },
    # The app takes the socket.
    "hijack" => lambda { |env|
      env["rack.hijack"].call.close
      [200, {}, Ends.pieces(env, "never sent")]
    },
    "hijack-in-each" => ->(env) { [200, {}, Ends.pieces(env) { |_take| env["rack.hijack"].call.close }] },
    "partial" => lambda { |env|
      [200, { "rack.hijack" => ->(io) { io.close } }, Ends.pieces(env, "never sent")]
    },
    "partial-raises" => lambda { |env|
      [200, { "rack.hijack" => ->(_io) { raise "partial" } }, Ends.pieces(env, "never sent")]
    },
    "partial-204" => ->(env) { [204, { "rack.hijack" => ->(io) { io.close } }, Ends.pieces(env, "never sent")] },
    # Without a response, there is no body either.
    "app-raises" => ->(_env) { raise "app" },
    "app-throws" => ->(_env) { throw :nowhere },
    "app-kills" => ->(_env) { Thread.current.kill },
    "app-exits" => ->(_env) { exit(3) },
    "app-late" => ->(env) { Ends.sleep_too_long(env) },
    "app-raises-after-hijack" => lambda { |env|
      env["rack.hijack"].call.close
      raise "app"
    },
    "nil" => ->(_env) {}
  }.freeze

  def call(env)
    name = env["PATH_INFO"].delete_prefix("/")
    return [200, {}, ["probe"]] if name.empty?

    env["rack.response_finished"] << ->(*) { Ends.note(env, "finished") }
    env["rack.after_reply"] << -> { Ends.note(env, "reply") }
    ENDS.fetch(name).call(env)
  end
end

if ENV["HANDLER"]
  EXTRAS[:error_handler] = lambda do |_error, env, status|
    [status, {}, Ends.body(env, each: ->(&take) { take.call("sorry") }, close: -> { Ends.note(env, "handled") })]
  end
end

use Rack::Lock
use Ends::Store
run Ends
