# frozen_string_literal: true

# Sockets that an app takes over, messages before a response, and work after it.
module Probe
  on "/hijack/full" do |env|
    io = env["rack.hijack"].call
    io.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nhijacked")
    io.close
    note(env, "closed")
    [500, {}, ["the server must not look at this"]]
  end

  on "/hijack/class" do |env|
    io = env["rack.hijack"].call
    same = RACK3 || env["rack.hijack_io"].equal?(io) || env["rack.hijack_io"].respond_to?(:read)
    answer = "#{io.class} #{io.is_a?(IO)} #{same} #{io.respond_to?(:read_nonblock)} #{env['rack.hijack?']}"
    io.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n#{answer}")
    io.close
    [200, {}, []]
  end

  # Speaks with the client from a thread when the request has long been over, as Action Cable does.
  on "/hijack/echo" do |env|
    io = env["rack.hijack"].call
    Thread.new do
      io.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
      while (line = io.gets)
        io.write(line.upcase)
      end
      note(env, "ended")
    ensure
      io.close
    end
    [200, {}, []]
  end

  on "/hijack/partial" do |env|
    talk = proc do |io|
      io.write("from the hijacker")
      io.flush
      io.close
      note(env, "closed")
    end
    [200, { "content-type" => "text/plain", "rack.hijack" => talk }, Body.new(env, ["never sent"])]
  end

  on "/hijack/partial-raises" do |env|
    talk = proc do |io|
      io.write("half of it")
      raise "raised in the hijacker"
    end
    [200, { "content-type" => "text/plain", "rack.hijack" => talk }, Body.new(env, ["never sent"])]
  end

  on "/hijack/partial-echo" do |_env|
    talk = proc do |io|
      Thread.new do
        while (line = io.read(5))
          io.write(line.upcase)
          io.flush
        end
        io.close
      end
    end
    [101, { "upgrade" => "echo", "connection" => "Upgrade", "rack.hijack" => talk }, []]
  end

  on "/hijack/raises" do |env|
    env["rack.hijack"].call.close
    raise "raised after the hijack"
  end

  on "/hijack/raises-open" do |env|
    env["rack.hijack"].call.write("half")
    raise "raised after the hijack"
  end

  on "/hijack/protocol" do |env|
    talk = proc do |io|
      io.write("speaking #{env['rack.protocol'].inspect}")
      io.close
    end
    [101, { "rack.protocol" => "echo", "rack.hijack" => talk }, []]
  end

  on "/protocol/stream" do |env|
    body = StreamBody.new(env) do |stream|
      stream.write("speaking #{env['rack.protocol'].first}")
      stream.close
    end
    [101, { "rack.protocol" => env["rack.protocol"].first }, body]
  end

  on "/protocol/stream-raises" do |env|
    [101, { "upgrade" => "echo", "connection" => "upgrade" }, StreamBody.new(env) { raise "raised in another protocol" }]
  end

  on("/protocol") { |env| text(env["rack.protocol"].inspect) }

  # ---- Early hints ---------------------------------------------------------------------------------------------------

  on "/hints" do |env|
    env["rack.early_hints"].call({ "link" => "</style.css>; rel=preload" })
    env["rack.early_hints"].call({ "link" => RACK3 ? %w[</a> </b>] : "</a>\n</b>" })
    text("hinted")
  end

  on "/hints/bad" do |env|
    message = begin
      env["rack.early_hints"].call({ "link" => "a\r\nInjected: yes" })
      "taken"
    rescue StandardError => e
      "refused: #{e.class}"
    end
    text(message)
  end

  on "/hints/odd" do |env|
    text([{ "a b" => "x" }, 5, nil, { 5 => "x" }].map { |headers| env["rack.early_hints"].call(headers).inspect }.join(" "))
  end

  on "/hints/forked" do |env|
    pid = fork { exit!(env["rack.early_hints"].call({ "link" => "x" }).nil?) }
    text(Process.wait2(pid).last.exitstatus.to_s)
  end

  on "/hints/hijacked" do |env|
    io = env["rack.hijack"].call
    result = env["rack.early_hints"].call({ "link" => "x" })
    io.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n#{result.inspect}")
    io.close
    [200, {}, []]
  end

  on "/hints/late" do |env|
    hints = env["rack.early_hints"]
    body = Enumerator.new do |pieces|
      pieces << "one"
      message = begin
        hints.call({ "link" => "late" })
        "taken"
      rescue StandardError => e
        e.class.name
      end
      pieces << message
    end
    [200, {}, body]
  end

  # ---- After the response --------------------------------------------------------------------------------------------

  def self.finished(env, name)
    lambda do |*arguments|
      kinds = arguments.map { |argument| argument.nil? ? "nil" : argument.class }
      same = arguments[0].equal?(env)
      note(env, "finished #{name} #{kinds.join(' ')} #{same} #{arguments[1].inspect} #{arguments[3]&.message.inspect}")
    end
  end

  on "/finished" do |env|
    env["rack.response_finished"] << finished(env, "first") << finished(env, "second")
    [200, { "x-one" => "1" }, Body.new(env, %w[one two])]
  end

  on "/finished/raise" do |env|
    env["rack.response_finished"] << finished(env, "only")
    raise "raised with a callback"
  end

  on "/finished/body-raises" do |env|
    env["rack.response_finished"] << finished(env, "only")
    [200, {}, RaisingBody.new(env, [])]
  end

  on "/finished/callback-raises" do |env|
    env["rack.response_finished"] << finished(env, "first") << ->(*) { raise "raised in a callback" } << finished(env, "last")
    text("fine")
  end

  on "/finished/stream" do |env|
    env["rack.response_finished"] << finished(env, "only")
    [200, {}, StreamBody.new(env) do |stream|
      stream.write("streamed")
      stream.close
    end]
  end

  on "/after_reply" do |env|
    env["rack.after_reply"] << -> { note(env, "first") } << -> { note(env, "second") }
    text("replied")
  end

  on "/after_reply/waits" do |env|
    gate = File.join(ENV.fetch("TEST_DIRECTORY"), parameter(env, "id"))
    env["rack.after_reply"] << lambda do
      note(env, "begun")
      sleep 0.005 until File.exist?(gate)
      note(env, "ended")
    end
    text("replied")
  end

  on "/after_reply/raises" do |env|
    env["rack.after_reply"] << -> { raise "raised after the reply" } << -> { note(env, "second") }
    text("replied")
  end
end
