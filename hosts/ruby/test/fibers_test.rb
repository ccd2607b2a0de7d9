# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# Requests that wait in fibers, many at a time in one worker.
class FibersTest < Minitest::Test
  APP = File.join(__dir__, "support/fibers.ru")

  # Whether the app has loaded the gem async, whose scheduler then runs the fibers (ORIBI_TEST_ASYNC=on).
  ASYNC = ENV["ORIBI_TEST_ASYNC"] == "on"

  def serve(fibers: 100, **settings, &block)
    TestServer.open(app: APP, settings: { fibers: fibers, **settings }, ruby: ASYNC ? ["-rasync"] : [], &block)
  end

  # Sends a request on a connection of its own, and does not wait for the answer.
  def ask(server, target)
    server.connection.tap { |connection| connection.send_request("GET", target) }
  end

  def bodies(connections)
    connections.map { |connection| connection.final_response.body }
  end

  def wait_for_open(server, name, count)
    Waiting.wait_until(-> { "#{count} in #{name}; the log says:\n#{server.log}" }) do
      server.get("/open/#{name}").body == count.to_s
    end
  end

  def test_a_thousand_requests_wait_at_once_in_one_worker
    serve(fibers: 1000) do |server|
      waiting = Array.new(999) { ask(server, "/together/1000") }
      assert_equal "20000100000", server.get("/compute").body
      waiting << ask(server, "/together/1000")
      assert_equal ["together"], bodies(waiting).uniq
      assert_equal "1000", server.get("/most/together").body
    end
  end

  def test_no_more_requests_are_begun_than_there_may_be_fibers
    serve(fibers: 4) do |server|
      assert_equal ["napped"] * 20, bodies(Array.new(20) { ask(server, "/nap") })
      assert_equal "4", server.get("/most/nap").body
    end
  end

  # The only fiber of one of the workers waits for ever.
  def test_a_second_worker_takes_what_waits
    serve(fibers: 1, workers: 2, edge: "on") do |server|
      server.wait_for_workers(2)
      endless = ask(server, "/endless")
      nil until endless.take_line == "first\n"
      assert_equal 1, Array.new(20) { server.get("/process").body }.uniq.size
      endless.reset
    end
  end

  def test_the_first_request_of_a_worker_may_wait
    serve(boot_request: "/sleep/0.05") { |server| assert_equal "slept", server.get("/sleep/0.05").body }
  end

  def test_rackup_takes_the_option
    TestServer.open(app: APP, by: :rackup, arguments: ["-O", "Fibers=10", "-O", "Workers=1"]) do |server|
      assert_equal "true false", server.get("/main").body
    end
  end

  def test_fibers_wait_in_many_ways
    serve do |server|
      {
        "/child" => '["out", false, 3]', "/open3" => "in err\n", "/thread" => "from a thread", "/fork" => "3",
        "/fork-return" => "parent", "/fork-mutex" => '[0, "unlocked"]', "/timeout" => "over", "/timeout-twice" => "in time",
        "/enumerator" => "012", "/select" => "1", "/condition" => "twice",
        "/wait-in-vain" => "nil", "/both-ways" => "1000000", "/main" => "true false", "/multithread" => "false"
      }.each { |target, expected| assert_equal expected, server.get(target).body, "#{target}: #{server.log}" }
      assert_match(ASYNC ? /NaN/ : /\ANaN out of Time range\z/, server.get("/timeout-nan").body)
      20.times { assert_equal "nil", server.get("/fiber-local").body }
    end
  end

  def test_an_enumerator_waits_in_its_fiber
    serve do |server|
      waiting = Array.new(3) { |number| ask(server, "/enumerator-pass/#{number}") }
      6.times { |number| assert_equal "let", server.get("/let/#{number % 3}").body }
      assert_equal ['["passed", "passed", [1, 2], [1, 2], "result", "passed"]'], bodies(waiting).uniq
      assert_equal "[2, 3]", server.get("/enumerator-of-the-app").body
      assert_equal "[4, 5]", server.get("/enumerator-of-the-app").body
    end
  end

  def test_fibers_wake_one_another
    serve do |server|
      passing = Array.new(50) { |number| ask(server, "/pass/#{number}") }
      wait_for_open(server, "pass", 50)
      50.times { |number| assert_equal "let", server.get("/let/#{number}").body }
      assert_equal ["passed"], bodies(passing).uniq
      assert_equal (1..20).map(&:to_s), bodies(Array.new(20) { ask(server, "/mutex") }).sort_by(&:to_i)
    end
  end

  # The upstream server answers only when all its clients are there.
  def test_fibers_fetch_from_a_slow_server
    upstream = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new do
      clients = Array.new(20) { upstream.accept }
      clients.each do |client|
        nil until client.gets == "\r\n"
        client.write("HTTP/1.0 200 OK\r\n\r\nfetched")
        client.close
      end
    end
    serve do |server|
      fetching = Array.new(20) { ask(server, "/fetch/#{upstream.addr[1]}") }
      assert_equal ["fetched"], bodies(fetching).uniq, server.log
    end
  ensure
    thread&.kill
    upstream&.close
  end

  def test_bodies_wait_between_their_pieces
    serve do |server|
      answers = { "/stream/10" => "0123456789", "/each/10" => "0123456789", "/unclosed" => "unclosed" }
      asked = answers.keys.to_h { |target| [target, Array.new(10) { ask(server, target) }] }
      answers.each { |target, body| assert_equal [body], bodies(asked[target]).uniq, target }
    end
  end

  def test_other_fibers_go_on_with_a_stream
    serve { |server| assert_equal ["later"] * 10, bodies(Array.new(10) { ask(server, "/later") }) }
  end

  def test_a_slow_client_pauses_its_own_fiber_only
    serve do |server|
      %w[/flood/800 /each-flood/800 /aside/800].each do |target|
        slow = ask(server, target)
        assert_equal 20 * 65_536, server.get("/flood/20").body.bytesize
        assert_equal 800 * 65_536, slow.final_response.body.bytesize, target
      end
    end
  end

  def test_large_content_is_read_after_a_wait
    serve do |server|
      content = "abc" * 400_000
      uploads = Array.new(5) do
        server.connection.tap { |connection| connection.send_request("POST", "/upload", {}, content) }
      end
      small = server.connection.tap { |connection| connection.send_request("POST", "/upload", {}, "abc") }
      assert_equal ["1200000 #{content.sum}"], bodies(uploads).uniq
      assert_equal "3 294", small.final_response.body
    end
  end

  def test_a_hijacked_socket_is_waited_for
    skip_over_http2
    serve do |server|
      sockets = Array.new(5) { ask(server, "/hijack") }
      assert_equal "slept", server.get("/sleep/0.01").body
      sockets.each do |connection|
        nil until connection.take_line == "\r\n"
        connection.write("hello\n")
        assert_equal "HELLO\n", connection.take_line
        connection.close
      end
      wait_for_open(server, "hijack", 0)
    end
  end

  def test_a_stream_whose_client_has_gone_ends
    skip "tasks are stopped, see xt/async_test.rb" if ASYNC
    serve do |server|
      clients = Array.new(3) { ask(server, "/endless") }
      clients << ask(server, "/each-endless")
      wait_for_open(server, "endless", 3)
      wait_for_open(server, "each-endless", 1)
      clients.each(&:reset)
      assert_equal %w[gone] * 3, server.wait_for_events("endless", 3)
      server.wait_for_events("each", 1)
      wait_for_open(server, "endless", 0)
      refute_match(/EPIPE/, server.log)
    end
  end

  def test_a_request_whose_client_has_gone_goes_on_until_it_answers
    serve do |server|
      client = ask(server, "/pass/a")
      wait_for_open(server, "pass", 1)
      client.reset
      assert_equal "slept", server.get("/sleep/0.05").body
      assert_equal "1", server.get("/open/pass").body
      server.get("/let/a")
      wait_for_open(server, "pass", 0)
    end
  end

  def test_a_failure_is_that_of_one_request
    serve do |server|
      others = Array.new(5) { ask(server, "/sleep/0.1") }
      %w[/raise /throw].each { |target| assert_equal 500, server.get(target).status }
      assert_equal 500, server.get("/replace").status
      server.wait_for_log(/the fiber scheduler of a worker with --fibers cannot be replaced/)
      assert_equal "begun", server.get("/background").body
      server.wait_for_log(/in the background/)
      assert_equal ["slept"], bodies(others).uniq
      assert_match(%r{GET /raise: .*broken}, server.log)
    end
  end

  def test_exit_replaces_the_worker_when_the_others_are_answered
    serve do |server|
      before = server.wait_for_workers(1)
      others = Array.new(5) { ask(server, "/sleep/0.5") }
      assert_equal 500, server.get("/exit").status
      assert_equal ["slept"], bodies(others).uniq
      Waiting.wait_until("another worker") { server.workers.size == 1 && server.workers != before }
      assert_equal "slept", server.get("/sleep/0.01").body
    end
  end

  def test_work_after_the_response_may_wait
    serve do |server|
      assert_equal ["answered"] * 10, bodies(Array.new(10) { |number| ask(server, "/finished/#{number}") })
      assert_equal 10, server.wait_for_events("finished", 10).uniq.size
      ask(server, "/finished/last").final_response
      server.finish
      assert_includes server.events("finished"), "last"
    end
  end

  def test_open_answers_are_finished_when_the_server_stops
    serve do |server|
      # Fibers aside keep no worker alive.
      assert_equal "begun", server.get("/aside-loop").body
      waiting = Array.new(10) { ask(server, "/pass/end") } << ask(server, "/stream/30")
      wait_for_open(server, "pass", 10)
      letter = server.connection
      letter.get("/open/pass")
      10.times { letter.get("/let/end") }
      server.signal(:TERM)
      assert_equal ["passed"] * 10, bodies(waiting.first(10))
      assert_equal 50, waiting.last.final_response.body.size
    end
  end

  def test_fibers_that_wait_for_a_mutex_end_with_the_worker
    serve do |server|
      assert_equal "begun", server.get("/aside-mutex").body
      server.finish
      assert_equal ["ended"] * 2, server.events("aside")
      refute_match(/BUG|signal/, server.log)
    end
  end

  def test_a_wait_is_not_ended_by_the_end_of_the_one_before
    skip "async's waits are its own" if ASYNC
    serve do |server|
      assert_equal "slept", server.get("/late-wake").body
    end
  end

  def test_open_answers_are_finished_when_the_server_reloads
    serve do |server|
      before = server.wait_for_workers(1)
      waiting = Array.new(10) { ask(server, "/sleep/1") }
      assert_equal "slept", server.get("/sleep/0.01").body
      server.signal(:HUP)
      assert_equal ["slept"], bodies(waiting).uniq
      Waiting.wait_until("another worker") { server.workers.size == 1 && server.workers != before }
      assert_equal "slept", server.get("/sleep/0.01").body
    end
  end

  def test_recycled_workers_finish_their_answers
    serve(max_requests: 20) do |server|
      100.times.each_slice(25) { |slice| assert_equal ["slept"], bodies(slice.map { ask(server, "/sleep/0.05") }).uniq }
    end
  end

  def test_garbage_is_collected_between_requests_while_answers_are_open
    TestServer.open(app: APP, settings: { fibers: 100 }, extras: { out_of_band: { every: 1 } }) do |server|
      waiting = Array.new(10) { ask(server, "/sleep/0.3") }
      20.times { assert_equal "20000100000", server.get("/compute").body }
      assert_equal ["slept"], bodies(waiting).uniq
    end
  end

  def test_a_request_that_takes_too_long_is_interrupted
    serve(request_timeout: 1, edge: "on") do |server|
      before = server.get("/process").body
      # Async's loop does not report which task runs after a wait.
      ways = ASYNC ? %w[wait inner] : %w[wait inner compute]
      late = ways.map { |way| ask(server, "/late/#{way}") } << ask(server, "/spin")
      assert_equal [504], late.map { |connection| connection.final_response.status }.uniq, server.log
      assert_equal ways.sort.map { |way| "#{way} Oribi::RequestTimeout" }, server.wait_for_events("late", ways.size).sort
      assert_equal "0", server.get("/open/late").body
      assert_equal before, server.get("/process").body
      assert_match(%r{GET /(late/compute|spin): the app has run for 1 s and is interrupted:.*fibers.ru}, server.log)
    end
  end

  def test_a_request_moves_its_deadline_after_a_wait
    serve(request_timeout: 1, edge: "on") do |server|
      targets = ASYNC ? %w[/patient] : %w[/patient /patient-inner]
      targets.each { |target| assert_equal "in time", server.get(target).body, server.log }
    end
  end

  def test_a_request_that_computes_is_interrupted_without_an_edge
    serve(request_timeout: 1, edge: "off") do |server|
      before = server.get("/process").body
      assert_equal 504, server.get("/spin").status
      assert_equal before, server.get("/process").body
    end
  end

  def test_the_options_of_a_program
    serve(fibers: 0) { |server| assert_equal "true true", server.get("/main").body }
    error = assert_raises(RuntimeError) { serve(threads: 2) { flunk } }
    assert_match(/bad value `100` for fibers: fibers need --threads 1/, error.message)
  end

  private

  def skip_over_http2
    skip "connections of HTTP/1" if OverHTTP2.on?
  end
end
