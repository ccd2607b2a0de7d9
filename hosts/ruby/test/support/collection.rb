# frozen_string_literal: true

# A server whose worker collects garbage in a given way: collection.rb DIRECTORY WAY THREADS RACK-MAJOR RACK-MINOR. It runs in a
# Ruby that has loaded nothing else, because a collection looks at all objects.

require File.expand_path("../../lib/oribi/#{RUBY_VERSION[/\A\d+\.\d+/]}/oribi", __dir__)

directory, way, threads, *rack_version = ARGV

WAYS = {
  "stress" => ->(*) { GC.stress = true },
  "moving" => ->(*) { GC.auto_compact = true && GC.stress = true },
  "thread" => ->(*) { Thread.new { loop { GC.start && sleep(0.001) } } },
  "between" => ->(*) {} # the app itself does
}.freeze

class Body
  def each
    yield +"a" * 50
    yield +"b" * 50
  end

  def close; end
end

FILE = File.join(directory, "file")
File.write(FILE, "c" * 100)

app = lambda do |env|
  headers = { "x-long" => "v" * 40, "x-lines" => "a" * 30 + "\n" + "b" * 30, "x-number" => 123,
              +"x-list" => ["c" * 30, +"d" * 30] }
  40.times { |number| headers["x-#{number}"] = "value #{number}" } if env["QUERY_STRING"] == "many"
  case env["PATH_INFO"]
  when "/array" then [200, headers, ["a" * 50, 5, +"b" * 50]]
  when "/each" then ["200", headers, Body.new]
  when "/file" then [200, headers, Struct.new(:to_path).new(FILE)]
  when "/call" then [200, headers, ->(stream) { stream.write("a" * 50) && stream.close }]
  when "/input" then [200, headers, [env["rack.input"].gets, env["rack.input"].read(5), env["rack.input"].read]]
  when "/env" then [200, headers, [env.map { |name, value| "#{name}=#{value}\n" if value.is_a?(String) }.join]]
  when "/raise" then raise "with a message " * 10
  when "/garbage" then [200, { "a b" => "c" }, nil]
  when "/hints" then env["rack.early_hints"].call(headers) || [200, {}, ["hinted"]]
  when "/after"
    env["rack.after_reply"] << -> { env["counter"] = 1 }
    env["rack.response_finished"]&.push(->(*) { env["counter"] = 2 })
    [200, headers, ["after"]]
  when "/hijack"
    env["rack.hijack"].call.then { |io| io.write("HTTP/1.1 200 OK\r\n\r\ntaken") && io.close }
  when "/partial" then [200, headers.merge("rack.hijack" => ->(io) { io.write("partial") && io.close }), []]
  when "/compact"
    GC.compact
    env["rack.after_reply"] << -> { GC.compact }
    [200, { "x-name" => env["HTTP_X_NAME"] }, [env["QUERY_STRING"], env["SERVER_NAME"].empty?.to_s]]
  end
end

$stderr.reopen(File.join(directory, "log"), "a")
$stderr.sync = true
settings = Oribi::Settings.new
{ "listen" => File.join(directory, "socket"), "workers" => "1", "threads" => threads }.each do |name, value|
  settings.set(name, value, "the test")
end
exit!(Oribi.serve(app, settings, rack_version: rack_version.map(&:to_i), environment: "development",
                                 hooks: { after_fork: [WAYS.fetch(way)] }))
