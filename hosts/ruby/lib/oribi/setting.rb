# frozen_string_literal: true

module Oribi
  # A setting of the server: the data that Ruby needs before the server is loaded.
  class Setting
    attr_reader :name, :aliases, :opposites, :variable, :placeholder, :default, :help

    def initialize(name, aliases, opposites, variable, placeholder, default, help)
      @name = name
      @aliases = aliases
      @opposites = opposites
      @variable = variable
      @placeholder = placeholder
      @default = default
      @help = help
    end

    # All names, including those that mean the opposite.
    def names
      [name, *aliases, *opposites]
    end

    # Whether it is on or off.
    def switch?
      placeholder.empty?
    end

    # Whether the environment sets it. Many tools set a variable to the empty string to unset it.
    def in_environment?
      !variable.nil? && !ENV.fetch(variable, "").strip.empty?
    end

    class << self
      # The setting with a name in any spelling: `max_requests`, `MaxRequests`, `max-requests`. Nil: there is none.
      def find(name)
        @by_name ||= TABLE.flat_map { |setting| setting.names.map { |known| [squash(known), setting] } }.to_h
        @by_name[squash(name)]
      end

      # A name in the form in which it is compared.
      def squash(name)
        name.to_s.delete("-_").downcase
      end
    end
  end
end

require "oribi/setting/table"
