# frozen_string_literal: true

module Oribi
  class ConfigFile
    status = "`oribi ctl` and `oribi top` reach the server by its control socket, see docs/control.md"
    preloaded = "the app is always loaded before the workers are forked"
    threads = "threads live as long as their worker: after_fork is called once in each worker"

    # Words of other servers that Oribi knows but does not honour, with what to do instead.
    UNHEEDED = {
      # Puma's
      activate_control_app: status,
      after_refork: "workers are forked from the process that loaded the app only",
      after_stopped: "use before_worker_shutdown",
      after_worker_boot: "use before_fork, which runs in the same process",
      after_worker_shutdown: "use before_worker_shutdown, in the worker itself",
      before_worker_fork: "use before_fork",
      after_worker_fork: "use before_fork, which runs in the same process",
      app: "the app is what `run` in config.ru says",
      before_refork: "workers are forked from the process that loaded the app only",
      before_restart: "use before_fork",
      before_thread_exit: threads,
      before_thread_start: threads,
      clean_thread_locals: "thread locals stay as the app leaves them",
      bind_to_activated_sockets: "listeners that systemd or start_server hand down are always taken",
      control_auth_token: status,
      custom_logger: "use error_log and log_level",
      daemonize: "use a service manager, such as systemd",
      default_host: "give a host with `port` or `bind`",
      drain_on_shutdown: "what has been accepted is always answered; see graceful_timeout",
      extra_runtime_dependencies: "put the gem into the Gemfile",
      fiber_per_request: "fiber locals stay as the app leaves them",
      fork_worker: preloaded,
      import_from_control_server: status,
      inject: "write what it does into this file",
      io_selector_backend: "the event loop is Oribi's own",
      log_formatter: "use access_log_format",
      mutate_stdout_and_stderr_to_sync_on_write: "standard output is always written at once",
      nakayoshi_fork: "run GC.compact in before_fork",
      on_refork: "workers are forked from the process that loaded the app only",
      on_restart: "use before_fork",
      on_stopped: "use before_worker_shutdown",
      on_thread_exit: threads,
      on_thread_start: threads,
      on_worker_fork: "use before_fork",
      process_hook: "use the hooks of workers",
      prune_bundler: preloaded,
      queue_requests: "requests are always read before the app is called",
      rack_url_scheme: "name the proxies in front by trusted_proxies; they report the scheme by X-Forwarded-Proto",
      raise_exception_on_sigterm: "the exit status is 0 when all was answered",
      restart_command: "the listeners stay open while the app is loaded anew",
      shutdown_debug: "the log says what was cut off",
      silence_single_worker_warning: "there is no such warning",
      silence_fork_callback_warning: "there is no such warning",
      state_path: status,
      state_permission: status,
      supported_http_methods: "all methods reach the app",
      set_default_host: "give a host with `port` or `bind`",
      single: "workers are always processes of their own",
      tag: "use app_name",
      wait_for_less_busy_worker: "a worker takes a request only when it is free",
      worker_check_interval: "a worker that dies is noticed at once",
      worker_culling_strategy: "TTOU stops the worker that was started last",
      worker_directory: "use directory",
      # Unicorn's
      after_worker_exit: "use before_worker_shutdown, in the worker itself",
      before_exec: "no hook runs before an upgrade (USR2); see docs/signals.md",
      check_client_connection: "an app is called also if its client has gone meanwhile",
      default_middleware: "no middleware is added",
      logger: "use error_log and log_level",
      trust_x_forwarded: "use trusted_proxies",
      worker_exec: "workers are forked from the process that loaded the app only"
    }.freeze
  end
end
