# frozen_string_literal: true

require "oribi/version"
require "oribi/configuration"
require "oribi/config_file"

module Oribi
  class ConfigFile
    # Reports a configuration file's settings to the `oribi` command before the app is loaded, because the command opens the
    # listeners. The process that loads the app reads the file again, for its hooks.
    #
    # Each statement is a row of texts: `set NAME VALUE PLACE` or `note TEXT`. A NUL ends each text, and a second NUL ends each
    # row.
    module Report
      # Returns the exit status.
      def self.main(path)
        out = take_standard_output
        configuration = Configuration.new
        file = ConfigFile.read(path, configuration, text: ConfigFile.text_from_command)
        configuration.to_pass.each { |said| row(out, "set", said.spelling, configuration.text_of(said), said.origin.words) }
        file.notes.each { |note| row(out, "note", note) }
        out.flush
        0
      rescue Error => e
        warn e.message
        1
      end

      # The file's own output is printed when it is read for the second time.
      def self.take_standard_output
        out = $stdout.dup
        $stdout.reopen(File::NULL, "w")
        out
      end

      def self.row(out, *texts)
        out.write(*texts.map { |text| "#{text.to_s.delete("\0")}\0" }, "\0")
      end

      private_class_method :take_standard_output, :row
    end
  end
end
