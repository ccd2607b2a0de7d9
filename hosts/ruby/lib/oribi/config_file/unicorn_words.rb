# frozen_string_literal: true

require "oribi/config_file/unicorn_objects"

module Oribi
  class ConfigFile
    # Words of Unicorn's files only that are not names of settings.
    module UnicornWords
      # In Unicorn this is how long an app may take; elsewhere how long a client may take.
      def timeout(time)
        sheet.record[:timeout] = time
        sheet.set(dialect_is?(:unicorn) ? "request_timeout" : "timeout", time)
      end

      # The user that the workers change to.
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

      # Content can always be rewound, if the app's version of Rack supports that.
      def rewindable_input(_answer = true); end
    end
  end
end
