# frozen_string_literal: true

require "open3"
require_relative "core"
require_relative "../../lib/oribi/version"

# The library that the extension is linked with. It is looked for in these places:
#
# 1. in the directory that ORIBI_LIB_DIR names; ORIBI_INCLUDE_DIR may name that of the header,
# 2. in the checkout that contains this file,
# 3. among the installed libraries of exactly this version, by pkg-config (Debian's package liboribi-dev).
#
# A gem contains the source of the core, from which it is built if it is in none of them.
class OribiLibrary
  CHECKOUT = File.expand_path("../../../..", __dir__)

  # The directory of oribi.h.
  attr_reader :headers
  # The path of liboribi.a.
  attr_reader :archive
  # The flags of the linker for the libraries that liboribi.a needs.
  attr_reader :needs
  # Paths at which a program of the same build may be.
  attr_reader :programs

  def initialize(headers, archive, needs: "-lpthread -ldl -lm -lrt -lutil", programs: [])
    @headers = headers
    @archive = archive
    @needs = needs
    @programs = programs
  end

  # Returns the library that exists already; nil if it must be built. Exits if a variable of the environment names a directory
  # without it.
  def self.find
    library = named || (OribiCore.packed? ? installed : in_checkout)
    return library if library.nil? || library.complete?

    abort library.complaint
  end

  def self.named
    directory = ENV.fetch("ORIBI_LIB_DIR", "")
    return if directory.empty?

    programs = [File.join(directory, "oribi"), File.expand_path("../bin/oribi", directory)]
    new(ENV.fetch("ORIBI_INCLUDE_DIR", own_headers), File.join(directory, "liboribi.a"), programs:)
  end

  def self.in_checkout
    new(ENV.fetch("ORIBI_INCLUDE_DIR", own_headers), File.join(CHECKOUT, "target/release/liboribi.a"))
  end

  def self.installed
    return unless pkg_config("--exact-version=#{Oribi::VERSION}")

    directory = pkg_config("--variable=libdir")
    needs = pkg_config("--static", "--libs").to_s.split - ["-loribi"]
    programs = [File.join(pkg_config("--variable=prefix").to_s, "bin/oribi"), "/usr/bin/oribi"]
    new(pkg_config("--variable=includedir"), File.join(directory.to_s, "liboribi.a"), needs: needs.join(" "), programs:)
  end

  # Returns what pkg-config prints about the library; nil if it is missing, or does not know it.
  def self.pkg_config(*question)
    output, status = Open3.capture2(ENV.fetch("PKG_CONFIG", "pkg-config"), *question, "oribi", err: File::NULL)
    output.strip if status.success?
  rescue SystemCallError
    nil
  end

  # A gem has the header beside this file.
  def self.own_headers
    OribiCore.packed? ? __dir__ : File.join(CHECKOUT, "crates/capi/include")
  end

  private_class_method :named, :in_checkout, :installed, :pkg_config

  def complete?
    File.exist?(File.join(headers, "oribi.h")) && File.exist?(archive)
  end

  # The reason why the library is not complete.
  def complaint
    if File.exist?(archive)
      "oribi.h is not in #{headers}: set ORIBI_INCLUDE_DIR to the directory that has it"
    else
      "#{archive} does not exist: run `make build` at the top of the checkout, or set ORIBI_LIB_DIR"
    end
  end

  # Returns the program of this version that is installed beside the library, if there is one.
  def program
    programs.find do |path|
      output, status = Open3.capture2(path, "--version", err: File::NULL)
      status.success? && output.lines.first&.chomp == "oribi #{Oribi::VERSION}"
    rescue SystemCallError
      false
    end
  end
end
