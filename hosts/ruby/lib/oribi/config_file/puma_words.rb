# frozen_string_literal: true

module Oribi
  class ConfigFile
    # Words of Puma's files only that are not names of settings.
    module PumaWords
      # The app is always loaded before the workers are forked.
      def preload_app!(answer = true)
        preload_app(answer)
      end

      def on_worker_boot(given = nil, &block)
        indexed_hook(:on_worker_boot, :after_fork, given, block)
      end

      def on_worker_shutdown(given = nil, &block)
        indexed_hook(:on_worker_shutdown, :worker_stopping, given, block)
      end

      def after_booted(callable = nil, &block)
        indexed_hook(:after_booted, :server_ready, callable, block)
      end

      def lowlevel_error_handler(callable = nil, &block)
        sheet.set("error_handler", sheet.callable(:lowlevel_error_handler, callable, block))
      end

      # The plugin tmp_restart restarts the app when tmp/restart.txt is touched; `rails new` writes it into config/puma.rb.
      def plugin(name, *, **)
        return sheet.set("restart_file", "tmp/restart.txt") if name.to_s == "tmp_restart"

        sheet.unheeded(:plugin, "plugins belong to Puma; run what it starts as a service of its own")
      end

      # The command line names the app; by default that is the same file.
      def rackup(path = nil, *)
        sheet.unheeded(:rackup, "name the file on the command line: oribi FILE") unless path.to_s == "config.ru"
      end

      # The source of REMOTE_ADDR.
      def set_remote_address(source = :socket, *)
        return if source.to_s == "socket"
        return sheet.set("proxy_protocol", source[:proxy_protocol]) if source.is_a?(Hash) && source.key?(:proxy_protocol)

        advice = "name the proxies in front by trusted_proxies, which give the client by X-Forwarded-For; see docs/proxies.md"
        advice = "REMOTE_ADDR is the peer, or the client of trusted_proxies" unless source.is_a?(Hash) && source.key?(:header)
        sheet.unheeded(:set_remote_address, advice)
      end

      # The value of a setting that the file has set before.
      def get(name, default = nil)
        sheet.record.fetch(name.to_sym, default)
      end

      def http_content_length_limit(bytes)
        sheet.set("max_body_size", bytes)
      end

      # In Puma this is for workers that hang completely, and a request may take longer; elsewhere it is for requests.
      def worker_timeout(time)
        return sheet.set("worker_timeout", time) unless dialect_is?(:puma)

        sheet.unheeded(:worker_timeout, "use request_timeout, which is for each request")
      end

      # In Puma this is for a server without any requests; elsewhere it is for connections.
      def idle_timeout(time)
        return sheet.set("idle_timeout", time) unless dialect_is?(:puma)

        sheet.unheeded(:idle_timeout, "a server stays until it is told to stop; for connections use persistent_timeout")
      end

      # The number of requests of a connection that are answered in a row before other connections have their turn.
      def max_fast_inline(number)
        sheet.set("max_pipelined_requests", number.to_s == "Infinity" ? 65_535 : number)
      end

      def enable_keep_alives(answer = true)
        sheet.set("keepalive", answer)
      end

      def force_shutdown_after(time)
        sheet.set("graceful_timeout", { forever: "off", immediately: 0 }.fetch(time, time))
      end

      def stdout_redirect(output = nil, errors = nil, _append = true)
        stdout_path(output)
        stderr_path(errors)
      end

      # Puma's own access log, in its own form.
      def log_requests(answer = true)
        return unless answer

        sheet.set("access_log", "-")
        sheet.set("access_log_format", "rack")
      end

      def quiet(answer = true)
        sheet.set("access_log", "off") if answer
      end

      def debug
        sheet.set("log_level", "debug")
      end

      def clear_binds!; end

      # In Puma a block for servers with workers; here all are. It is run after all else in the file.
      def cluster(&block)
        sheet.later(sheet.callable(:cluster, nil, block))
      end

      def allow_underscore_headers(answer = true)
        sheet.set("underscore_headers", answer)
      end
    end
  end
end
