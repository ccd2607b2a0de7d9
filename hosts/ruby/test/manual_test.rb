# frozen_string_literal: true

require_relative "support/configured"

# docs/ruby.md's table of options shows the options for words of other servers; this compares it with the settings that result.
class ManualTest < Minitest::Test
  include Configured

  PAGE = File.expand_path("../../../docs/ruby.md", __dir__)
  SERVERS = %w[Puma Unicorn Rhebok].freeze

  # The rows of the table with this column.
  def self.rows(heading)
    lines = File.readlines(PAGE, chomp: true)
    first = lines.index { |line| line.start_with?("|") && line.include?("| #{heading} |") }
    cells = ->(line) { line.delete_prefix("|").delete_suffix("|").split("|").map(&:strip) }
    lines[(first + 2)..].take_while { |line| line.start_with?("|") }.map { |line| cells[lines[first]].zip(cells[line]).to_h }
  end

  def words(cell)
    cell.to_s.scan(/`([^`]+)`/).flatten
  end

  def test_words_become_the_settings_that_the_table_says
    compared = 0
    self.class.rows("Oribi").each do |row|
      ours = words(row["Oribi"]).map { |option| option.delete_prefix("--") }
      SERVERS.flat_map { |server| words(row[server]).product([server]) }.each do |word, server|
        next if word.start_with?("-") || ours.empty?

        compared += 1
        assert_includes ours, meaning(word, server), "#{word} in #{row}"
      end
    end
    assert_operator compared, :>, 15
  end

  def test_words_for_which_there_is_no_setting_exist
    self.class.rows("Oribi").select { |row| words(row["Oribi"]).empty? }.each do |row|
      SERVERS.flat_map { |server| words(row[server]) }.each do |word|
        known = Oribi::ConfigFile::Words.method_defined?(word) || Oribi::Configuration.name_of(word)
        assert known, "#{word} in #{row}"
      end
    end
  end

  private

  # Words that set a part of a setting, or for several.
  PARTS = { "Path" => "listen", "Host" => "listen", "Port" => "listen", "Timeout" => "header-timeout" }.freeze

  # The setting that a word is another name of, or that it sets in a file of its server.
  def meaning(word, server)
    name = PARTS[word] || (Oribi::Configuration.name_of(word) unless word == "timeout")
    name || read("#{word} 5", name: "#{server.downcase}.rb").first.said.last&.name
  end
end
