# frozen_string_literal: true

# uninstall_gem.rb [DESTDIR]: removes what `make install-gem` installed.

require "fileutils"
require "rubygems/uninstaller"

root = ARGV.fetch(0, "")
if !root.empty?
  parts = %w[build_info cache doc extensions/*/* gems specifications]
  FileUtils.rm_rf(parts.flat_map { |part| Dir["#{root}#{Gem.dir}/#{part}/oribi-[0-9]*"] })
elsif Gem::Specification.any? { |gem| gem.name == "oribi" }
  Gem::Uninstaller.new("oribi", all: true, executables: true, force: true).uninstall
end
