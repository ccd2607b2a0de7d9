# frozen_string_literal: true

require "oribi/config_file/unicorn_objects"

module Oribi
  class ConfigFile
    # What only Unicorn's files say, where it is not a setting by one of its names.
    module UnicornWords
      # With Unicorn it is the time that an app may take; everywhere else the time that a client may take.
      def timeout(time)
        sheet.record[:timeout] = time
        sheet.set(dialect_is?(:unicorn) ? "request_timeout" : "timeout", time)
      end

      # Who the workers become.
      def user(name, group = nil)
        sheet.set("user", name)
        sheet.set("group", group) if group
      end

      # The app is always loaded before the workers are forked.
      def preload_app(answer = true)
        sheet.record[:preload_app] = answer
        sheet.unheeded(:preload_app, "the app is always loaded before the workers are forked") unless answer
      end

      def working_directory(path)
        directory(path)
      end

      def stderr_path(path)
        sheet.set("error_log", path) if path
      end

      def stdout_path(path)
        sheet.set("stdout_path", path) if path
      end

      def after_worker_ready(callable = nil, &block)
        callable = sheet.callable(:after_worker_ready, callable, block)
        sheet.hook(:after_fork, Hook.with_server(callable, UnicornServer.new(sheet.record)))
      end

      # Content can always be read again, where the app's version of Rack knows of that.
      def rewindable_input(_answer = true); end
    end
  end
end
