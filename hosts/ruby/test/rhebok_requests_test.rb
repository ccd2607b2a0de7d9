# frozen_string_literal: true

require_relative "support/matrix"

# Requests and responses under Rhebok's name and options, as `rackup -s Rhebok` runs an app.
module RhebokRequests
  include Matrix::Tests

  def ticks(pid)
    File.read("/proc/#{pid}/stat").split[13, 2].sum { |number| Integer(number, 10) }
  end

  # True once none of the processes has used any processor time for a while.
  def assert_idle
    processes = [server.pid, *server.workers]
    Waiting.wait_until("processes that use no time") do
      before = processes.sum { |pid| ticks(pid) }
      sleep 0.3
      processes.sum { |pid| ticks(pid) } == before
    end
  end

  def test_a_client_that_leaves_or_stalls_within_its_content_costs_nothing
    stalled = server.connection
    stalled.write("POST /input/read HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
    10.times do
      connection = server.connection
      connection.write("POST /input/read HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nhalf")
      connection.reset
    end
    assert_idle
    assert_equal "probe\n", server.get("/").body
  end

  def test_workers_without_requests_use_no_time
    server.get("/")
    assert_idle
  end

  def test_an_app_that_raises_costs_no_worker
    before = server.wait_for_workers(2).sort
    5.times { assert_equal 500, server.get("/raise").status }
    assert_equal before, server.workers.sort
  end

  def test_bodies_of_any_number_of_parts_are_whole
    [1023, 1024, 1025, 20_000].each do |count|
      assert_equal Array.new(count) { |number| "#{number} " }.join, server.get("/bare/bodies/many?count=#{count}").body
    end
  end

  def test_no_content_is_sent_where_there_is_none
    [["HEAD", "/bodies/each?id=1"], ["HEAD", "/bare/bodies/array"], ["GET", "/bodies/without-content?code=204&id=1"],
     ["GET", "/bodies/without-content?code=304&id=1"]].each do |method, target|
      connection = server.connection
      connection.send_request(method, target, "Connection" => "close")
      assert connection.rest.end_with?("\r\n\r\n"), target
    end
  end

  def test_names_are_compared_whole
    response = server.get("/fields/like-date")
    assert_equal %w[1 2 3 4], %w[D Dat Ser Conn].map { |name| response[name] }.compact
    assert_equal [1, 1], [response.all("Date").size, response.all("Server").size]
  end

  def test_lower_case_names_and_lists_of_values
    response = server.get("/fields/length")
    assert_equal [["5"], []], [response.all("Content-Length"), response.all("Transfer-Encoding")]
    assert_equal %w[one two three], server.get("/bare/fields/array").all("X-Lines")
    refute_match(/rack\./, server.get("/fields/rack").head)
    assert_equal "hello", server.get("/bare/stream/length").body
  end

  def test_a_body_whose_each_raises_is_closed
    server.get("/bodies/raises?id=#{id = new_id}")
    assert_equal ["close"], server.wait_for_events(id, 1)
  end

  def test_lengths_that_are_no_plain_number_are_refused
    ["+5", "3, 9", "5 5", "0x5", "", "-1", "99999999999999999999"].each do |length|
      connection = server.connection
      connection.write("POST /input/read HTTP/1.1\r\nHost: a\r\nContent-Length: #{length}\r\n\r\nhello")
      assert_match(%r{\AHTTP/1.1 4\d\d }, connection.rest, length)
    end
  end

  def test_bytes_behind_the_content_are_not_part_of_it
    connection = server.connection
    connection.write("POST /input/read HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" \
                     "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert_equal %w[hello probe], [connection.response.body, connection.response.body.chomp]
  end

  def test_content_in_very_many_chunks
    connection = server.connection
    connection.write("POST /input/read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    connection.write("1\r\nx\r\n" * 100_000)
    connection.write("0\r\n\r\n")
    assert_equal 100_000, connection.response.body.bytesize
  end

  def test_the_path_stays_encoded
    connection = server.connection
    connection.send_request("GET", "/env%69ronment")
    assert_equal 404, connection.response.status
  end

  def test_multiple_lines_the_date_and_the_connection
    assert_equal %w[one two], server.get("/bare/fields/blank-lines").all("X-Lines")
    assert_equal ["Mon, 01 Jan 2001 00:00:00 GMT"], server.get("/fields/date").all("Date")
    assert_equal "ContentAgain0", server.get("/bare/bodies/array-values").body
    assert_equal "ContentAgain0", server.get("/bare/bodies/values?id=1").body
  end

  def test_continue_is_said_before_the_content_is_sent
    connection = server.connection
    connection.write("POST /input/read HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert_equal 100, connection.response.status
    connection.write("5\r\nhello\r\n0\r\n\r\n")
    assert_equal "hello", connection.response.body
  end
end

Matrix.once(RhebokRequests, by: :rackup, arguments: %w[-s Rhebok -E production -O MaxWorkers=2 -O ChunkedTransfer])
