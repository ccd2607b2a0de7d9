# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# The extension under a garbage collector that runs as often as possible, and moves objects.
class GcTest < Minitest::Test
  # The probe without Lint, whose garbage would be most of the collected one. `setting` is done in each worker.
  def self.app(setting)
    <<~RUBY
      require "#{__dir__}/support/probe/probe"
      require "#{__dir__}/support/moving"
      HOOKS[:after_fork] << ->(*) { #{setting} }
      run Probe
    RUBY
  end

  # 1: young objects only, which is fast; true: everything, at every allocation.
  YOUNG = "GC.stress = 1"
  EVERYTHING = "GC.stress = true"
  MOVING = "GC.auto_compact = true"

  CONTENT = "line one\nline two\n" * 40

  # Questions and their answers; nil accepts any answer.
  FEW = [
    [%w[GET /bodies/array], "one two three"], [%w[GET /bodies/each?id=1], "onetwothree"], [%w[GET /fields/lines], ""],
    [%w[GET /stream/length], "hello"], [["POST", "/input/read", CONTENT], CONTENT], [%w[GET /raise/throw], nil]
  ].freeze
  ALL = [
    *FEW, [%w[GET /bodies/to_ary], "onetwo"], [%w[GET /bodies/values], "ContentAgain0"],
    [%w[GET /bodies/many?count=40], Array.new(40) { |number| "#{number} " }.join],
    [%w[GET /stream/write], "one two three [4, true]"], [%w[GET /stream/thread], "piece 0 piece 1 piece 2 "],
    [%w[GET /files/sized?bytes=5], "\x00\x01\x02\x03\x04"], [["POST", "/input/each", "a\nb"], '["a\n", "b"]'],
    [["POST", "/input/late", CONTENT], "li|#{CONTENT[2..]}"], [%w[GET /fields/array], ""], [%w[GET /fields/symbols], ""],
    [%w[GET /fields/pairs], ""], [%w[GET /fields/many], ""], [%w[GET /keep?one], nil], [%w[GET /spoil?x], "spoiled"],
    [%w[GET /hints], "hinted"], [%w[GET /hints/bad], nil], [%w[GET /after_reply], "replied"], [%w[GET /raise], nil],
    [%w[GET /raise/odd], nil], [%w[GET /garbage?kind=headers-nil], nil], [%w[GET /garbage?kind=body-object], nil],
    [%w[GET /garbage?kind=header-name-space], nil], [%w[GET /bodies/raises-at-once], nil], [%w[GET /method], "GET"]
  ].freeze
  MOVED = [
    [%w[GET /move/array], "s1moveds2moveds3"], [%w[GET /move/each], "s0s1s2"],
    [["POST", "/move/input", "abcdef\nrest"], "abc|def\n|rest"],
    [%w[GET /move/hints], "hinted"], [%w[GET /move/env?q], "GET /move/env q example.org"],
    [%w[GET /move/stream], "s0moveds0s1moveds1s2moveds2"]
  ].freeze

  def ask(connection, words)
    method, target, content = words
    connection.send_request(method, target, { "X-Number" => "5", "Cookie" => "a=1", "X-Odd-#{target.hash}" => "1" }, content)
    connection.final_response(method)
  end

  def ask_for(server, requests)
    connection = server.connection
    requests.each do |words, expected|
      response = ask(connection, words)
      assert_equal expected, response.body, words.inspect if expected
      connection = server.connection if response["Connection"] == "close"
    end
    server.close_connections
  end

  def hijack(server)
    %w[/hijack/full /hijack/partial].each do |target|
      connection = server.connection
      connection.send_request("GET", target)
      assert_match(/hijack/, connection.rest)
    end
  end

  def serve(setting, **settings)
    settings = { workers: 1, log_level: "error", **settings }
    TestServer.open(app: GcTest.app(setting), settings: settings, extras: { environment: "development" }) do |server|
      before = server.wait_for_workers(1)
      yield server
      assert_equal before, server.workers, "the worker must have survived:\n#{server.log[/.*\[BUG\].*/m]}"
    end
  end

  def test_young_objects_at_every_allocation
    [1, 4].each do |threads|
      serve(YOUNG, threads: threads) do |server|
        2.times { ask_for(server, ALL) }
        hijack(server)
      end
    end
  end

  def test_all_objects_at_every_allocation
    serve(EVERYTHING) { |server| ask_for(server, FEW.values_at(1, 2, 4)) }
  end

  def test_several_requests_at_once
    serve(YOUNG, threads: 4) do |server|
      connections = Array.new(8) { server.connection }
      connections.each { |connection| connection.send_request("POST", "/input/read", {}, CONTENT) }
      assert_equal [CONTENT], connections.map { |connection| connection.response.body }.uniq
    end
  end

  def test_objects_that_move_while_they_are_sent
    [1, 4].each do |threads|
      serve(MOVING, threads: threads) do |server|
        ask_for(server, MOVED)
        response = server.get("/move/headers")
        expected = (1..30).map { |number| number % 10 == 5 ? "moved" : "s#{number}" }
        assert_equal(expected, (1..30).map { |number| response["X-#{number}"] })
        assert_equal %w[s1 moved s2], response.all("X-List")
      end
    end
  end

  def test_objects_that_move_between_requests
    serve(MOVING) do |server|
      2.times do
        assert_equal "moved", server.get("/move").body
        ask_for(server, ALL)
      end
      hijack(server)
    end
  end
end
