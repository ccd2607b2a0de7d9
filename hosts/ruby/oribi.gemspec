# frozen_string_literal: true

require_relative "lib/oribi/version"

# Three gems come from this file, which sees by the files in its folder which one it is:
#
# - the source gem (packages/gem/build), with the source of the core in ext/oribi: it is compiled when it is installed,
# - a binary gem (packages/gem/build-binary), with the program in libexec and extensions for several Rubies
#   (lib/oribi/MAJOR.MINOR/oribi.so),
# - the gem of a checkout (`make install-gem`), with extensions alone: `make install` has installed the program.
Gem::Specification.new do |spec|
  spec.name = "oribi"
  spec.version = Oribi::VERSION
  spec.summary = "An application server for Rack apps"
  spec.description = "Oribi's network side is written in Rust; an app is called only with a complete request."
  spec.authors = ["The Oribi maintainers"]
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.metadata["rubygems_mfa_required"] = "true"
  spec.files = Dir["lib/**/*.rb", "README.md", "LICENSE-*", "THIRD-PARTY", "oribi.gemspec", base: __dir__]
  spec.require_paths = ["lib"]
  spec.add_dependency "rack", ">= 2.2", "< 4"

  inside = ->(pattern) { Dir[pattern, base: __dir__] }
  packed = inside["ext/oribi/core.tar.gz"].any?
  program = packed ? [] : inside["libexec/oribi"]
  extensions = packed ? [] : inside["lib/oribi/*/oribi.so"]
  spec.files += extensions + program
  if packed
    spec.files += inside["ext/**/*.{c,h,rb,gz}"]
    spec.extensions = ["ext/oribi/extconf.rb"]
  end
  if packed || program.any?
    spec.bindir = "exe"
    spec.executables = ["oribi"]
    spec.files << "exe/oribi"
  end
  # The processor of the program, as its header (ELF) says. Not x86_64-linux, which a system with musl would also take. Older
  # versions of RubyGems do not know the difference.
  processor = ->(path) { { 62 => "x86_64", 183 => "aarch64" }.fetch(File.binread(path, 2, 18).unpack1("S<")) }
  binary = program.any? ? "#{processor.call(File.join(__dir__, program.first))}-linux-gnu" : Gem::Platform::CURRENT
  spec.platform = packed ? "ruby" : binary
  spec.required_rubygems_version = ">= 3.3.22" if program.any?

  # The versions of Ruby from the first to the last one that has an extension here. A requirement can leave out one in between
  # only by the names of its releases.
  minors = extensions.map { |path| path[%r{/3\.(\d+)/}, 1].to_i }
  minors = [1] if minors.empty?
  missing = (minors.min..minors.max).to_a - minors
  releases = missing.flat_map { |minor| (0..20).map { |release| "!= 3.#{minor}.#{release}" } }
  last = "< 3.#{minors.max + 1}.dev" if extensions.any?
  spec.required_ruby_version = [">= 3.#{minors.min}", last, *releases].compact
end
