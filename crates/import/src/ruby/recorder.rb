# frozen_string_literal: true

# Runs a configuration file of Puma or Unicorn, and prints its calls as JSON:
# {"calls": [{"name", "arguments", "block", "line"}]}.
require "json"
require "etc"

# The object that the file is run in: each word that Ruby does not have itself is a call to remember.
class Recorder
  # Constants that files of Puma name.
  # rubocop:disable Naming/ConstantName -- Puma's names
  DefaultRackup = "config.ru"
  DefaultTCPHost = "0.0.0.0"
  DefaultTCPPort = 9292
  DefaultWorkerCheckInterval = 5
  DefaultWorkerTimeout = 60
  DefaultWorkerShutdownTimeout = 30
  # rubocop:enable Naming/ConstantName

  attr_reader :calls

  def initialize(path)
    @path = path
    @calls = []
    @later = []
  end

  def run
    instance_eval(File.read(@path), @path, 1)
    @later.each(&:call)
  end

  # In Puma a block for servers with workers, which is run after the whole file.
  def cluster(&block) = @later << block

  # A library that is not here is no reason to stop.
  def require(name)
    super
  rescue LoadError
    record(:require, [name], false)
    false
  end

  def respond_to_missing?(_name, _private = false) = true

  # Kernel has these words, too.
  %i[load test].each do |name|
    define_method(name) { |*arguments, **options, &block| record(name, arguments + [options].reject(&:empty?), !block.nil?) }
  end

  def method_missing(name, *arguments, **options, &block)
    record(name, arguments + [options].reject(&:empty?), !block.nil?)
  end

  private

  def record(name, arguments, block)
    place = caller_locations.find { |location| location.path == @path }
    @calls << { name: name, arguments: arguments.map { |value| plain(value) }, block: block, line: place&.lineno }
    nil
  end

  def whole(number)
    return number.to_s unless number.finite?

    number.to_i == number ? number.to_i : number
  end

  def plain(value)
    case value
    when nil, true, false, Integer, String then value
    when Float then whole(value)
    when Symbol, Pathname then value.to_s
    when Array then value.map { |inside| plain(inside) }
    when Hash then value.to_h { |key, inside| [key.to_s, plain(inside)] }
    when Range then "#{value.begin}:#{value.end}"
    else "a #{value.class}"
    end
  end
end

require "pathname"
path = ARGV.fetch(0)
out = $stdout.dup
$stdout.reopen($stderr)
recorder = Recorder.new(path)
begin
  recorder.run
rescue SystemExit, StandardError, ScriptError => e
  place = e.backtrace_locations&.find { |location| location.path == path }
  line = place ? place.lineno : e.message[/#{Regexp.escape(path)}:(\d+)/, 1].to_i
  reason = e.message.lines.first.to_s.chomp.sub(/\A.*#{Regexp.escape(path)}:\d+: /, "")
  warn("#{line}: #{e.class}: #{reason}")
  exit!(3)
end
out.write(JSON.generate(calls: recorder.calls))
out.flush
# Handlers of at_exit are for the server.
exit!(0)
