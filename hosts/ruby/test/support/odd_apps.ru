# frozen_string_literal: true

# An app that does something odd (a deed) wherever the server calls it or asks for a string: GET /PLACE/DEED. Any other path is
# answered with the process ID.

module OddApps
  TEXT = { "content-type" => "text/plain" }.freeze
  NAMES = { to_s: "a string", to_str: "a string", to_path: __FILE__, to_ary: ["an array"], to_i: 200, to_int: 200 }.freeze

  # The actions, with access to the response's parts and the client's environment.
  DEEDS = {
    "raise" => ->(*) { raise "odd" },
    "raise-exception" => ->(*) { raise Class.new(Exception), "odd" }, # rubocop:disable Lint/InheritException -- that is odd
    "throw" => ->(*) { throw :nobody },
    "kill" => ->(*) { Thread.current.kill },
    "kill-from-outside" => lambda { |*|
      victim = Thread.current
      Thread.new { victim.kill }.join
      # Ruby does not kill a thread twice.
      sleep unless victim.status == "aborting"
    },
    "exit" => ->(*) { exit(3) },
    "abort" => ->(*) { abort("odd") },
    "exit-now" => ->(*) { exit!(3) },
    "fork-and-exit" => lambda { |*|
      [-> { exit!(0) }, -> { exit(0) }, -> { raise "in the child" }].each { |ending| Process.wait(fork(&ending)) }
    },
    "fork-and-return" => ->(*) { fork&.then { |pid| Process.wait(pid) } },
    "clear" => lambda { |parts, env|
      [*parts, env].each { |part| part.clear if part.respond_to?(:clear) && !part.frozen? }
      GC.start
      GC.compact if GC.respond_to?(:compact)
    },
    "grow" => lambda { |parts, env|
      env["odd"] = "x" * 10_000
      parts.each { |part| part << ("x" * 10_000) if part.is_a?(String) && !part.frozen? }
      GC.start
    },
    "absurd" => ->(*) { :instead_of_a_result }
  }.freeze

  # An object whose methods perform the action and then return a proper value.
  def self.object(*names, **procs, &deed)
    Object.new.tap do |object|
      names.each { |name| object.define_singleton_method(name) { |*| deed.call || NAMES.fetch(name) } }
      procs.each { |name, body| object.define_singleton_method(name, &body) }
    end
  end

  # The places at which a deed is done: each is an app whose response makes the server call `act`. `act` returns nil, or the
  # value to return in place of a proper one.
  PLACES = {
    "call" => lambda { |_env, act|
      act.call([]) || [200, TEXT.dup, ["fine"]]
    },
    "status" => ->(_env, act) { [OddApps.object(:to_i, :to_int) { act.call([]) }, TEXT.dup, ["fine"]] },
    "headers-each" => lambda { |_env, act|
      headers = OddApps.object(each: ->(&take) { act.call([]) || take.call(*TEXT.first) })
      [200, headers, ["fine"]]
    },
    "header-value" => lambda { |_env, act|
      headers = TEXT.dup
      headers["x-odd"] = OddApps.object(:to_s, :to_str) { act.call([headers]) }
      [200, headers, ["fine"]]
    },
    "piece" => lambda { |_env, act|
      body = [+"fine"]
      body << OddApps.object(:to_s, :to_str) { act.call([*body.grep(String), body]) }
      [200, TEXT.dup, body]
    },
    "compare" => lambda { |_env, act|
      piece = Class.new(String) { define_method(:<=>) { |other| act.call([]) || super(other) } }.new("fine")
      piece.define_singleton_method(:==) { |other| act.call([]) || super(other) }
      [200, TEXT.dup, [piece]]
    },
    "each-first" => ->(_env, act) { [200, TEXT.dup, OddApps.object(each: ->(&take) { act.call([]) || take.call("fine") })] },
    "each" => lambda { |_env, act|
      each = lambda do |&take|
        piece = +"fine"
        take.call(piece)
        take.call(act.call([piece]) || "fine")
      end
      [200, TEXT.dup, OddApps.object(each: each)]
    },
    "to-path" => lambda { |_env, act|
      [200, TEXT.dup, OddApps.object(each: ->(&take) { take.call("fine") }, to_path: -> { act.call([]) || __FILE__ })]
    },
    "to-ary" => lambda { |_env, act|
      [200, TEXT.dup, OddApps.object(each: ->(&take) { take.call("fine") }, to_ary: -> { act.call([]) || ["fine"] })]
    },
    "close" => lambda { |_env, act|
      [200, TEXT.dup, OddApps.object(each: ->(&take) { take.call("fine") }, close: -> { act.call([]) })]
    },
    "respond-to" => lambda { |_env, act|
      responds = ->(*) { act.call([]) && false }
      [200, TEXT.dup, OddApps.object(each: ->(&take) { take.call("fine") }, respond_to_missing?: responds)]
    },
    "stream" => lambda { |_env, act|
      body = lambda do |stream|
        stream.write("fine")
        act.call([])
        stream.close
      end
      [200, TEXT.dup, body]
    },
    "stream-closed" => lambda { |_env, act|
      body = lambda do |stream|
        stream.write("fine")
        stream.close
        act.call([])
      end
      [200, TEXT.dup, body]
    },
    "hijack" => lambda { |env, act|
      io = env["rack.hijack"].call
      begin
        io.write("HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nfine")
        act.call([])
      ensure
        io.close
      end
      [200, TEXT.dup, ["ignored"]]
    },
    "partial-hijack" => lambda { |_env, act|
      heir = lambda do |io|
        io.write("fine")
        act.call([])
      ensure
        io.close
      end
      [200, TEXT.merge("connection" => "close", "rack.hijack" => heir), []]
    },
    "finished" => lambda { |env, act|
      env["rack.response_finished"]&.push(->(*) { act.call([]) })
      [200, TEXT.dup, ["fine"]]
    },
    "after-reply" => lambda { |env, act|
      env["rack.after_reply"]&.push(-> { act.call([]) })
      [200, TEXT.dup, ["fine"]]
    },
    "input" => lambda { |env, act|
      env["rack.input"].read(OddApps.object(:to_int) { act.call([]) || 3 }, +"")
      [200, TEXT.dup, ["fine"]]
    },
    "input-lines" => lambda { |env, act|
      env["rack.input"].each { |line| act.call([line]) }
      [200, TEXT.dup, ["fine"]]
    },
    "errors" => lambda { |env, act|
      env["rack.errors"].write(OddApps.object(:to_s) { act.call([]) })
      [200, TEXT.dup, ["fine"]]
    },
    "early-hints" => lambda { |env, act|
      env["rack.early_hints"]&.call("link" => OddApps.object(:to_s, :to_str) { act.call([]) })
      [200, TEXT.dup, ["fine"]]
    }
  }.freeze

  def self.call(env)
    _, place, name = env["PATH_INFO"].split("/")
    return [200, TEXT.dup, PLACES.keys.product(DEEDS.keys).map { |pair| "#{pair.join("/")}\n" }] if place == "list"
    return [200, TEXT.dup, [Process.pid.to_s]] unless name

    deed = DEEDS.fetch(name)
    PLACES.fetch(place).call(env, lambda { |parts|
      result = deed.call(parts, env)
      result if result == :instead_of_a_result
    })
  end
end

run OddApps
