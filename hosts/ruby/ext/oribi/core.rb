# frozen_string_literal: true

require "fileutils"
require "open3"
require_relative "../../lib/oribi/version"

# Builds liboribi.a and the program `oribi` with cargo, from the source in core.tar.gz, without a network.
class OribiCore
  SOURCE = File.join(__dir__, "core.tar.gz")
  PRODUCTS = { "liboribi" => "liboribi.a", "oribi-cli" => "oribi" }.freeze
  # In packages, nobody debugs the core; symbols of the program would be most of its size.
  PROFILE = { "CARGO_PROFILE_RELEASE_DEBUG" => "false", "CARGO_PROFILE_RELEASE_STRIP" => "symbols", "MAKEFLAGS" => nil }.freeze

  # Whether the source is here: it is in a gem, and not in a checkout.
  def self.packed?
    File.exist?(SOURCE)
  end

  # Builds some of the PRODUCTS, named by their packages, and leaves them in a directory. Exits if that fails.
  def self.build(packages, directory)
    new(File.join(directory, "core")).build(packages, directory)
  end

  def initialize(folder)
    @folder = folder
  end

  def build(packages, directory)
    FileUtils.rm_rf(@folder)
    FileUtils.mkdir_p(@folder)
    system("tar", "-xzf", SOURCE, "-C", @folder, "--strip-components=1") || abort("tar cannot unpack #{SOURCE}")
    compile(cargo, packages)
    packages.each { |package| FileUtils.mv(product(package), directory) }
  ensure
    # Hundreds of megabytes.
    FileUtils.rm_rf(@folder)
  end

  private

  # Returns the path of a cargo that is new enough.
  def cargo
    named = ENV.fetch("CARGO", "")
    candidates = named.empty? ? ["cargo", File.join(Dir.home, ".cargo/bin/cargo")] : [named]
    found = candidates.to_h { |path| [path, version(path)] }.compact
    abort "cargo is missing. #{remedy}" if found.empty?

    path, = found.find { |_, version| version >= needed }
    path || abort("cargo is too old: #{found.map { |cargo, version| "#{cargo} is #{version}" }.join(', ')}. #{remedy}")
  end

  def version(path)
    output, status = Open3.capture2(path, "--version", err: File::NULL)
    Gem::Version.new(output[/\Acargo (\d+\.\d+\.\d+)/, 1]) if status.success? && output.match?(/\Acargo \d/)
  rescue SystemCallError
    nil
  end

  def needed
    Gem::Version.new(File.read(File.join(@folder, "crates/oribi-cli/Cargo.toml"))[/^rust-version = "(.*)"$/, 1])
  end

  def remedy
    "The core of Oribi is compiled with Rust #{needed} or newer: install it from https://rustup.rs. Or install the library " \
      "and the program of Oribi #{Oribi::VERSION}, which need no Rust and are found by pkg-config: on Debian, the packages " \
      "liboribi-dev, oribi and pkgconf."
  end

  # RubyGems shows the output of this process only if something fails. The build takes minutes, so it goes to the terminal.
  def compile(cargo, packages)
    terminal = terminal()
    terminal&.puts "oribi: compiling #{packages.map { |package| PRODUCTS.fetch(package) }.join(' and ')}, for some minutes"
    output = terminal || $stdout
    words = ["build", "--release", "--locked", "--offline", *packages.flat_map { |package| ["--package", package] }]
    system(PROFILE, cargo, *words, "--target-dir", "target", chdir: @folder, out: output, err: output) ||
      abort("cargo could not compile the core of Oribi")
  ensure
    terminal&.close
  end

  def terminal
    File.open("/dev/tty", "w")
  rescue SystemCallError
    nil
  end

  # A setting of the user may add the name of the target to the path.
  def product(package)
    name = PRODUCTS.fetch(package)
    Dir[File.join(@folder, "target/{,*/}release/#{name}")].first || abort("cargo has built no #{name}")
  end
end
