# frozen_string_literal: true

require "fileutils"
require "minitest/autorun"
require "open3"
require "rbconfig"
require "tmpdir"

# The handler that `rails server` and `rackup` choose if nobody names one.
class DefaultHandlerTest < Minitest::Test
  LIBRARY = File.expand_path("../lib", __dir__)
  QUESTION = <<~RUBY
    require "rack"
    begin
      require "rackup/handler"
    rescue LoadError
      require "rack/handler"
    end
    handlers = defined?(Rackup::Handler) ? Rackup::Handler : Rack::Handler
    require "oribi"
    begin
      print handlers.%s
    rescue LoadError
      print "none"
    end
  RUBY
  WITHOUT_PUMA = %(raise LoadError, "Puma is not in the Gemfile")
  WITH_PUMA = "module %s; module Handler; module Puma; end; register 'puma', Puma; end; end"

  def test_oribi_is_chosen_where_puma_is_missing
    assert_match(/\ARack(up)?::Handler::Oribi\z/, answer("default", WITHOUT_PUMA))
  end

  def test_puma_is_chosen_where_both_are
    assert_match(/\ARack(up)?::Handler::Puma\z/, answer("default", WITH_PUMA))
  end

  def test_a_variable_chooses_oribi_beside_puma
    environment = { "RACK_HANDLER" => "oribi", "RACKUP_HANDLER" => "oribi" }
    assert_match(/\ARack(up)?::Handler::Oribi\z/, answer("default", WITH_PUMA, environment))
  end

  def test_a_program_that_lists_servers_gets_one_of_them
    assert_equal "none", answer("pick(%w[no-such-server])", WITHOUT_PUMA)
  end

  private

  def answer(question, puma, environment = {})
    Dir.mktmpdir do |folder|
      { "rack" => "Rack", "rackup" => "Rackup" }.each do |name, constant|
        FileUtils.mkdir_p("#{folder}/#{name}/handler")
        File.write("#{folder}/#{name}/handler/puma.rb", format(puma, constant))
      end
      output, status = Open3.capture2e({ "RACK_HANDLER" => nil, "RACKUP_HANDLER" => nil, **environment },
                                       RbConfig.ruby, "-I", folder, "-I", LIBRARY, "-e", format(QUESTION, question))
      assert_predicate status, :success?, output
      output
    end
  end
end
