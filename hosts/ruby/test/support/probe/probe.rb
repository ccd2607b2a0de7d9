# frozen_string_literal: true

require "digest"
require "uri"

# The app: a table of paths.
module Probe
  RACK3 = Rack.release.to_i >= 3
  PATHS = {} # rubocop:disable Style/MutableConstant -- filled by on

  module_function

  # The block answers this path, below /bare or not.
  def on(path, &answer)
    PATHS[path] = answer
  end

  def call(env)
    answer = PATHS[env["PATH_INFO"].delete_prefix("/bare")] or return text("no such path", 404)
    answer.call(env)
  end

  def text(content, status = 200, headers = {})
    [status, { "content-type" => "text/plain", **headers }, [content]]
  end

  # A parameter of the query.
  def parameter(env, name, default = nil)
    URI.decode_www_form(env["QUERY_STRING"]).to_h.fetch(name, default)
  end

  # Writes down that something happened, for the test that gave this request its identifier.
  def note(env, event)
    line = "#{parameter(env, 'id')} #{event}\n"
    File.open(ENV.fetch("PROBE_EVENTS"), "a") { |file| file.syswrite(line) }
  end

  # So many bytes that repeat only every 251, so that a lost or doubled block shows.
  def pattern(size)
    @period ||= (0..250).map(&:chr).join.b
    (@period * ((size / 251) + 1)).byteslice(0, size)
  end

  on("/") { |_env| text("probe\n") }
  on("/process") { |_env| text(Process.pid.to_s) }
  on("/status") { |env| [parameter(env, "code").to_i, {}, []] }
  on("/method") { |env| text(env["REQUEST_METHOD"]) }
end

require_relative "incoming"
require_relative "bodies"
require_relative "sockets"
require_relative "failures"
require_relative "fields"
