# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# Oribi.count and Oribi.observe: metrics that apps count themselves, and the time of Ruby's garbage collection, shown by
# --metrics.
class FiguresTest < Minitest::Test
  APP = <<~'RUBY'
    HOOKS[:after_fork] << ->(*) { Oribi.count("workers_begun") }

    MISUSE = [
      [["a b"], {}, /\Aa figure cannot be called "a b"/],
      [["gr\u00f6\u00dfe"], {}, /cannot be called "gr\u00f6\u00dfe"/],
      [["a", -1], {}, /finite numbers from 0 on, not -1/],
      [["a", Float::NAN], {}, /finite numbers from 0 on, not NaN/],
      [["a", 1], { "a-b": 1 }, /a label cannot be called "a-b"/],
      [["a", 1], { :a => 1, "a" => 2 }, /the label "a" is there twice/],
      [["a", 1], (1..7).to_h { |number| [:"l#{number}", 1] }, /at most 6 labels/],
      [["pages"], {}, /pages is a figure of the other kind already/],
    ].freeze

    DOES = {
      "/counts" => lambda do
        Oribi.count("orders")
        Oribi.count(:orders, 2.5)
        Oribi.count("orders", 1, kind: "book", by: :card)
        Oribi.count("orders_total", 1, "by" => "card", "kind" => "book")
        Oribi.observe("payment_seconds", 0.25, provider: "x")
        Oribi.observe("pages", 17)
        "counted"
      end,
      "/texts" => lambda do
        Oribi.count("texts", a: "\u00fcber \u20ac", b: "caf\u00e9".encode("ISO-8859-1"), c: 7, d: nil, e: "\"\\\n", f: "\xff".b)
        "counted"
      end,
      "/threads" => lambda do
        Array.new(4) { Thread.new { 500.times { Oribi.count("in_threads") } } }.each(&:join)
        "counted"
      end,
      "/misuse" => lambda do
        MISUSE.reject do |arguments, labels, why|
          Oribi.count(*arguments, **labels)
          false
        rescue ArgumentError => e
          why.match?(e.message)
        end.inspect
      end,
      "/number" => lambda do
        Oribi.count("a", "much")
      rescue TypeError
        "no number"
      end,
      "/collects" => lambda do
        GC.start
        GC.count.to_s
      end,
    }.freeze

    run ->(env) { [200, {}, [DOES.fetch(env["PATH_INFO"]).call]] }
  RUBY

  # A server in either shape, whose metrics are at a Unix socket.
  def serve(edge, **settings)
    Dir.mktmpdir do |directory|
      @metrics = File.join(directory, "metrics.sock")
      TestServer.open(app: APP, unix: true, settings: { edge: edge, metrics: @metrics, **settings }) do |server|
        # They come some time after the listener.
        Waiting.wait_until("metrics") { told? }
        yield server
      end
    end
  end

  # The current metrics of the server: each series with its value.
  def scrape
    socket = UNIXSocket.new(@metrics)
    socket.write("GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n")
    text = socket.read.force_encoding(Encoding::UTF_8)
    text.scan(/^((?:app|oribi)_.*) (\S+)$/).to_h.transform_values { |value| Float(value) }
  ensure
    socket&.close
  end

  def told?
    scrape
  rescue Errno::ENOENT, Errno::ECONNREFUSED
    false
  end

  TOLD = {
    "app_workers_begun_total" => 1,
    "app_orders_total" => 3.5,
    'app_orders_total{by="card",kind="book"}' => 2,
    'app_payment_seconds_bucket{provider="x",le="0.1"}' => 0,
    'app_payment_seconds_bucket{provider="x",le="0.25"}' => 1,
    'app_payment_seconds_sum{provider="x"}' => 0.25,
    'app_pages_bucket{le="16.0"}' => 0,
    'app_pages_bucket{le="64.0"}' => 1,
    "app_texts_total{a=\"\u00fcber \u20ac\",b=\"caf\u00e9\",c=\"7\",d=\"\",e=\"\\\"\\\\\\n\",f=\"\ufffd\"}" => 1,
    "app_in_threads_total" => 2000,
    "oribi_app_figures_refused_total" => 0
  }.freeze

  %w[off on].product([1, 4]).each do |edge, threads|
    define_method(:"test_figures_are_told_edge_#{edge}_threads_#{threads}") do
      serve(edge, threads: threads) do |server|
        %w[/counts /texts /threads].each { |target| assert_equal "counted", server.get(target).body }
        assert_equal "[]", server.get("/misuse").body
        assert_equal "no number", server.get("/number").body
        assert_equal TOLD, scrape.slice(*TOLD.keys)
      end
    end
  end

  def test_collections_are_told_through_the_replacement_of_workers
    serve("off", max_requests: 2) do |server|
      seen = scrape.slice("oribi_ruby_gc_collections_total", "oribi_ruby_gc_seconds_total")
      5.times do
        server.get("/collects")
        # Each request collects once at least, and is counted before its answer leaves or soon after.
        now = nil
        Waiting.wait_until("a collection") do
          now = scrape.slice(*seen.keys)
          now["oribi_ruby_gc_collections_total"] > seen["oribi_ruby_gc_collections_total"]
        end
        seen.each { |series, value| assert_operator now[series], :>=, value }
        seen = now
      end
      assert_operator seen["oribi_ruby_gc_seconds_total"], :>, 0
    end
  end

  def test_without_metrics_nothing_happens
    TestServer.open(app: APP, unix: true) do |server|
      assert_equal "counted", server.get("/counts").body
      refute_equal "[]", server.get("/misuse").body, "not even misuse"
    end
  end

  def test_outside_of_a_server_nothing_happens
    program = 'p [Oribi.count("-", Float::NAN), Oribi.observe("-", -1)]'
    said = IO.popen([RbConfig.ruby, "-I#{File.join(TestServer::HOST_ROOT, 'lib')}", "-roribi", "-e", program], &:read)
    assert_equal "[nil, nil]\n", said
  end
end
