# frozen_string_literal: true

# Sends a million mixed requests, half of them with content; clients abort half of these in the middle. At the end the memory of
# the worker must be the same as after a quarter of the requests, within 2 %. No descriptor may be lost, and a worker with
# nothing to do uses no processor time.
#
# ruby -Ilib xt/leak.rb; REQUESTS=100000 makes the test shorter, THREADS=4 sets the number of threads (1; two million requests
# if more).

require "minitest/autorun"
require_relative "../test/support/leak_check"

# The long form of test/leak_test.rb.
class LongLeakTest < Minitest::Test
  THREADS = Integer(ENV.fetch("THREADS", "1"), 10)
  # With several threads it takes Ruby's heap longer to find its size.
  REQUESTS = Integer(ENV.fetch("REQUESTS", THREADS > 1 ? "2000000" : "1000000"), 10)
  # Ruby's heap has found its size by then.
  SETTLED = REQUESTS / 4

  def test_a_million_requests
    check = LeakCheck.new(threads: THREADS)
    check.run(SETTLED)
    before = check.memory
    descriptors = check.descriptors
    report(check, before)
    10.times do
      check.run((REQUESTS - SETTLED) / 10)
      report(check, check.memory)
    end
    after = check.memory
    assert_in_delta before, after, before * 0.02, "KiB after #{SETTLED} requests and after #{check.requests}"
    check.wait_for_descriptors(descriptors)
    Waiting.wait_until("an idle worker") { check.idle? }
    assert_equal 0, check.stop
  ensure
    check&.server&.kill
  end

  def report(check, memory)
    puts "#{memory} KiB after #{check.requests} requests"
  end
end
