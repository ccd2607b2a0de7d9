# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/leak_check"

# A quick look for leaks; the long one is xt/leak.rb.
class LeakTest < Minitest::Test
  # With several threads it takes longer until Ruby's heap has found its size.
  REQUESTS = { 1 => 3000, 4 => 12_000 }.freeze

  def test_nothing_is_left_behind
    REQUESTS.each do |threads, requests|
      check = LeakCheck.new(threads: threads)
      check.run(requests)
      before = check.memory
      descriptors = check.descriptors
      check.run(6000)
      after = check.memory
      # A leak of 250 bytes in each of the 6000 requests would be 1465 KiB.
      assert_operator after - before, :<, 1400, "#{before} KiB after #{requests} requests, #{after} KiB after 6000 more"
      Waiting.wait_until("no more than #{descriptors} descriptors") { check.descriptors <= descriptors }
      Waiting.wait_until("an idle worker") { check.idle? }
      assert_equal 0, check.stop
    ensure
      check&.server&.kill
    end
  end
end
