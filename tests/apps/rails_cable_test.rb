# frozen_string_literal: true

# Property: Action Cable of a Rails app is for its clients as always when an edge has their connections
# (require "oribi/action_cable"), and no thread and no worker has anything to do with a silent one.

require "minitest/autorun"
$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "cable_clients"
require "net/http"
require "rails_app"
require "redis_process"
require "server_process"

class RailsCableTest < Minitest::Test
  SEVEN = { channel: "RoomChannel", room: "7" }.freeze
  ALSO_SEVEN = { channel: "RoomChannel", room: "7", view: "small" }.freeze
  ENDS = { channel: "RoomChannel", room: "0", ends: true }.freeze

  def setup
    @folder = Dir.mktmpdir
  end

  def teardown
    @clients&.stop
    @redis&.stop
    assert_predicate @server.stop, :success?, @server.log_end if @server
    FileUtils.rm_rf(@folder)
  end

  def start(*options, mode: "production", variables: {})
    port = FreePort.next
    environment = {
      "RAILS_ENV" => mode, "RACK_ENV" => mode, "CABLE_AT_EDGE" => "1", **RailsApp.database_in(@folder), **RailsApp::ENVIRONMENT,
      **variables
    }
    command = %W[#{ServerProcess::ORIBI} config.ru --host 127.0.0.1 --port #{port}] + options
    command += %w[--threads 1] unless options.include?("--threads")
    command += %w[--edge on] unless options.include?("--edge")
    @server = ServerProcess.new(*command, port:, directory: RailsApp.folder, environment:)
    @clients = CableClients.new(@server.url)
  end

  def post(path, **form)
    response = Net::HTTP.post_form(URI("#{@server.url}#{path}"), form)
    assert_equal "204", response.code, @server.log_end
  end

  def get(path)
    Net::HTTP.get(URI("#{@server.url}#{path}"))
  end

  # Makes a note as a browser does, and returns its number.
  def note(text)
    @notes = @notes.to_i + 1
    @clients.perform("keeper", SEVEN, "keep", text:)
    assert_equal text, heard_by("keeper")["last"]
    @notes
  end

  def heard_by(name)
    heard = @clients.hear(name)
    heard.fetch("message") { flunk "#{name} gets #{heard}\n#{@server.log_end}" }
  rescue NoMethodError, Timeout::Error => e
    flunk "#{name}: #{e.message} #{heard}\n#{@server.log_end}"
  end

  # Clients that have subscribed, by their names.
  def subscribed(**clients)
    clients.each do |name, identifier|
      @clients.welcomed(name.to_s)
      assert_equal "confirm_subscription", @clients.subscribe(name.to_s, **identifier), @server.log_end
    end
  end

  def assert_logged(pattern)
    assert ServerProcess.wait_until { pattern.match?(@server.log_text) }, "no #{pattern.inspect} in\n#{@server.log_end}"
  end

  def test_a_broadcast_reaches_each_subscription_under_its_own_identifier
    start("--workers", "2", "--edges", "2")
    subscribed(ann: SEVEN, bob: ALSO_SEVEN, cem: { channel: "RoomChannel", room: "8" })
    assert_equal "confirm_subscription", @clients.subscribe("cem", **SEVEN)
    post("/rooms/7", text: "Zoë </script>")
    { "ann" => SEVEN, "bob" => ALSO_SEVEN, "cem" => SEVEN }.each do |name, identifier|
      heard = @clients.hear(name)
      assert_equal({ "identifier" => identifier.to_json, "message" => { "text" => "Zoë </script>" } }, heard)
    end
    long = "x" * 300_000
    post("/rooms/8", text: long)
    assert_equal long, heard_by("cem")["text"]
  end

  def test_actions_have_the_state_that_the_channel_declares_in_whichever_worker
    start("--workers", "2", "--edges", "2")
    subscribed(ann: SEVEN)
    processes = Array.new(40) do |number|
      @clients.perform("ann", SEVEN, "say", text: "grüße #{number}")
      assert_equal({ "text" => "grüße #{number}", "count" => number + 1, "by" => nil }, heard_by("ann"))
      @clients.perform("ann", SEVEN, "ask")
      heard_by("ann")["process"]
    end
    assert_operator processes.uniq.size, :>=, 1
    @clients.perform("ann", SEVEN, "keep", text: "a record")
    assert_equal ["a record", 40], heard_by("ann").values_at("last", "count")
    @clients.perform("ann", SEVEN, "ask")
    assert_equal "a record", heard_by("ann")["last"], "found again by its GlobalID"
    @clients.perform("ann", SEVEN, "fail")
    assert_logged(/the channel has failed/)
    @clients.perform("ann", SEVEN, "quiet")
    assert_equal 40, heard_by("ann")["count"]
    post("/rooms/7", text: "unheard")
    @clients.perform("ann", SEVEN, "ask")
    assert_equal 40, heard_by("ann")["count"], "nothing came before"
  end

  def test_connections_and_subscriptions_are_refused
    start("--workers", "1")
    assert_equal "open actioncable-v1-json", @clients.connect("ann", "/cable?note=77")
    assert_equal({ "type" => "disconnect", "reason" => "unauthorized", "reconnect" => false }, @clients.hear("ann"))
    assert_equal "closed 1000 ", @clients.hear("ann")
    assert_logged(/unauthorized connection attempt/)
    @clients.welcomed("bob")
    assert_equal "reject_subscription", @clients.subscribe("bob", channel: "RoomChannel", room: "secret")
    assert_equal "confirm_subscription", @clients.subscribe("bob", **SEVEN)
    @clients.command("bob", "subscribe", { channel: "Missing" })
    @clients.perform("bob", { channel: "RoomChannel", room: "8" }, "ask")
    assert_logged(/Subscription class not found/)
    assert_logged(/Unable to find subscription/)
    @clients.perform("bob", SEVEN, "ask")
    assert_equal 0, heard_by("bob")["count"]
  end

  def test_ends_reach_the_app
    start("--workers", "2", "--edges", "2")
    subscribed(keeper: SEVEN, watcher: ENDS)
    number = note("ann's note")
    @clients.welcomed("ann", "/cable?note=#{number}")
    assert_equal "confirm_subscription", @clients.subscribe("ann", **SEVEN)
    @clients.perform("ann", SEVEN, "say", text: "hello")
    assert_equal({ "text" => "hello", "count" => 1, "by" => "ann's note" }, heard_by("ann"))
    @clients.command("ann", "unsubscribe", SEVEN)
    assert_equal({ "left" => "7", "count" => 1 }, heard_by("watcher"))
    assert_equal "confirm_subscription", @clients.subscribe("ann", **SEVEN), "a client may subscribe again"
    @clients.close("ann")
    assert_equal [{ "left" => "7", "count" => 0 }, { "end" => "ann's note" }], [heard_by("watcher"), heard_by("watcher")]
  end

  def test_a_connection_is_disconnected_from_elsewhere
    start("--workers", "2", "--edges", "2")
    subscribed(keeper: SEVEN)
    numbers = [note("ann"), note("bob")]
    3.times { |index| @clients.welcomed("ann#{index}", "/cable?note=#{numbers[0]}") }
    @clients.welcomed("bob", "/cable?note=#{numbers[1]}")
    post("/disconnect", note: numbers[0])
    3.times do |index|
      heard = @clients.hear("ann#{index}")
      heard = @clients.hear("ann#{index}") if heard.is_a?(Hash) && heard["reason"] == "remote"
      assert_equal "closed 1000 ", heard
    end
    assert_equal "confirm_subscription", @clients.subscribe("bob", **SEVEN), "others stay"
  end

  def test_broadcasts_of_other_programs_come_over_a_redis
    @redis = RedisProcess.new(@folder)
    variables = { "CABLE_REDIS" => @redis.url }
    start("--workers", "1", "--relay", @redis.url, variables:)
    subscribed(keeper: SEVEN)
    number = note("ann")
    @clients.welcomed("ann", "/cable?note=#{number}")
    assert_equal "confirm_subscription", @clients.subscribe("ann", **SEVEN)
    assert_logged(/messages are shared with other servers/)
    script = <<~RUBY
      ActionCable.server.broadcast("room 7", { text: "of a script" })
      ActionCable.server.remote_connections.where(note: Note.find(#{number})).disconnect
    RUBY
    environment = { "RAILS_ENV" => "production", "CABLE_AT_EDGE" => "1", **RailsApp.database_of(@folder), **variables }
    RailsApp.run("bin/rails", "runner", script, environment:)
    %w[keeper ann].each { |name| assert_equal({ "text" => "of a script" }, heard_by(name)) }
    heard = @clients.hear("ann")
    heard = @clients.hear("ann") if heard.is_a?(Hash) && heard["reason"] == "remote"
    assert_equal "closed 1000 ", heard
    post("/rooms/7", text: "of a request")
    assert_equal({ "text" => "of a request" }, heard_by("keeper"), "each comes once")
  end

  def test_subscriptions_outlive_the_workers
    start("--workers", "1")
    subscribed(ann: SEVEN)
    @clients.perform("ann", SEVEN, "say", text: "before")
    assert_equal 1, heard_by("ann")["count"]
    @clients.perform("ann", SEVEN, "ask")
    before = heard_by("ann")["process"]
    @server.signal(:HUP)
    assert ServerProcess.wait_until { !File.exist?("/proc/#{before}") }
    post("/rooms/7", text: "after")
    assert_equal "after", heard_by("ann")["text"]
    @clients.perform("ann", SEVEN, "say", text: "again")
    assert_equal 2, heard_by("ann")["count"]
  end

  def test_jobs_and_threads_of_workers_broadcast
    start("--workers", "2", "--edges", "2")
    subscribed(ann: SEVEN, bob: ALSO_SEVEN)
    @clients.perform("ann", SEVEN, "later", text: "of a thread")
    %w[ann bob].each { |name| assert_equal({ "later" => "of a thread" }, heard_by(name)) }
    post("/rooms/7/later", text: "of a job")
    %w[ann bob].each { |name| assert_equal({ "text" => "of a job" }, heard_by(name)) }
  end

  [%w[--threads 5], %w[--fibers 20]].each do |options|
    define_method("test_clients_that_talk_at_once_with_#{options.join('_')}") do
      start("--workers", "1", *options)
      names = Array.new(10) { |number| "client#{number}" }
      subscribed(**names.to_h { |name| [name.to_sym, { channel: "RoomChannel", room: name }] })
      rooms = names.to_h { |name| [name, { channel: "RoomChannel", room: name }] }
      20.times { |number| rooms.each { |name, room| @clients.perform(name, room, "say", text: "#{name} #{number}") } }
      names.each do |name|
        heard = Array.new(20) { heard_by(name).values_at("text", "count") }
        assert_equal Array.new(20) { |number| ["#{name} #{number}", number + 1] }, heard
      end
      post("/rooms/client7/later", text: "of a job")
      assert_equal "of a job", heard_by("client7")["text"]
    end
  end

  def test_silent_clients_cost_no_thread_and_no_descriptor_of_a_worker
    start("--workers", "1")
    worker = @server.workers.first
    # The first one loads all that there is to load.
    subscribed(first: SEVEN)
    usage = -> { [get("/threads"), Dir.children("/proc/#{worker}/fd").size, Dir.children("/proc/#{worker}/task").size] }
    before = usage.call
    names = Array.new(20) { |number| "client#{number}" }
    subscribed(**names.to_h { |name| [name.to_sym, SEVEN] })
    assert_equal before, usage.call
    # Nothing but its edge keeps a client from giving up.
    2.times { assert_equal({ "type" => "ping" }, @clients.next_message("client3")) }
  end

  def test_things_that_an_edge_cannot_do_are_in_the_log
    start("--workers", "1")
    subscribed(ann: { channel: "OddChannel" })
    assert_logged(/OddChannel: `periodically` never runs/)
    assert_logged(/OddChannel: @forgotten/)
    @clients.command("ann", "subscribe", { channel: "OddChannel", block: true })
    assert_logged(/OddChannel: stream_from\("odd"\) has a block/)
  end

  def test_edited_code_is_used_in_development
    start("--workers", "1", mode: "development")
    subscribed(ann: SEVEN)
    path = "#{RailsApp.folder}/app/channels/room_channel.rb"
    before = File.read(path)
    File.write(path, before.sub("transmit({ count: count", "transmit({ edited: true, count: count"))
    get("/threads")
    @clients.perform("ann", SEVEN, "ask")
    assert_equal [true, 0], heard_by("ann").values_at("edited", "count")
  ensure
    File.write(path, before) if before
  end

  def test_all_is_as_before_without_an_edge
    start("--workers", "1", "--edge", "off")
    subscribed(ann: SEVEN, bob: ALSO_SEVEN)
    post("/rooms/7", text: "hello")
    %w[ann bob].each { |name| assert_equal "hello", heard_by(name)["text"] }
  end
end
