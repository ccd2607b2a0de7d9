# frozen_string_literal: true

# The changes that `rails new` applies to the app that it has generated: the edits that a developer makes by hand.

# Debian has no package of some gems that a new Gemfile names for development; they take no part in serving.
gsub_file "Gemfile", /^ *gem ['"](?!rails|sqlite3|puma|tzinfo-data)[^\n]*\n/, ""
append_to_file "Gemfile", <<~RUBY

  gem 'oribi', path: '#{File.expand_path('../../../hosts/ruby', __dir__)}', require: false
RUBY

# Debian 12 has a version for the adapter of this Rails.
append_to_file "Gemfile", "gem 'redis', require: false\n" if Gem::Specification.find_all_by_name("redis").any?

# Between the tests and the app there is TLS only in some of them.
gsub_file "config/environments/production.rb", /^ *(?:# )?config\.force_ssl = true$/,
          '  config.force_ssl = ENV.key?("FORCE_SSL")'

# In a log that tests read, failures matter, and requests do not.
gsub_file "config/environments/production.rb", /^ *config\.log_level = .*$/, "  config.log_level = :warn"

# The same app is tested with connections of an edge and with sockets that it takes itself.
insert_into_file "config/application.rb", "require 'oribi/action_cable' if ENV.key?('CABLE_AT_EDGE')\n",
                 after: /^Bundler\.require.*\n/

source_paths.unshift __dir__
directory "overlay", ".", force: true
