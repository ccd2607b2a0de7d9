# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/test_server"

# A child process that an app has forked ends as a Ruby program does, with Ruby's message and exit status, wherever the app has
# forked it. The worker continues, and its client gets one answer.
class ChildrenTest < Minitest::Test
  APP = File.join(__dir__, "support/children.ru")
  PLACES = File.read(APP)[/^  PLACES = \{\n(.*?)^  \}\.freeze/m, 1].scan(/^    "([a-z_]+)" => /).flatten.freeze
  # The status of each end, and Ruby's message. A child that returns into the server has no message.
  DEEDS = {
    "raise" => [1, /^\S+children\.ru:\d+:in .*raised in the child \(RuntimeError\)$/],
    "exec" => [1, %r{^\S+children\.ru:\d+:in .*No such file or directory - /nonexistent/program \(Errno::ENOENT\)$}],
    "abort" => [1, /^aborted in the child$/],
    "exit" => [4, nil],
    "exit-now" => [5, nil],
    "nothing" => [0, nil]
  }.freeze

  { "one thread" => 1, "three threads" => 3 }.each do |shape, threads|
    PLACES.each do |place|
      define_method(:"test_children_of_#{place}_with_#{shape}") do
        TestServer.open(app: APP, settings: { workers: 1, threads: threads }) do |server|
          worker = server.get("/").body
          # A child may speak on a socket that it has inherited, but not write to a stream.
          deeds = %w[stream hijack].include?(place) ? DEEDS.except("nothing") : DEEDS
          deeds.each { |deed, (status, message)| check(server, place, deed, status, message) }
          assert_equal worker, server.get("/").body, server.log
          refute_match(/exit\(|panicked|\[BUG\]/, server.log)
        end
      end
    end
  end

  private

  def check(server, place, deed, status, message)
    id = "#{place}-#{deed}"
    before = server.log.bytesize
    assert_equal "fine", server.get("/#{place}/#{deed}?id=#{id}").body, "#{deed}\n#{server.log}"
    ruby_ends = !%w[exit-now nothing].include?(deed)
    server.wait_for_events(id, ruby_ends ? 2 : 1)
    expected = ruby_ends ? ["at_exit", "status #{status}"] : ["status #{status}"]
    assert_equal expected, server.events(id) - (deed == "nothing" ? ["at_exit"] : []), "#{deed}\n#{server.log}"
    said = server.log.byteslice(before..)
    message ? assert_match(message, said, deed) : assert_equal("", said, deed)
  end
end
