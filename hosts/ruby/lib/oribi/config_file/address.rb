# frozen_string_literal: true

require "oribi/error"
require "oribi/setting"

module Oribi
  class ConfigFile
    # Parses listen addresses in other servers' formats. Each method returns pairs of a setting and its value.
    module Address
      # Rhebok creates a socket that every user may connect to.
      def self.socket(path, persona)
        [["listen", path.to_s.include?("?mode=") || !persona.file_wins? ? "unix:#{path}" : "unix:#{path}?mode=777"]]
      end

      # Options of Puma's addresses for TLS that can be ignored: they ask for more speed, or for less safety than Oribi always
      # provides.
      NEEDLESS = %w[low_latency optimize_for_latency reuse reuse_port].freeze
      # The option for the text of a certificate for which Puma has no option.
      AUTHORITIES = "ca_pem"

      # Puma's `ssl_bind`. Yields notes about parts that are not honoured.
      def self.tls(host, port, options, &note)
        encrypted("ssl://#{host}:#{port}", options.map { |name, value| [name.to_s, escape(value.to_s)] }, &note)
      end

      # An address for TLS with its options, whose values are percent-encoded.
      def self.encrypted(address, options)
        raise Error, "`#{AUTHORITIES}` cannot be taken: name a file by `ca`" if options.assoc(AUTHORITIES)

        backlog, options = options.partition { |name,| name == "backlog" }
        dropped, kept = options.partition { |name, value| needless?(name, value) }
        dropped = dropped.map(&:first) - %w[low_latency optimize_for_latency no_tlsv1 no_tlsv1_1]
        yield "#{dropped.map { |name| "`#{name}`" }.join(', ')} of an address is not honoured" unless dropped.empty?
        query = kept.map { |pair| pair.compact.join("=") }.join("&")
        [*backlog.last(1), ["listen", query.empty? ? address : "#{address}?#{query}"]]
      end

      def self.needless?(name, value)
        NEEDLESS.include?(name) || (%w[no_tlsv1 no_tlsv1_1].include?(name) && value != "true")
      end

      private_class_method :encrypted, :needless?

      def self.escape(text)
        text.b.gsub(%r{[^a-zA-Z0-9._~/-]}n) { |byte| format("%%%02X", byte.ord) }
      end
      private_class_method :escape

      # Puma's `bind`: tcp://HOST:PORT?backlog=..., unix://PATH?mode=0777&umask=...&backlog=... Yields notes about parts that
      # are not honoured.
      def self.puma(text, &note)
        scheme, rest = text.to_s.split("://", 2)
        return [["listen", text.to_s]] if rest.nil?
        return tls_of_text(text.to_s, &note) if %w[ssl https].include?(scheme)

        unless %w[tcp unix http].include?(scheme)
          yield "`#{scheme}://` is not honoured: Oribi listens on tcp://, ssl:// and unix://"
          return []
        end
        place, query = rest.split("?", 2)
        options = query.to_s.split("&").to_h { |pair| [*pair.split("=", 2), nil].first(2) }
        mode = options["mode"]&.to_i(8) || (options["umask"] && (0o777 & ~options["umask"].to_i(8)))
        common({ backlog: options["backlog"], reuseport: options.key?("reuse_port") || nil }, &note)
          .push(["listen", scheme == "unix" ? unix(place, mode) : place])
      end

      def self.tls_of_text(text, &note)
        address, query = text.split("?", 2)
        return [["listen", text]] if query.nil?

        encrypted(address, query.split("&").map { |pair| pair.split("=", 2) }, &note)
      end
      private_class_method :tls_of_text

      # Unicorn's `listen`: a port, HOST:PORT, a path, with options.
      def self.unicorn(address, options, &note)
        text = address.to_s
        mode = options[:umask] && (0o777 & ~options[:umask])
        place = path?(text) ? unix(text.delete_prefix("unix:").sub(%r{\A~[^/]*}) { |home| File.expand_path(home) }, mode) : text
        common(options, &note).push(["listen", place])
      end

      # Options that need no note, because Oribi always behaves well without them.
      NATURAL = %i[tcp_nodelay tcp_nopush tcp_defer_accept accept_filter umask tries delay].freeze

      # An address whose path is relative to a directory.
      def self.within(directory, text)
        path = text[/\Aunix:(.*)/m, 1] || (text if text.include?("/") && !text.include?("://"))
        path ? "unix:#{File.expand_path(path, directory)}" : text
      end

      def self.common(options)
        pairs = []
        pairs << ["backlog", options[:backlog]] if options[:backlog].to_i.positive?
        pairs << ["reuse-port", true] if options[:reuseport]
        ignored = options.keys - NATURAL - %i[backlog reuseport]
        yield "#{ignored.map { |name| "`#{name}`" }.join(', ')} of an address is not honoured" unless ignored.empty?
        pairs
      end
      private_class_method :common

      def self.unix(path, mode)
        mode ? format("unix:%<path>s?mode=%<mode>o", path: path, mode: mode) : "unix:#{path}"
      end
      private_class_method :unix

      def self.path?(text)
        text.start_with?("/", "~", "./", "unix:") || text.end_with?(".sock", ".socket")
      end
      private_class_method :path?
    end
  end
end
