# frozen_string_literal: true

require "oribi/config_file/address"
require "oribi/setting"

module Oribi
  class ConfigFile
    # One word for each name of each setting.
    module SettingWords
      Setting::TABLE.each do |setting|
        setting.names.each do |name|
          word = name.tr("-", "_")
          define_method(word) { |value = true| sheet.set(word, value) }
        end
      end
    end

    # The words of Oribi's own files and of Rhebok's that are more than the name of a setting, and the hooks.
    module OwnWords
      # A listen address; several addresses are several listeners.
      def bind(*addresses)
        addresses.flatten.each do |address|
          sheet.address { |note| Address.puma(address, &note) }
        end
      end

      # An address for TLS, with `cert` and `key`, or with their texts in `cert_pem` and `key_pem`. An unknown option is an
      # error, so that the server does not start: the option may protect something.
      def ssl_bind(host, port, options = {})
        sheet.address { |note| Address.tls(host, port, options, &note) }
      end

      # A port, or an address with Unicorn's options.
      def listen(*addresses, **options)
        addresses.flatten.each { |address| sheet.address { |note| Address.unicorn(address, options, &note) } }
      end

      # A port, with a host in Puma's form.
      def port(number, host = nil)
        sheet.default_host("0.0.0.0") if dialect_is?(:puma)
        sheet.port(number, host)
      end

      # Rhebok's Unix socket.
      def path(path)
        Address.socket(path, sheet.configuration.persona).each { |name, value| sheet.set(name, value) }
      end

      # In other servers 0 means a single process.
      def workers(number)
        sheet.set("workers", number.to_s == "0" ? 1 : number)
      end

      # MAX, or MIN and MAX.
      def threads(least, most = nil)
        sheet.set("threads", most.nil? ? least : "#{least}:#{most}")
      end

      def access_log(target = true)
        sheet.set("access_log", target)
      end

      def environment(name)
        sheet.set("environment", name)
      end

      def early_hints(answer = true)
        sheet.set("early_hints", answer)
      end

      # Enables garbage collection between requests.
      def oobgc(answer = true)
        sheet.set("oobgc", answer)
      end

      def max_gc_per_request(number)
        sheet.set("max_gc_per_request", number)
      end

      def min_gc_per_request(number)
        sheet.set("min_gc_per_request", number)
      end

      # A handler that answers when an app has raised an exception.
      def error_handler(callable = nil, &block)
        sheet.set("error_handler", sheet.callable(:error_handler, callable, block))
      end

      # A directory to change to before the app is loaded.
      def directory(path)
        sheet.configuration.directory = File.expand_path(path.to_s)
      end

      # Evaluates another file.
      def load(path, *)
        sheet.evaluate(self, path.to_s)
      end

      # Called in the process that loaded the app, before each worker is forked; from a puma.rb only before the first.
      def before_fork(callable = nil, &block)
        callable = sheet.callable(:before_fork, callable, block)
        hook = fork_hook(callable)
        sheet.hook(:before_fork, dialect_is?(:puma) ? Hook.once(hook) : hook)
      end

      # Called in each worker, before it answers requests.
      def after_fork(callable = nil, &block)
        sheet.hook(:after_fork, fork_hook(sheet.callable(:after_fork, callable, block)))
      end

      # Puma's name for after_fork.
      def before_worker_boot(given = nil, &block)
        indexed_hook(:before_worker_boot, :after_fork, given, block)
      end

      # Called in a worker that has been ordered to end.
      def before_worker_shutdown(given = nil, &block)
        indexed_hook(:before_worker_shutdown, :worker_stopping, given, block)
      end

      # Called in the process that loaded the app, when connections are accepted.
      def on_booted(callable = nil, &block)
        indexed_hook(:on_booted, :server_ready, callable, block)
      end

      # Called in a worker when no request waits.
      def out_of_band(callable = nil, &block)
        indexed_hook(:out_of_band, :out_of_band, callable, block)
      end

      private

      # In place of a callable there may be a key, as in files of Puma: hooks with the same key share a Hash in each worker.
      def indexed_hook(word, moment, given, block)
        shared = given.is_a?(Symbol) || given.is_a?(String) ? [sheet.data[given.to_sym]] : []
        sheet.hook(moment, Hook.with_index(sheet.callable(word, given, block), *shared))
      end

      # Unicorn's fork hooks get a server and a worker. A hook with two parameters gets both of them. A hook with one parameter
      # gets the server in a unicorn.rb, and the index of the worker in any other file.
      def fork_hook(callable)
        wanted = Hook.count(callable)
        return Hook.with_index(callable) unless wanted > 1 || (wanted == 1 && dialect_is?(:unicorn))

        Hook.with_server(callable, UnicornServer.new(sheet.record))
      end

      def dialect_is?(dialect)
        sheet.dialect == dialect
      end
    end
  end
end
