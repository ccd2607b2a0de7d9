# uninstall-gem.rb [DESTDIR]: removes what `make install-gem` installed.

require "fileutils"
require "rubygems/uninstaller"

root = ARGV.fetch(0, "")
if root.empty?
  Gem::Uninstaller.new("oribi", all: true, executables: true, force: true).uninstall if Gem::Specification.any? { |gem| gem.name == "oribi" }
else
  parts = %w[build_info cache doc extensions/*/* gems specifications]
  FileUtils.rm_rf(parts.flat_map { |part| Dir["#{root}#{Gem.dir}/#{part}/oribi-[0-9]*"] })
end
