# frozen_string_literal: true

# serve.rb APP OPTIONS: serves a config.ru by Oribi.serve alone. OPTIONS is JSON: {"settings": {...}, "extras": {...}}.
# The app may put hooks into HOOKS and other options of Oribi.serve into EXTRAS.

require "json"
require "rack"
require "rack/lint"
require "uri"
require "oribi/#{RUBY_VERSION[/\A\d+\.\d+/]}/oribi"

$stderr.sync = $stdout.sync = true
HOOKS = Hash.new { |hooks, name| hooks[name] = [] }
EXTRAS = {} # rubocop:disable Style/MutableConstant -- filled by the app

options = JSON.parse(ARGV[1])
settings = Oribi::Settings.new
options["settings"].each do |name, values|
  Array(values).each do |value|
    message = settings.set(name, value.to_s, "the test")
    abort(message) if message
  end
end

app, = Rack::Builder.parse_file(ARGV[0])
extras = options["extras"].transform_keys(&:to_sym)
extras[:out_of_band] &&= extras[:out_of_band].transform_keys(&:to_sym)
exit Oribi.serve(app, settings, rack_version: Rack.release.split(".").first(2).map(&:to_i), hooks: HOOKS,
                                **extras, **EXTRAS)
