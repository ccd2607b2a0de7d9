# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/leak_check"

# A short test for leaks; the long one is xt/leak.rb.
class LeakTest < Minitest::Test
  REQUESTS = 6000
  # Ruby's heap grows now and then until it has reached its size, which takes longer with several threads. A leak makes the heap
  # grow in each attempt.
  ATTEMPTS = 9
  # In KiB. A leak of 200 bytes in each of the requests would be 1172.
  LIMIT = 1100

  def test_nothing_is_left_behind
    [1, 4].each do |threads|
      check = LeakCheck.new(threads: threads)
      check.run(REQUESTS)
      descriptors = check.descriptors
      assert_settles(check)
      check.wait_for_descriptors(descriptors)
      Waiting.wait_until("an idle worker") { check.idle? }
      assert_equal 0, check.stop
    ensure
      check&.server&.kill
    end
  end

  def assert_settles(check)
    sizes = [check.memory]
    ATTEMPTS.times do
      check.run(REQUESTS)
      sizes << check.memory
      return assert(true) if sizes[-1] - sizes[-2] < LIMIT
    end
    flunk "the worker grows with every #{REQUESTS} requests: #{sizes.join(', ')} KiB"
  end
end
