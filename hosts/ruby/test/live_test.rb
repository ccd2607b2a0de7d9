# frozen_string_literal: true

require "minitest/autorun"
require "stringio"
require "oribi/live"

# Handlers, and the commands that they give. tests/live/ has whole servers with clients.
class LiveTest < Minitest::Test
  # Counts its messages, and keeps its client.
  class Counter
    attr_reader :count

    def initialize(name)
      @name = name
      @count = 0
    end

    def on_open(client)
      @client = client
      client.subscribe("room")
      client.write("hi")
    end

    def on_message(_client, text)
      @count += 1
      @client.write(text)
    end
  end

  module Silent; end

  module Echo
    def self.on_message(client, text) = client.write(text)

    def self.on_close(client) = client.publish("room", "gone #{client.open?} #{client.write('x')}")
  end

  # Sends parts, one after the other, and a last word.
  class Sender
    def initialize(parts)
      @parts = parts
    end

    def on_message(client, _text) = on_drained(client)

    def on_drained(client)
      client.write(@parts.shift) while client.pending < 2 && @parts.any?
    end

    def on_shutdown(client)
      client.write("bye, #{@parts.size} left, #{client.pending} pending")
    end
  end

  Asked = Struct.new(:tag, :body)

  def setup
    @given = []
    given = @given
    Oribi::Live.singleton_class.attr_accessor(:client)
    Oribi::Live.define_singleton_method(:command) do |bytes|
      tag, size = bytes.unpack("CN")
      raise "one command at a time" unless bytes.bytesize == 5 + size

      given << Asked.new(tag, bytes.byteslice(5..))
      true
    end
  end

  # Opens a connection and returns its data.
  def open_with(handler, is_websocket: true)
    client = Oribi::Live.open(is_websocket, { "PATH_INFO" => "/ws" }, handler, "A: b\r\n")
    client.opened
    body = @given.first.body
    kept = is_websocket ? body.byteslice((4 + body.unpack1("N"))..) : body
    [@given.map(&:tag), kept, client]
  end

  # Sends an event, and returns the commands that answer it.
  def event(kind, data, payload = "", name: "00000000000000ff", pending: nil)
    @given.clear
    content = [data.bytesize].pack("N") + data + payload.b
    env = { "HTTP_ORIBI/EVENT" => kind, "HTTP_ORIBI/CONNECTION" => name, "CONTENT_LENGTH" => content.bytesize.to_s,
            "rack.input" => StringIO.new(content) }
    env["HTTP_ORIBI/PENDING"] = pending if pending
    Oribi::Live.event(env)
    assert_empty env.keys.grep(/ORIBI|LENGTH/), "the environment is that of the handshake"
    @given.dup
  end

  def test_instance_variables_are_carried_from_event_to_event
    tags, kept = open_with(Counter.new("ann"))
    # The client that the handler keeps has changed its data.
    assert_equal [1, 4, 2, 7], tags
    kept = @given.last.body
    2.times do |number|
      answers = event("text", kept, "grüße")
      assert_equal [2, 7], answers.map(&:tag)
      assert_equal [0, 1, "grüße".b], answers.first.body.unpack("Q>Ca*")
      kept = answers.last.body
      assert_equal number + 1, Marshal.load(kept.byteslice(1..)).count # rubocop:disable Security/MarshalLoad -- it is ours
    end
  end

  def test_a_module_is_kept_by_its_name
    tags, kept = open_with(Echo)
    assert_equal [[1], "W#{Marshal.dump(Echo)}"], [tags, kept]
    assert_equal [[2, [0, 2, "\xFF".b]]], event("binary", kept, "\xFF").map { |given| [given.tag, given.body.unpack("Q>Ca*")] }
    assert_equal [[6, [1, 4, "roomgone false false"]]],
                 event("close", kept, [1000].pack("n")).map { |given| [given.tag, given.body.unpack("Cna*")] }
  end

  def test_callbacks_may_be_missing
    _, kept = open_with(Silent)
    ended = event("close", kept, [1006].pack("n"))
    assert_empty event("text", kept, "x") + ended + event("drained", kept) + event("shutdown", kept)
  end

  def test_a_stream_of_events_has_text_only
    tags, kept, client = open_with(Echo, is_websocket: false)
    assert_equal [[8], "S"], [tags, kept[0]]
    @given.clear
    client.during do
      client.write("\xFF".b)
      client.write("event: a", as: :event)
    end
    assert_equal [1, 3], @given.map { |given| given.body.unpack("Q>C").last }
  end

  def test_text_is_what_is_meant_as_text
    kinds = ["grüße", "plain".encode(Encoding::US_ASCII), "\xFF", "x".b, ""].map { |text| Oribi::Live::Command.kind_of(text) }
    assert_equal %i[text text binary binary text], kinds
  end

  def test_a_kept_client_is_named_in_events_of_others
    open_with(Echo)
    other = Oribi::Live::Client.new(0x1_0000_0000_0007)
    other.write("x")
    other.close
    named = @given.last(2).map { |given| [given.tag, given.body.unpack1("Q>")] }
    assert_equal [[2, 0x1_0000_0000_0007], [3, 0x1_0000_0000_0007]], named
    assert_raises(Oribi::Error) { other.subscribe("room") }
    _, _, client = open_with(Echo)
    error = assert_raises(Oribi::Error) { client.write("x") }
    assert_match(/kept from on_open/, error.message)
  end

  def texts
    @given.select { |given| given.tag == 2 }.map { |given| given.body.unpack("Q>Ca*").last }
  end

  def test_a_handler_sends_one_part_after_the_other
    tags, kept, client = open_with(Sender.new(%w[a b c d e]))
    assert_equal [[1, 13], "\x03", 0], [tags, @given.last.body, client.pending]
    event("text", kept, "go")
    assert_equal [%w[a b], 7], [texts, @given.last.tag]
    kept = @given.last.body
    assert_empty event("text", kept, "go", pending: "2")
    event("text", kept, "go", pending: "1")
    assert_equal %w[c], texts
    event("drained", kept)
    assert_equal %w[c d], texts
    event("shutdown", @given.last.body, pending: "3")
    assert_equal ["bye, 1 left, 3 pending"], texts
  end

  def test_nothing_is_pending_for_a_handler_that_does_not_care
    _, _, client = open_with(Counter.new("ann"))
    kept = @given.last.body
    client.during { assert_equal 0, client.pending }
    assert_equal [2, 7], event("text", kept, "x").map(&:tag)
    other = Oribi::Live::Client.new(7, handler: Sender.new([]))
    other.write("x")
    assert_equal 0, other.pending
    client.during { client.close }
    assert_equal(-1, client.pending)
  end

  def test_a_new_handler_has_events_of_its_own
    client = Oribi::Live::Client.new(7, protocol: :websocket, handler: Counter.new("old"))
    client.during do
      client.handler = Sender.new([])
      client.handler = Sender.new([])
      client.handler = Echo
    end
    assert_equal [[13, "\x03"], [13, "\x00"]], @given.map(&:to_a)
  end

  def test_a_handler_that_cannot_be_kept_is_an_error
    with_env = Counter.new("x")
    with_env.instance_variable_set(:@env, { "rack.errors" => $stderr })
    [[with_env, /@env: .*IO/], [Class.new, /anonymous class/], [proc {}, /Proc/],
     [Counter.new("x" * (64 << 10)), /may have 65536/]].each do |handler, message|
      error = assert_raises(Oribi::Error) { open_with(handler) }
      assert_match message, error.message
      assert_empty @given
    end
  end

  def test_a_new_handler_takes_over
    client = Oribi::Live::Client.new(7, protocol: :websocket, handler: Echo)
    client.during do
      client.handler = Counter.new("new")
      client.handler = nil
    end
    # The old one writes and publishes at its end; the new one subscribes, writes and ends.
    assert_equal [2, 6, 4, 2, 3], @given.map(&:tag)
  end

  def test_names_of_channels_and_kinds_are_checked
    assert_raises(TypeError) { Oribi.publish(7, "x") }
    assert_raises(TypeError) { Oribi.publish("a", nil) }
    assert_raises(ArgumentError) { Oribi.publish("a" * 1025, "x") }
    assert_raises(ArgumentError) { Oribi.publish("a", "x", as: :sound) }
    client = Oribi::Live::Client.new(7, protocol: :websocket, handler: Echo)
    client.during do
      assert_raises(ArgumentError) { client.subscribe("a") { nil } }
      assert_raises(ArgumentError) { client.subscribe("a*", match: :redis) }
      assert_raises(ArgumentError) { client.subscribe("a", hander: nil) }
      assert_equal :news, client.subscribe(:news)
    end
    assert_equal [[4, "news"]], @given.map(&:to_a)
  end

  def test_messages_of_a_channel_come_between_two_texts
    client = Oribi::Live::Client.new(7, protocol: :websocket, handler: Echo)
    client.during do
      client.subscribe("a", around: ["<ä ", ">"])
      client.unsubscribe("a", around: ["<ä ", ">"])
      [["<"], ["<", nil], ["\xFF".b, ">"], "<>", ["x" * 8192, "x"]].each do |texts|
        assert_raises(ArgumentError) { client.subscribe("a", around: texts) }
      end
    end
    body = "\x00\x01a\x00\x04<ä >".b
    assert_equal [[9, body], [10, body]], @given.map(&:to_a)
  end

  def test_the_least_and_the_most_of_a_text_that_is_sent_again_and_again
    _, _, client = open_with(Silent)
    @given.clear
    client.during { [[1, ""], [86_400, "x" * 1024]].each { |interval, text| client.beat(interval, text) } }
    assert_equal [[1000, ""], [86_400_000, "x" * 1024]], @given.map { |given| given.body.unpack("Na*") }
  end

  def test_a_text_is_sent_again_and_again
    client = Oribi::Live::Client.new(7, protocol: :websocket, handler: Echo)
    client.during do
      client.beat(2.5, "beat")
      client.beat(0)
      [0.9, -1, 86_400.1, Float::NAN, Float::INFINITY, nil, "3"].each do |interval|
        assert_raises(ArgumentError, interval.inspect) { client.beat(interval, "beat") }
      end
      assert_raises(ArgumentError) { client.beat(3, "x" * 1025) }
      assert_raises(ArgumentError) { client.beat(3, "ü" * 513) }
    end
    assert_raises(Oribi::Error) { client.beat(3, "beat") }
    assert_equal [[12, [2500, "beat"]], [12, [0, ""]]], @given.map { |given| [given.tag, given.body.unpack("Na*")] }
  end
end
