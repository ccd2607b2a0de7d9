# frozen_string_literal: true

# Prints the specification by which "gem 'oribi'" in a Gemfile finds the package: its files are Ruby's own vendor files.
require_relative "../hosts/ruby/lib/oribi/version"

puts Gem::Specification.new { |spec|
  spec.name = "oribi"
  spec.version = Oribi::VERSION
  spec.summary = "An application server for Rack apps"
  spec.authors = ["The Oribi authors"]
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.date = Time.at(ENV.fetch("SOURCE_DATE_EPOCH").to_i).utc
  spec.require_paths = ["lib"]
  spec.add_dependency "rack", ">= 2.2", "< 4"
}.to_ruby
