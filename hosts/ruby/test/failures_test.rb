# frozen_string_literal: true

require_relative "support/matrix"

# Faulty apps: the client gets a 500, the log has the reason, and the worker survives.
module Failures
  include Matrix::Tests

  GARBAGE = %w[
    nil string two four status-nil status-text status-low status-interim status-high
    status-negative status-huge headers-nil headers-number
    header-name-number header-name-space header-name-colon header-name-empty header-name-newline header-value-return
    header-value-nul header-value-control header-array-newline body-nil body-number body-string body-object length-negative
    length-text lengths-two
  ].freeze

  def workers
    Array.new(8) { server.get("/process").body }.uniq
  end

  # A 500, and the connection and the processes are as they were.
  def assert_survived(target, log: nil)
    before = server.wait_for_workers(self.class.server_options[:settings][:workers])
    connection = server.connection
    response = connection.get(target)
    assert_equal 500, response.status
    yield response if block_given?
    server.wait_for_log(log) if log
    assert_equal "probe\n", server.get("/").body
    assert_equal before.sort, server.workers.sort, target
  end

  def test_an_exception
    assert_survived("/raise?secret=1",
                    log: %r{GET /raise: .*failures\.rb:\d+.*raised <on purpose> \(ArgumentError\)}) do |response|
      refute_match(/purpose|failures\.rb/, response.body, "the page says nothing in production")
    end
    assert_match(/failures\.rb:\d+:in .*call/, server.log, "the log has the backtrace")
    refute_match(/secret/, server.log)
  end

  def test_exceptions_of_all_kinds
    assert_survived("/raise/odd", log: /OddError/)
    assert_survived("/raise/script", log: /NotImplementedError/)
    assert_survived("/raise/interrupt", log: /Interrupt/)
    assert_survived("/raise/deep", log: /SystemStackError/)
    assert_survived("/raise/timeout", log: /Timeout::Error/)
  end

  def test_throw
    assert_survived("/raise/throw", log: /UncaughtThrowError/)
  end

  def test_a_timeout_that_the_app_rescues
    assert_equal "Timeout::Error", server.get("/raise/timeout-rescued").body
  end

  def test_a_child_of_the_app_that_raises_answers_nobody
    connection = server.connection
    assert_equal "the child ended with 1", connection.get("/raise/child").body
    assert_equal "probe\n", connection.get("/").body
  end

  def test_a_child_that_returns_into_the_server_ends_there
    connection = server.connection
    assert_equal "parent", connection.get("/bare/fork/returns?id=#{id = new_id}").body
    assert_equal ["child"], server.wait_for_events(id, 1)
    assert_equal "probe\n", connection.get("/").body
  end

  def test_garbage
    GARBAGE.each do |kind|
      response = server.get("/bare/garbage?kind=#{kind}")
      assert_equal 500, response.status, kind
      refute_match(/injected/i, response.head, kind)
    end
    assert_equal "probe\n", server.get("/").body
    server.wait_for_log(/the status must be a number from 200 to 999, or 101/)
    server.wait_for_log(/body must respond to each/)
  end

  def test_lint_is_watching
    assert_survived("/garbage?kind=status-low", log: /Lint/)
  end
end

Matrix.of(Failures)
