# frozen_string_literal: true

require "minitest/autorun"
require "json"
require "logger"
require "stringio"
require "action_cable"
require "active_support/core_ext/hash/indifferent_access"
require "oribi/action_cable"

# Action Cable's objects between two events, and the commands that they give to an edge. rails_cable_test.rb has a
# whole Rails app with clients.
class ActionCableTest < Minitest::Test
  # A record, as far as GlobalID is concerned.
  class User
    attr_reader :id

    class << self
      # Whether the records have gone from the database.
      attr_accessor :gone

      def found = (@found ||= [])
    end

    def initialize(id)
      @id = id
    end

    def to_gid = "gid://app/User/#{@id}"

    def to_gid_param = "gid#{@id}"

    def ==(other)
      other.is_a?(User) && other.id == id
    end
  end

  # Finds users, and notes that.
  module Locator
    def self.locate(gid)
      User.found << gid
      raise "there is no such record" if User.gone

      User.new(gid[/\d+\z/].to_i)
    end
  end

  class Connection < ActionCable::Connection::Base
    identified_by :user, :role
    state_attr_accessor :since

    class << self
      attr_accessor :connecting
    end

    def connect
      self.since = Time.at(0)
      instance_exec(&self.class.connecting)
    end

    # There is no Rails here.
    def request
      @request ||= ActionDispatch::Request.new(env)
    end
  end

  class Rooms < ActionCable::Channel::Base
    state_attr_accessor :author, :words

    def subscribed
      self.words = []
      stream_from "rooms"
    end

    def read
      transmit({ author: author&.id, words: words, role: role })
    end

    def stream
      stream_from "another"
    end

    def write(data)
      self.author = user
      self.words += [data["word"]]
    end
  end

  # Inherits what its superclass keeps.
  class Suites < Rooms
    state_attr_accessor :stars

    def subscribed
      super
      self.stars = 5
    end

    def read
      transmit({ stars: stars, words: words })
    end
  end

  # Confirms and rejects when its client says so.
  class Slow < ActionCable::Channel::Base
    def subscribed = defer_subscription_confirmation!

    def confirm = ensure_confirmation_sent

    def refuse = reject
  end

  # Keeps much.
  class Large < ActionCable::Channel::Base
    state_attr_accessor :text

    def subscribed
      self.text = "x" * 10_000
      stream_from "large"
    end

    def show = transmit({ size: text.size })
  end

  # As many streams as its client wants.
  class Many < ActionCable::Channel::Base
    class << self
      attr_accessor :made

      def left = (@left ||= [])
    end

    def initialize(...)
      super
      self.class.made = self.class.made.to_i + 1
    end

    def subscribed
      params[:streams].times { |number| stream_from "#{params[:text]} #{number}" }
    end

    def unsubscribed
      self.class.left << params[:text]
    end

    def show
      transmit({ text: params[:text] })
    end
  end

  # A short name, so that the bytes of identifiers are no limit.
  ::M = Class.new(Many) do
    def subscribed
      1022.times { |number| stream_from number.to_s }
    end
  end

  IDENTIFIER = { channel: "ActionCableTest::Rooms" }.to_json
  WELCOME = '{"type":"welcome"}'
  PING = [3000, '{"type":"ping"}'].pack("Na*")

  def setup
    @given = []
    given = @given
    Oribi::Live.define_singleton_method(:command) do |bytes|
      tag, size = bytes.unpack("CN")
      given << [tag, bytes.byteslice(5, size)]
      true
    end
    Oribi::Live.define_singleton_method(:reachable?) { true }
    Oribi::Live.singleton_class.attr_accessor(:client)
    @log = StringIO.new
    ActionCable.server.config.logger = Logger.new(@log)
    ActionCable.server.config.cable = { adapter: "async" }.with_indifferent_access
    ActionCable.server.config.disable_request_forgery_protection = true
    ActionCable.server.config.connection_class = -> { Connection }
    Connection.connecting = -> { self.user = User.new(7) }
    User.found.clear
    User.gone = false
    Object.const_set(:GlobalID, Module.new) unless defined?(GlobalID)
    GlobalID.const_set(:Locator, Locator) unless defined?(GlobalID::Locator)
  end

  def environment(**more)
    { "REQUEST_METHOD" => "GET", "PATH_INFO" => "/cable", "QUERY_STRING" => "", "HTTP_HOST" => "a", "SERVER_NAME" => "a",
      "SERVER_PORT" => "80", "REMOTE_ADDR" => "127.0.0.1", "rack.url_scheme" => "http", **more }
  end

  # Opens a connection, and returns the answer to the handshake.
  def connect
    env = environment("rack.upgrade?" => :websocket, "HTTP_SEC_WEBSOCKET_PROTOCOL" => "other, actioncable-v1-json")
    answer = ActionCable.server.call(env)
    Oribi::Live.open(true, env, env["rack.upgrade"], "").opened
    note_data
    answer
  end

  def note_data
    @data = @given.select { |tag,| tag == 7 }.last&.last || @data
  end

  # Sends an event, and returns the texts that it has sent.
  def event(kind, payload)
    @given.clear
    content = [@data.bytesize].pack("N") + @data + payload.b
    env = environment("HTTP_ORIBI/EVENT" => kind, "HTTP_ORIBI/CONNECTION" => "00000000000000ff",
                      "rack.input" => StringIO.new(content))
    Oribi::Live.event(env)
    note_data
    texts
  end

  def texts
    @given.filter_map { |tag, body| body.byteslice(9..).force_encoding("UTF-8") if tag == 2 }
  end

  def command(command, identifier = IDENTIFIER, **data)
    event("text", { command:, identifier:, data: data.to_json }.to_json).map { |text| JSON.parse(text) }
  end

  def perform(...)
    command("message", ...).map { |answer| answer["message"] }
  end

  def test_a_connection_is_welcomed_and_then_pinged_by_the_edge
    assert_equal [101, { "sec-websocket-protocol" => "actioncable-v1-json" }, []], connect
    assert_equal [1, 4, 2, 12, 7], @given.map(&:first)
    assert_equal ["cable:action_cable/gid7", WELCOME, PING], [@given[1][1], texts[0], @given[3][1]]
  end

  # Its clients would wait for a welcome for ever if they heard pings.
  def test_a_connection_that_could_not_be_opened_is_not_pinged
    Connection.connecting = -> { raise "the database is away" }
    connect
    assert_equal [1, 7], @given.map(&:first)
    assert_match(/the database is away/, @log.string)
    assert_empty command("subscribe"), "nor heard"
  end

  def test_one_that_is_not_authorized_is_closed
    Connection.connecting = -> { reject_unauthorized_connection }
    connect
    assert_equal [1, 2, 3], @given.map(&:first)
    assert_equal ['{"type":"disconnect","reason":"unauthorized","reconnect":false}'], texts
  end

  def test_identifiers_and_declared_values_are_carried_and_records_are_found_when_they_are_read
    Connection.connecting = lambda {
      self.user = User.new(7)
      self.role = { name: "guest" }
    }
    connect
    assert_equal "confirm_subscription", command("subscribe")[0]["type"]
    assert_equal [{ "author" => nil, "words" => [], "role" => { "name" => "guest" } }], perform(action: "read")
    assert_empty User.found, "nobody has asked for a record"
    assert_empty perform(action: "write", word: "Zoë")
    assert_equal ["gid://app/User/7"], User.found
    assert_equal [{ "author" => 7, "words" => ["Zoë"], "role" => { "name" => "guest" } }], perform(action: "read")
  end

  def test_a_channel_keeps_what_its_superclass_declares
    connect
    suites = { channel: "ActionCableTest::Suites" }.to_json
    command("subscribe", suites)
    command("message", suites, action: "write", word: "one")
    assert_equal [{ "stars" => 5, "words" => ["one"] }], perform(suites, action: "read")
  end

  def test_a_stream_has_its_identifier_around_its_messages_until_it_ends
    connect
    command("subscribe")
    subscribed = @given.find { |tag,| tag == 9 }[1]
    around = "{\"identifier\":#{IDENTIFIER.to_json},\"message\":}"
    # The sizes are before the channel and before the first text.
    assert_equal ["\0\u000Bcable:rooms", around], [subscribed.byteslice(0, 13), subscribed.byteslice(15..)]
    command("unsubscribe")
    assert_equal [subscribed], @given.filter_map { |tag, body| body if tag == 10 }
    assert_match(/Unable to find subscription/, (perform(action: "read") && @log.string))
  end

  def test_broadcasts_and_disconnects_are_commands
    ActionCable.server.broadcast("rooms", { text: "Zoë" })
    assert_equal [[6, "\1\0\u000Bcable:rooms{\"text\":\"Zoë\"}".b]], @given
    @given.clear
    ActionCable.server.config.cable[:channel_prefix] = "shop"
    ActionCable.server.remote_connections.where(user: User.new(7), role: nil).disconnect
    channel = "cable:shop:action_cable/gid7"
    assert_equal [11, [1000, channel.size].pack("nn") + channel], @given.last
    @given.clear
    ActionCable.server.broadcast("x" * 2000, 1)
    assert_operator @given.last[1].unpack1("@1n"), :<, 100, "a long name has a digest"
  end

  def test_broadcasts_of_other_processes_reach_another_adapter_only
    Oribi::Live.define_singleton_method(:reachable?) { false }
    ActionCable.server.broadcast("rooms", 1)
    assert_empty @given
  end

  # As Action Cable's adapter for Redis.
  class RedisAdapter < ActionCable::SubscriptionAdapter::Base
    def published = (@published ||= [])

    def broadcast(channel, payload) = redis_connection_for_broadcasts.publish(channel, payload)

    private

    def redis_connection_for_broadcasts
      adapter = self
      Object.new.tap { |redis| redis.define_singleton_method(:publish) { |*message| adapter.published << message } }
    end
  end

  def test_broadcasts_of_other_processes_are_published_at_a_redis
    Oribi::Live.define_singleton_method(:reachable?) { false }
    adapter = RedisAdapter.new(ActionCable.server)
    adapter.extend(Oribi::ActionCable::ServerHook::Broadcasts)
    adapter.broadcast("rooms", "1")
    assert_equal [["oribi:cable:rooms", "1"], ["rooms", "1"]], adapter.published
    adapter.published.clear
    adapter.broadcast("action_cable/gid7", { type: "disconnect", reconnect: false }.to_json)
    name, message = adapter.published[-2]
    assert_equal "oribi:cable:action_cable/gid7", name
    assert_match(/\A\0oribi\x01.{16}\v#{[1000].pack('n')}\z/mn, message)
    assert_empty @given
  end

  def test_a_subscription_is_confirmed_and_rejected_in_a_later_event
    connect
    slow = { channel: "ActionCableTest::Slow" }.to_json
    assert_empty command("subscribe", slow)
    assert_equal ["confirm_subscription"], command("message", slow, action: "confirm").map { |answer| answer["type"] }
    assert_empty command("message", slow, action: "confirm"), "once"
    refute_match(/Unable to process/, @log.string)
    assert_empty command("message", slow, action: "refuse")
    assert_empty command("message", slow, action: "confirm")
    assert_match(/Unable to process .*Slow#confirm/, @log.string)
  end

  # Each public method of a channel is an action otherwise.
  def test_clients_cannot_set_declared_values
    connect
    command("subscribe")
    assert_empty perform(action: "words=", x: 1)
    assert_match(/Unable to process .*Rooms#words=/, @log.string)
    assert_empty perform(action: "author")
    assert_equal [], perform(action: "read")[0]["words"]
  end

  def test_a_record_that_has_gone_is_an_error_each_time
    connect
    command("subscribe")
    User.gone = true
    2.times do
      @log.truncate(0)
      assert_empty perform(action: "write", word: "one")
      assert_match(/there is no such record/, @log.string)
    end
  end

  def test_the_streams_of_a_class_that_has_gone_end
    self.class.const_set(:Gone, Class.new(Rooms))
    gone = { channel: "ActionCableTest::Gone" }.to_json
    connect
    command("subscribe", gone)
    subscribed = @given.find { |tag,| tag == 9 }[1]
    self.class.send(:remove_const, :Gone)
    assert_equal [{ "identifier" => gone, "type" => "reject_subscription" }], command("subscribe")[..0]
    assert_equal [subscribed], @given.filter_map { |tag, body| body if tag == 10 }
    command("message", gone, action: "read")
    assert_match(/Unable to find subscription/, @log.string)
  end

  def test_streams_beyond_the_limits_are_refused
    connect
    long = { channel: "ActionCableTest::Rooms", text: "x" * 9000 }.to_json
    assert_equal [{ "identifier" => long, "type" => "reject_subscription" }], command("subscribe", long)
    assert_match(/Rooms: stream_from\("rooms"\) is refused: .* 8 KiB/, @log.string)
    assert_equal [2], @given.map(&:first), "the edge has no stream of it"

    # Action Cable's own stream is one of them.
    assert_equal "confirm_subscription", command("subscribe", '{"channel":"M"}')[0]["type"]
    assert_equal "confirm_subscription", command("subscribe")[0]["type"]
    assert_equal "reject_subscription", command("subscribe", many(1))[0]["type"]
    assert_equal 0, @given.count { |tag,| tag == 9 }
    assert_match(/has at most 1024 streams/, @log.string)
    assert_empty perform(action: "stream")
    assert_match(/Could not execute command .* 1024 streams/, @log.string, "a subscription that was confirmed lives on")
    assert_equal [], perform(action: "read")[0]["words"]
  end

  def test_the_streams_of_long_identifiers_have_a_limit_together
    connect
    answers = Array.new(8) { |number| command("subscribe", many(10, "#{number}#{'x' * 1000}"))[0]["type"] }
    assert_equal [*["confirm_subscription"] * 5, *["reject_subscription"] * 3], answers
    assert_match(/have at most 64 KiB/, @log.string)
    begun, ended = [9, 10].map { |number| @given.count { |tag,| tag == number } }
    assert_equal begun, ended, "those that were begun end again"
    command("unsubscribe", many(10, "0#{'x' * 1000}"))
    assert_equal "confirm_subscription", command("subscribe", many(10, "9#{'x' * 1000}"))[0]["type"]
  end

  def test_a_subscription_that_cannot_be_kept_is_rejected
    connect
    identifiers = Array.new(8) { |number| { channel: "ActionCableTest::Large", number: }.to_json }
    answers = identifiers.map { |identifier| command("subscribe", identifier)[0]["type"] }
    assert_equal [*["confirm_subscription"] * 6, *["reject_subscription"] * 2], answers
    assert_equal [9, 10], @given.map(&:first) & [9, 10], "its stream ends again"
    assert_match(/Large is refused: .* 64 KiB/, @log.string)
    assert_equal [{ "size" => 10_000 }], perform(identifiers[5], action: "show")
    command("unsubscribe", identifiers[0])
    assert_equal "confirm_subscription", command("subscribe", identifiers[7])[0]["type"]
  end

  def many(streams, text = "")
    { channel: "ActionCableTest::Many", streams:, text: }.to_json
  end

  def test_a_message_makes_the_channel_that_it_is_for
    connect
    identifiers = Array.new(20) { |number| many(1, number.to_s) }
    identifiers.each { |identifier| command("subscribe", identifier) }
    Many.made = 0
    Many.left.clear
    assert_equal ["7"], perform(identifiers[7], action: "show").map { |answer| answer["text"] }
    assert_equal 1, Many.made
    assert_equal ["7"], perform(identifiers[7], action: "show").map { |answer| answer["text"] }
    command("unsubscribe", identifiers[3])
    assert_equal 3, Many.made
    assert_empty command("subscribe", identifiers[5]), "it has that subscription already"
    assert_equal 3, Many.made
    event("close", [1006].pack("n"))
    assert_equal (0..19).map(&:to_s), Many.left.uniq.sort_by(&:to_i), "the end is for all of them"
    assert_equal 22, Many.made
  end

  def test_a_value_that_cannot_be_kept_is_named
    Connection.connecting = -> { self.role = proc {} }
    error = assert_raises(Oribi::Error) { connect }
    assert_match(/role of ActionCableTest::Connection cannot be kept: .*Proc/, error.message)
  end
end
