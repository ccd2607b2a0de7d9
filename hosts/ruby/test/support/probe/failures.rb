# frozen_string_literal: true

require "timeout"

# Errors of apps.
module Probe
  class OddError < StandardError
    def message
      raise "even the message raises"
    end
  end

  on("/raise") { |_env| raise ArgumentError, "raised <on purpose>" }
  on("/raise/odd") { |_env| raise OddError }
  on("/raise/script") { |_env| raise NotImplementedError, "no StandardError" }
  on("/raise/interrupt") { |_env| raise Interrupt, "as if by a signal" }
  on("/raise/deep") { |env| PATHS["/raise/deep"].call(env) }
  on("/raise/exit") { |_env| exit(7) }
  on("/raise/abort") { |_env| abort("aborted by the probe") }
  on("/raise/throw") { |_env| throw :nowhere }
  on("/raise/kill") { |_env| Thread.current.kill }
  on("/raise/timeout") { |_env| Timeout.timeout(0.02) { sleep } }

  on "/raise/timeout-rescued" do |_env|
    Timeout.timeout(0.02) { sleep }
  rescue Timeout::Error => e
    text(e.class.name)
  end

  on "/raise/child" do |_env|
    pid = fork { raise "raised in a child" }
    _, status = Process.wait2(pid)
    text("the child ended with #{status.exitstatus}")
  end

  on "/fork/returns" do |env|
    pid = fork
    note(env, "child") unless pid
    Process.wait(pid) if pid
    text(pid ? "parent" : "child")
  end

  GARBAGE = {
    "nil" => nil,
    "string" => "a string",
    "two" => [200, {}],
    "four" => [200, {}, [], nil],
    "status-nil" => [nil, {}, []],
    "status-text" => ["fine", {}, []],
    "status-low" => [99, {}, []],
    "status-interim" => [150, {}, []],
    "status-high" => [1000, {}, []],
    "status-negative" => [-200, {}, []],
    "status-huge" => [2**64, {}, []],
    "headers-nil" => [200, nil, []],
    "headers-number" => [200, 5, []],
    "header-name-number" => [200, { 5 => "x" }, []],
    "header-name-space" => [200, { "a b" => "x" }, []],
    "header-name-colon" => [200, { "a:b" => "x" }, []],
    "header-name-empty" => [200, { "" => "x" }, []],
    "header-name-newline" => [200, { "a\r\nb" => "x" }, []],
    "header-value-return" => [200, { "x-a" => "a\r\nInjected: yes" }, []],
    "header-value-nul" => [200, { "x-a" => "a\0b" }, []],
    "header-value-control" => [200, { "x-a" => "a\x01b" }, []],
    "header-array-newline" => [200, { "x-a" => ["a\rInjected: yes"] }, []],
    "body-nil" => [200, {}, nil],
    "body-number" => [200, {}, 5],
    "body-string" => [200, {}, "a string"],
    "body-object" => [200, {}, Object.new],
    "length-negative" => [200, { "content-length" => "-5" }, ["hello"]],
    "length-text" => [200, { "content-length" => "five" }, ["hello"]],
    "lengths-two" => [200, { "content-length" => %w[5 6] }, ["hello"]]
  }.freeze

  on("/garbage") { |env| GARBAGE.fetch(parameter(env, "kind")) }
end
