# frozen_string_literal: true

# Builds the extension for the Ruby that runs this file, outside of the sources, and puts it where lib/oribi.rb finds it:
# lib/oribi/MAJOR.MINOR/oribi.so, as in a gem that is compiled for several versions of Ruby.

require "fileutils"
require "rbconfig"

module OribiExtension
  HERE = File.expand_path(__dir__)
  CHECKOUT = File.expand_path("../../../..", HERE)
  VERSION = RUBY_VERSION[/\A\d+\.\d+/]

  def self.build
    directory = File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(CHECKOUT, "target")), "ruby", VERSION)
    FileUtils.mkdir_p(directory)
    configure(directory) if stale?(directory)
    run(directory, *make, "--silent")
    install(File.join(directory, "oribi.so"))
  end

  # The Makefile has no rule for the Rust library and the headers.
  def self.stale?(directory)
    makefile = File.join(directory, "Makefile")
    return true unless File.exist?(makefile) && File.read(makefile).include?(library)

    written = File.mtime(makefile)
    sources = Dir[File.join(HERE, "*.{c,h}")]
    [library, header, File.join(HERE, "extconf.rb"), *sources].any? { |file| File.mtime(file) > written }
  end

  def self.configure(directory)
    FileUtils.rm_f(Dir[File.join(directory, "*.{o,so}")])
    run(directory, RbConfig.ruby, File.join(HERE, "extconf.rb"), out: File::NULL)
  end

  # Copies to another name first, because a running server keeps the file that it has mapped.
  def self.install(extension)
    target = File.join(CHECKOUT, "hosts/ruby/lib/oribi", VERSION, "oribi.so")
    FileUtils.mkdir_p(File.dirname(target))
    return if File.exist?(target) && FileUtils.identical?(extension, target)

    FileUtils.cp(extension, "#{target}.new")
    File.rename("#{target}.new", target)
  end

  def self.library
    File.join(ENV.fetch("ORIBI_LIB_DIR", File.join(CHECKOUT, "target/release")), "liboribi.a")
  end

  def self.header
    File.join(ENV.fetch("ORIBI_INCLUDE_DIR", File.join(CHECKOUT, "crates/capi/include")), "oribi.h")
  end

  def self.make
    ENV.fetch("MAKE", "make").split
  end

  def self.run(directory, *command, **options)
    system({ "MAKEFLAGS" => "" }, *command, chdir: directory, **options) || exit(1)
  end
end

OribiExtension.build
