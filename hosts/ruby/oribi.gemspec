# frozen_string_literal: true

require_relative "lib/oribi/version"

# A gem with the extension in it, for the Rubies that it was built for (lib/oribi/MAJOR.MINOR/oribi.so). `make install-gem`
# makes it.
Gem::Specification.new do |spec|
  spec.name = "oribi"
  spec.version = Oribi::VERSION
  spec.summary = "An application server for Rack apps"
  spec.description = "Oribi's network side is written in Rust; an app is called only with a complete request."
  spec.authors = ["The Oribi maintainers"]
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.platform = Gem::Platform::CURRENT
  spec.required_ruby_version = ">= 3.1"
  spec.metadata["rubygems_mfa_required"] = "true"

  spec.files = Dir["lib/**/*.{rb,so}", "README.md", base: __dir__]
  spec.require_paths = ["lib"]

  spec.add_dependency "rack", ">= 2.2", "< 4"
end
