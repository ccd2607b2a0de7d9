# frozen_string_literal: true

# An app that forks wherever the server calls it, and whose child processes end in many ways: GET /PLACE/DEED. It notes how the
# child processes have ended.

require "uri"

module Children
  DEEDS = {
    "raise" => -> { raise "raised in the child" },
    "exec" => -> { exec("/nonexistent/program") },
    "abort" => -> { abort("aborted in the child") },
    "exit" => -> { exit(4) },
    "exit-now" => -> { exit!(5) },
    "nothing" => -> {}
  }.freeze

  module_function

  def note(env, event)
    id = URI.decode_www_form(env["QUERY_STRING"]).to_h["id"]
    File.open(ENV.fetch("PROBE_EVENTS"), "a") { |file| file.syswrite("#{id} #{event}\n") }
  end

  def perform(env, deed)
    pid = fork
    if pid
      note(env, "status #{Process.wait2(pid).last.exitstatus}")
    else
      at_exit { note(env, "at_exit") }
      deed.call
    end
    "fine"
  end

  def body(**methods)
    Object.new.tap { |body| methods.each { |name, method| body.define_singleton_method(name, &method) } }
  end

  PLACES = {
    "call" => ->(env, deed) { [200, {}, [Children.perform(env, deed)]] },
    "each" => ->(env, deed) { [200, {}, Children.body(each: ->(&take) { take.call(Children.perform(env, deed)) })] },
    "close" => lambda { |env, deed|
      [200, {}, Children.body(each: ->(&take) { take.call("fine") }, close: -> { Children.perform(env, deed) })]
    },
    "stream" => lambda { |env, deed|
      call = lambda do |stream|
        stream.write(Children.perform(env, deed))
        stream.close
      end
      [200, {}, Children.body(call: call)]
    },
    "hijack" => lambda { |env, deed|
      heir = lambda do |io|
        io.write(Children.perform(env, deed))
        io.close
      end
      [200, { "rack.hijack" => heir }, []]
    },
    "after_reply" => lambda { |env, deed|
      env["rack.after_reply"] << -> { Children.perform(env, deed) }
      [200, {}, ["fine"]]
    }
  }.freeze

  def call(env)
    place, deed = env["PATH_INFO"].split("/").last(2)
    return [200, {}, [Process.pid.to_s]] unless PLACES.key?(place)

    PLACES[place].call(env, DEEDS.fetch(deed))
  end
end

run Children
