# frozen_string_literal: true

require_relative "support/configured"

# No message about an option or about a word of a configuration file quotes a secret.
class SecretsTest < Minitest::Test
  include Configured

  # Secrets in their usual forms, each with the part that no message may contain.
  SECRETS = {
    "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMhunter2\n-----END PRIVATE KEY-----\n" => "hunter2",
    "postgres://shop:hunter2@db.internal/shop" => "hunter2",
    "DB_PASSWORD=hunter2" => "hunter2",
    "ghp_4f1c0b6e8d7a49d2b3c5e6f708192a3b" => "8d7a49d2"
  }.freeze

  OPTIONS = %i[Port Host Listen workers threads fibers frobnicate SSLKey Metrics timeout max_body_size collect_every Path
               ConfigFile].freeze

  # TEXT is the secret as a string of Ruby.
  WORDS = {
    "puma.rb" => [
      "workers TEXT", "threads TEXT, TEXT", "port TEXT", "port 1, TEXT", "bind TEXT", "bind 'ssl://0.0.0.0:1?key_pem=' + TEXT",
      "ssl_bind '0.0.0.0', '1', key_pem: TEXT", "ssl_bind '0.0.0.0', '1', cert: TEXT, key: TEXT, verify_mode: TEXT",
      "ssl_bind '0.0.0.0', '1', cert_pem: TEXT, key_pem: TEXT, frobnicate: TEXT", "activate_control_app TEXT, auth_token: TEXT",
      "state_path TEXT", "plugin TEXT", "set_remote_address header: TEXT", "environment TEXT", "worker_timeout TEXT",
      "persistent_timeout TEXT", "a_word_of_tomorrow TEXT, key: TEXT", "rackup TEXT", "tag TEXT", "stdout_redirect TEXT",
      "force_shutdown_after TEXT", "lowlevel_error_handler TEXT", "workers Integer(TEXT)", "TEXT.frobnicate", "raise TEXT",
      "load TEXT", "x = { TEXT => 1 }.fetch(:none)", "workers = = TEXT"
    ],
    "unicorn.rb" => [
      "listen TEXT", "listen 1, frobnicate: TEXT", "worker_processes TEXT", "timeout TEXT", "user TEXT", "logger TEXT",
      "before_exec TEXT", "after_fork TEXT", "pid TEXT"
    ],
    "oribi.rb" => ["workers TEXT", "listen TEXT", "frobnicate TEXT", "after_fork TEXT", "metrics TEXT", "ssl_key TEXT"]
  }.freeze

  OPTIONS.each do |name|
    define_method(:"test_the_option_#{name}") do
      SECRETS.each do |text, secret|
        refute_quotes(secret, name) { Oribi::Options.new({ name => text }).configuration.settings }
      end
    end
  end

  WORDS.each do |name, words|
    define_method(:"test_words_of_#{name.delete_suffix(".rb")}") do
      words.each do |word|
        SECRETS.each do |text, secret|
          refute_quotes(secret, word) do
            configuration, notes = read(word.gsub("TEXT") { text.dump }, name: name)
            warn(*notes)
            configuration.settings
          end
        end
      end
    end
  end

  private

  # The block may succeed or fail, but what it says has no secret.
  def refute_quotes(secret, place)
    failure = ""
    out, err = capture_io do
      yield
    rescue Oribi::Error => e
      failure = e.message
    end
    refute_includes "#{out}#{err}#{failure}", secret, place.to_s
  end
end
