# frozen_string_literal: true

# Gives answers during which every object is moved, so that an address that was kept is no longer valid.
module Probe
  # A header value, or a piece of a body, that moves all others when it is asked for its text.
  class Mover
    def to_s
      Probe.move
      "moved"
    end
  end

  def self.move
    GC.compact
    # Fills the holes, so that freed memory looks different.
    Array.new(2000) { |number| "filler #{number}" }
  end

  # Short strings, which are stored in their objects and move with them.
  def self.short(number)
    "s#{number}"
  end

  on("/move") do |_env|
    toward = RUBY_VERSION < "3.2" ? { double_heap: true } : { expand_heap: true }
    GC.verify_compaction_references(**toward, toward: :empty)
    text("moved")
  end

  on("/move/headers") do |_env|
    fields = (1..30).to_h { |number| ["x-#{number}", number % 10 == 5 ? Mover.new : short(number)] }
    [200, fields.merge("x-list" => [short(1), Mover.new, short(2)]), [short(1), short(2)]]
  end

  on("/move/array") { |_env| [200, {}, [short(1), Mover.new, short(2), Mover.new, short(3)]] }

  on "/move/each" do |_env|
    pieces = Enumerator.new do |yielder|
      3.times do |number|
        yielder << short(number)
        move
      end
    end
    [200, { "x-short" => short(1) }, pieces]
  end

  on "/move/input" do |env|
    first = env["rack.input"].read(3)
    move
    rest = env["rack.input"].gets
    move
    [200, {}, [first, "|", rest, "|", env["rack.input"].read]]
  end

  on "/move/hints" do |env|
    env["rack.early_hints"].call({ "link" => short(1), "x-b" => Mover.new, "x-c" => short(2) })
    text("hinted")
  end

  on "/move/env" do |env|
    move
    text(%w[REQUEST_METHOD PATH_INFO QUERY_STRING HTTP_HOST].map { |name| env[name] }.join(" "))
  end

  on "/move/stream" do |env|
    [200, { "x-short" => short(1) }, StreamBody.new(env) do |stream|
      3.times do |number|
        stream.write(short(number), Mover.new, short(number))
      end
      stream.close
    end]
  end
end
