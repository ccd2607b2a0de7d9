# frozen_string_literal: true

require_relative "native_server"
require "timeout"

class NativeFailureTest < Minitest::Test
  Unprintable = Class.new(StandardError) do
    def message = raise("no message")
    def full_message(**) = raise("no message")
  end

  FAILURES = {
    "a RuntimeError" => [-> { raise "went wrong" }, /went wrong \(RuntimeError\).*native_failure_test/],
    "a ScriptError" => [-> { raise NotImplementedError, "later" }, /later \(NotImplementedError\)/],
    "a throw" => [-> { throw :nowhere }, /uncaught throw :nowhere/],
    "an interrupt" => [-> { raise Interrupt }, /Interrupt/],
    "no memory" => [-> { "x" * (2**62) }, /argument too big|failed to allocate memory/],
    "a stack that is too deep" => [-> { (deep = ->(x) { deep.call(x) + 1 }).call(0) }, /stack level too deep/],
    "a timeout" => [-> { Timeout.timeout(0.01) { sleep } }, /Timeout::Error|execution expired/],
    "an exception without words" => [-> { raise Unprintable }, /an exception of class NativeFailureTest::Unprintable/],
    "nil" => [-> {}, /the app must return an Array of status, headers and body, not nil/],
    "too few elements" => [-> { [200, {}] }, /an Array of 3 elements, not of 2/],
    "no status" => [-> { [nil, {}, []] }, /status must be a number from 200 to 999, or 101, not nil/],
    "a status that is no number" => [-> { ["ok", {}, []] }, /not the String "ok"/],
    "a status that HTTP does not have" => [-> { [1000, {}, []] }, /status must be a number from 200 to 999, or 101, not 1000/],
    "a status that is not final" => [-> { [150, {}, []] }, /status must be a number from 200 to 999, or 101, not 150/],
    "no headers" => [-> { [200, nil, []] }, /headers must be a Hash, not nil/],
    "a name that is no text" => [-> { [200, { 5 => "x" }, []] }, /a header's name must be a String, not 5/],
    "a name with a space" => [-> { [200, { "x y" => "z" }, []] }, /header "x y", value "z"/],
    "a value with a return" => [-> { [200, { "x" => "a\rb" }, []] }, /header "x", value "a\\x0Db"/],
    "a body that is text" => [-> { [200, {}, "text"] }, /the body must respond to each or call; it is the String "text"/],
    "no body" => [-> { [200, {}, nil] }, /the body must respond to each or call; it is nil/]
  }.freeze

  # Answers with the failure whose number is in the path; without a number, with the process ID.
  APP = lambda do |env|
    number = env["PATH_INFO"][/\d+/]
    number ? FAILURES.values[number.to_i].first.call : [200, {}, [Process.pid.to_s]]
  end

  [1, 3].each do |threads|
    FAILURES.each_with_index do |(name, (_, words)), number|
      define_method(:"test_#{name.tr(" ", "_")}_with_#{threads}_threads") do
        NativeServer.open(APP, settings: { threads: threads }) do |server|
          before = server.get("/").content
          response = server.get("/#{number}?secret")
          assert_equal 500, response.status
          assert_equal "Internal Server Error\n", response.content
          server.wait_for_log(words)
          assert_match(%r{GET /#{number}: }, server.log)
          refute_match(/secret/, server.log)
          assert_equal before, server.get("/").content, "the worker lives on"
        end
      end
    end

    define_method(:"test_exit_replaces_the_worker_with_#{threads}_threads") do
      app = ->(env) { env["PATH_INFO"] == "/exit" ? exit(3) : [200, {}, [Process.pid.to_s]] }
      NativeServer.open(app, settings: { threads: threads }) do |server|
        before = server.get("/").content
        assert_equal 500, server.get("/exit").status
        server.wait_for_log(/exit\(3\) was called/)
        server.wait_until("another worker") { server.get("/").content != before }
      end
    end

    define_method(:"test_a_killed_thread_answers_500_with_#{threads}_threads") do
      app = ->(env) { env["PATH_INFO"] == "/kill" ? Thread.current.kill : [200, {}, ["alive"]] }
      NativeServer.open(app, settings: { threads: threads }) do |server|
        4.times { assert_equal 500, server.get("/kill").status }
        assert_equal "alive", server.get("/").content
      end
    end
  end

  def test_the_page_in_development
    app = ->(_) { raise "<script>&'\"" }
    NativeServer.open(app, environment: "development") do |server|
      response = server.get("/a?b=<i>")
      assert_equal [500, "text/html; charset=utf-8"], [response.status, response["content-type"]]
      assert_includes response.content, "&lt;script&gt;&amp;&#39;&quot;"
      assert_includes response.content, "native_failure_test.rb"
      refute_includes response.content, "<script>"
      refute_includes response.content, "<i>"
    end
  end

  def test_the_error_handler_answers
    handler = ->(error, env, status) { [status + 3, { "x-error" => error.message }, [env["PATH_INFO"]]] }
    NativeServer.open(->(_) { raise "wrong" }, error_handler: handler) do |server|
      response = server.get("/path")
      assert_equal [503, "wrong", "/path"], [response.status, response["x-error"], response.content]
      server.wait_for_log(/wrong/)
    end
  end

  def test_an_error_handler_that_fails_too
    handlers = [->(*) { raise "handler" }, ->(*) {}, ->(*) { [200, {}, Object.new] }]
    handlers.each do |handler|
      NativeServer.open(->(_) { raise "wrong" }, error_handler: handler) do |server|
        assert_equal 500, server.get("/").status
        server.wait_for_log(/the error handler failed/)
      end
    end
  end

  def test_settings
    settings = Oribi::Settings.new
    assert_nil settings.set("workers", "2", "here")
    assert_match(/worker/, settings.set("wokers", "2", "here"))
    assert_match(/many/, assert_raises(Oribi::SettingError) { settings.set("workers", "many", "here") }.message)
    assert_raises(ArgumentError) { settings.set("work\0ers", "2", "here") }
  end

  def test_serve_refuses_what_it_cannot_serve
    assert_raises(ArgumentError) { Oribi.serve(nil, Oribi::Settings.new) }
    assert_raises(TypeError) { Oribi.serve(APP, nil) }
    assert_raises(ArgumentError) { Oribi.log(:loud, "x") }
    assert_match(/\A\d+\.\d+\.\d+\z/, Oribi.version)
  end
end
