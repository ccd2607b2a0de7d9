# frozen_string_literal: true

require "oribi/version"

# The extension is built for one version of Ruby; a gem may contain several.
begin
  require "oribi/#{RUBY_VERSION[/\A\d+\.\d+/]}/oribi"
rescue LoadError => e
  # The file exists but does not load: report that error.
  raise unless e.path == "oribi/#{RUBY_VERSION[/\A\d+\.\d+/]}/oribi"

  begin
    require "oribi/oribi"
  rescue LoadError
    raise LoadError, "Oribi is not built for Ruby #{RUBY_VERSION}: run hosts/ruby/ext/oribi/build.rb of its checkout with it"
  end
end

require "oribi/error"
require "oribi/setting"
require "oribi/configuration"
require "oribi/config_file"
require "oribi/options"
require "oribi/default_handler"
require "oribi/live"

# An application server for Rack apps whose network side is written in Rust.
#
#   Oribi.run(app, workers: 4, listen: ["127.0.0.1:5000", "/run/app.sock"])
#
# `rackup -s oribi`, `rails server -u oribi` and the `oribi` command call this library; docs/ruby.md describes them.
module Oribi
  # Serves a Rack app until the server is ordered to stop, and returns the exit status of the process. The options are those of
  # `rackup -s oribi -h`, in any spelling, and hooks. Reads a configuration file only if an option names one. Raises
  # Oribi::Error for an invalid option.
  def self.run(app, **options)
    Options.new(options, caller: "program", finds_file: false).configuration.serve(app)
  end
end

Oribi::DefaultHandler.offer
