# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require "oribi"

# The common part of tests of options and of configuration files: none starts a server.
module Configured
  CLEAN = %w[HOST PORT WEB_CONCURRENCY RACK_ENV RAILS_ENV TMPDIR].freeze

  def setup
    @environment = CLEAN.to_h { |name| [name, ENV.delete(name)] }
    @directory = File.realpath(Dir.mktmpdir("oribi"))
    @here = Dir.pwd
    Dir.chdir(@directory)
  end

  def teardown
    Dir.chdir(@here)
    FileUtils.remove_entry(@directory)
    @environment.each { |name, value| ENV[name] = value }
  end

  def file(name, text)
    FileUtils.mkdir_p(File.dirname(name))
    File.write(name, text)
    name
  end

  # The options that are passed to the server: NAME=VALUE, in order. The server must accept all of them.
  def told(configuration)
    configuration.settings
    configuration.to_pass.map { |said| "#{said.name}=#{configuration.text_of(said)}" }
  end

  # The values passed for a few settings.
  def told_of(configuration, *names)
    told(configuration).select { |text| names.include?(text[/\A[^=]+/]) }
  end

  # The configuration of a file of that name, and its settings that are not honoured.
  def read(text, name: "oribi.rb", persona: Oribi::Persona::ORIBI)
    configuration = Oribi::Configuration.new(persona)
    notes = Oribi::ConfigFile.read(file(name, text), configuration).notes
    [configuration, notes]
  end

  # The result of handler options.
  def options(persona: Oribi::Persona::ORIBI, **options)
    said = nil
    out, err = capture_io { said = Oribi::Options.new(options, persona:).configuration }
    assert_empty out
    @notices = err.lines(chomp: true)
    said
  end

  def rhebok(**options)
    options(persona: Oribi::Persona::RHEBOK, **options)
  end
end
