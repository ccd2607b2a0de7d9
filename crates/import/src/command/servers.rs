//! The servers whose command lines are known: their flags and their defaults.

use super::flags::{Flag, To, bare, maybe, one};
use crate::address::V4;

/// A server.
pub(super) struct Server {
    pub names: &'static [&'static str],
    pub title: &'static str,
    pub language: &'static str,
    pub tables: &'static [&'static [Flag]],
    /// The file of the app, if the command names none.
    pub file: &'static str,
    /// The address without flags: host and port. Without a host it has both families, as all others without one.
    pub host: &'static str,
    pub port: &'static str,
    /// Options of the app without flags.
    pub defaults: &'static [(&'static str, &'static str)],
    /// The environment of the app without flags.
    pub environment: &'static str,
    /// A note about the whole server.
    pub note: Option<&'static str>,
}

const BACKGROUND: &str = "a configuration file does not send the server to the background: start it by a service manager, or \
     with oribi -c oribi.toml -D";
const PUMA_FILE: &str = "config/puma.rb: Oribi reads it beside the app, too; an option that neither sets has the default of \
     Oribi: workers one for each CPU (Puma: 1), threads 1 (Puma: 5)";
const EARLY_HINTS: &str = "early_hints true in config/puma.rb or config/oribi.rb beside the app: it is off by default";
const ALWAYS_LOADED: &str = "the app is always loaded before the workers are forked";
const RELOAD: To = To::Watch;

/// Flags of plackup, which all servers of Perl have.
const PLACK: &[Flag] = &[
    one(&["-o", "--host"], To::Host),
    one(&["-p", "--port"], To::Port),
    one(&["-S", "--socket"], To::Socket),
    one(&["-l", "--listen"], To::Listen),
    bare(&["-D", "--daemonize"], To::Lost(BACKGROUND)),
    one(&["-E", "--env"], To::Environment),
    one(&["-a", "--app"], To::File),
    one(&["-e"], To::Code),
    one(&["-I", "--include"], To::Include),
    one(&["-M"], To::Module),
    one(&["-R", "--Reload"], To::Watch),
    bare(&["-r", "--reload"], RELOAD),
    one(&["-s", "--server"], To::Handler),
    one(&["-L", "--loader"], To::Same(ALWAYS_LOADED)),
    one(&["--access-log"], To::Server("access-log")),
    one(&["--path"], To::Mount),
    bare(&["--no-default-middleware"], To::Same("Oribi adds no middleware")),
    bare(&["--default-middleware"], To::Lost("Oribi adds no middleware: write it in the app")),
    bare(&["-v", "--version", "-h", "--help"], To::Lost("it serves nothing")),
];

const STARMAN: &[Flag] = &[
    one(&["--workers", "--max-workers"], To::App("workers")),
    one(&["--max-requests"], To::App("max-requests")),
    bare(&["--preload-app"], To::Same(ALWAYS_LOADED)),
    bare(&["--disable-keepalive"], To::ServerIs("keepalive-timeout", "0")),
    one(&["--keepalive-timeout"], To::Server("keepalive-timeout")),
    one(&["--read-timeout"], To::Server("read-timeout")),
    one(&["--backlog"], To::Server("backlog")),
    one(&["--user"], To::App("user")),
    one(&["--group"], To::App("group")),
    one(&["--pid"], To::Server("pid-file")),
    one(&["--error-log"], To::Server("error-log")),
    bare(&["--enable-ssl", "--ssl"], To::Same("ssl-cert encrypts connections")),
    one(&["--ssl-cert", "--ssl-cert-file"], To::Server("ssl-cert")),
    one(&["--ssl-key", "--ssl-key-file"], To::Server("ssl-key")),
    bare(&["--disable-proctitle"], To::ServerIs("proctitle", "off")),
];

const STARLET: &[Flag] = &[
    one(&["--max-workers", "--workers"], To::App("workers")),
    one(&["--timeout"], To::Server("timeout")),
    one(&["--keepalive-timeout"], To::Server("keepalive-timeout")),
    one(&["--max-keepalive-reqs", "--max-keepalive-requests"], To::Server("max-keepalive-requests")),
    one(&["--max-reqs-per-child"], To::App("max-requests")),
    one(&["--min-reqs-per-child"], To::App("min-requests")),
    one(&["--spawn-interval"], To::App("spawn-interval")),
    one(&["--err-respawn-interval"], To::App("respawn-interval")),
    one(&["--main-process-delay", "--main-thread-delay"], To::Lost("Oribi's processes do not poll")),
    one(
        &["--child-exit", "--max-readahead-reqs", "--max-keepalive-connection"],
        To::Lost("max-connections in [server] bounds the connections of an edge"),
    ),
];

const FCGI: &[Flag] = &[
    one(&["--nproc"], To::App("workers")),
    one(&["--pid", "--pidfile"], To::Server("pid-file")),
    one(&["--manager"], To::Same("Oribi looks after its processes itself")),
    one(&["--proc-title"], To::App("app-name")),
    maybe(&["--keep-stderr"], To::Same("messages of the app are in the error log")),
    one(&["--backlog"], To::Server("backlog")),
];

const MOJO: &[Flag] = &[
    one(&["-l", "--listen"], To::Listen),
    one(&["-m", "--mode"], To::Environment),
    one(&["-w", "--workers"], To::App("workers")),
    one(&["-b", "--backlog"], To::Server("backlog")),
    one(&["-c", "--clients"], To::Server("max-connections")),
    one(&["-i", "--inactivity-timeout"], To::Server("timeout")),
    one(&["-k", "--keep-alive-timeout"], To::Server("keepalive-timeout")),
    one(&["-r", "--requests"], To::Server("max-keepalive-requests")),
    one(&["-G", "--graceful-timeout"], To::App("graceful-timeout")),
    one(&["-P", "--pid-file"], To::Server("pid-file")),
    one(&["-a", "--accepts"], To::Lost("max-requests replaces a worker after a number of requests, not of connections")),
    one(&["-H", "--heartbeat-timeout"], To::Lost("request-timeout bounds the time of a request")),
    one(&["-I", "--heartbeat-interval"], To::Lost("there is no heartbeat: request-timeout bounds the time of a request")),
    one(&["-s", "--spare"], To::Lost("reload-mode = \"whole\" starts all new workers before the old ones stop")),
    bare(&["-p", "--proxy"], To::Lost("trusted-proxies in [server] names the proxies in front")),
    one(&["--home"], To::Directory),
    bare(&["-f", "--foreground"], To::Same("a server by a service manager stays in the foreground")),
    bare(&["-s", "--stop", "-t", "--test", "-h", "--help"], To::Lost("it serves nothing: oribi ctl stop, oribi check")),
];

const RACK: &[Flag] = &[
    one(&["-I", "--include"], To::Include),
    one(&["-r", "--require"], To::Module),
    one(&["-E", "--env", "-e", "--environment"], To::Environment),
    one(&["-o", "--host"], To::Host),
    one(&["-p", "--port"], To::Port),
    bare(&["-D", "-d", "--daemonize", "--daemon"], To::Lost(BACKGROUND)),
    bare(&["--debug", "-w", "--warn"], To::Lost("RUBYOPT in environment has the flags of Ruby: -d, -w")),
    bare(&["-q", "--quiet", "-s", "--silent"], To::Same("without access-log no requests are logged")),
    bare(&["-N", "--no-default-middleware"], To::Same("Oribi adds no middleware")),
    bare(&["-v", "--version", "-V", "-h", "--help"], To::Lost("it serves nothing")),
];

const RACKUP: &[Flag] = &[
    one(&["-s", "--server"], To::Handler),
    one(&["-O", "--option"], To::HandlerOption),
    one(&["-P", "--pid"], To::Server("pid-file")),
    one(&["-e", "--eval", "-b", "--builder"], To::Code),
    bare(&["-d", "--debug"], To::Lost("RUBYOPT in environment has the flags of Ruby: -d")),
    one(&["--heap", "--profile", "--profile-mode"], To::Lost("Oribi profiles no memory: a gem does")),
];

const PUMA: &[Flag] = &[
    one(&["-b", "--bind", "--bind-to-activated-sockets"], To::Listen),
    one(&["-w", "--workers"], To::App("workers")),
    one(&["-t", "--threads"], To::Threads),
    one(&["--timeout"], To::Lost("request-timeout of the app bounds the time of a request")),
    one(
        &["-C", "--config"],
        To::Configuration(
            "the file has more: oribi import FILE reads it, and Oribi itself reads config/puma.rb beside the \
             app",
        ),
    ),
    bare(&["--no-config"], To::Lost("Oribi reads config/puma.rb beside the app: rename or remove it")),
    bare(&["--preload"], To::Same(ALWAYS_LOADED)),
    maybe(&["--fork-worker"], To::Lost("workers are forked by the process that has loaded the app")),
    one(&["--pidfile"], To::Server("pid-file")),
    one(&["--redirect-stdout"], To::Lost("the app's standard output is that of the server")),
    one(&["--redirect-stderr"], To::Server("error-log")),
    bare(&["--redirect-append"], To::Same("the error log is appended to")),
    one(&["--dir"], To::Directory),
    one(&["--tag"], To::App("app-name")),
    one(&["--idle-timeout"], To::Lost("the server does not end when it is idle")),
    one(&["-S", "--state"], To::Lost("oribi ctl finds the server by its control socket: option control in [server]")),
    one(&["--control-url", "--control"], To::Lost("oribi ctl reaches the server at a Unix socket: option control in [server]")),
    one(&["--control-token"], To::Lost("the permissions of the control socket protect it; there is no token")),
    bare(&["--prune-bundler"], To::Lost("start the server with the gems of the app: bundle exec oribi")),
    one(&["--extra-runtime-dependencies"], To::Lost("start the server with the gems of the app: bundle exec oribi")),
    bare(&["--early-hints"], To::Lost(EARLY_HINTS)),
    bare(&["--log-requests"], To::ServerIs("access-log", "-")),
    one(&["--restart-cmd"], To::Lost("oribi ctl reload, or oribi ctl upgrade, keeps the addresses open")),
    one(&["--plugin"], To::Lost("no plugins: restart-file = \"tmp/restart.txt\" of the app is the plugin tmp_restart")),
];

const UNICORN: &[Flag] = &[
    one(
        &["-c", "--config-file"],
        To::Configuration(
            "the file has more: oribi import FILE reads it, and Oribi itself reads config/unicorn.rb beside \
             the app",
        ),
    ),
    one(&["-l", "--listen"], To::Listen),
    one(&["--path"], To::Mount),
    bare(&["-d", "--debug"], To::Lost("RUBYOPT in environment has the flags of Ruby: -d")),
    one(&["-e", "--eval"], To::Code),
];

const THIN: &[Flag] = &[
    one(&["-a", "--address"], To::Host),
    one(&["-S", "--socket"], To::Socket),
    one(&["-R", "--rackup"], To::File),
    one(&["-c", "--chdir"], To::Directory),
    one(&["-l", "--log"], To::Server("error-log")),
    one(&["-P", "--pid"], To::Server("pid-file")),
    one(&["-u", "--user"], To::App("user")),
    one(&["-g", "--group"], To::App("group")),
    one(&["-s", "--servers"], To::Servers),
    one(&["-t", "--timeout"], To::Server("timeout")),
    one(&["--max-conns"], To::Server("max-connections")),
    one(&["--max-persistent-conns"], To::Lost("connections that wait are closed only if there is no room for others")),
    bare(&["--threaded"], To::Lost("threads of the app sets the number of threads")),
    one(&["--threadpool-size"], To::App("threads")),
    bare(&["--no-epoll"], To::Same("io chooses the I/O model")),
    one(&["-C", "--config"], To::Lost("the file has more options: write them as flags, and import these")),
    one(&["--prefix"], To::Mount),
    one(&["--stats"], To::Lost("metrics and dashboard in [server]")),
    one(&["-A", "--adapter"], To::Same("the app is a file for Rack")),
    bare(&["--ssl"], To::Same("ssl-cert encrypts connections")),
    one(&["--ssl-cert-file"], To::Server("ssl-cert")),
    one(&["--ssl-key-file"], To::Server("ssl-key")),
    bare(&["--ssl-verify"], To::ServerIs("ssl-verify-client", "required")),
    bare(&["-O", "--onebyone"], To::Lost("reload-mode = \"rolling\" of the app")),
    one(&["-w", "--wait", "-o", "--only"], To::Lost("boot-timeout and load-timeout of the app")),
    bare(&["-f", "--force", "--all", "--trace"], To::Lost("it has no meaning here")),
    one(&["--tag"], To::App("app-name")),
    one(&["--ssl-cipher-list"], To::Server("ssl-ciphers")),
    one(&["--ssl-version"], To::Lost("tls-min-version in [server]: 1.2 or 1.3")),
    bare(&["--ssl-disable-verify"], To::Same("clients are asked for no certificates by default")),
    one(&["--backend", "-b", "--swiftiply", "-y"], To::Lost("Oribi listens by itself: listen")),
];

const RAILS: &[Flag] = &[
    one(&["-b", "--binding"], To::Host),
    one(&["-u", "--using"], To::Handler),
    one(&["-c", "--config"], To::File),
    one(&["-P", "--pid"], To::Server("pid-file")),
    bare(&["-C", "--dev-caching", "--no-dev-caching"], To::Lost("bin/rails dev:cache switches it")),
    maybe(&["--early-hints"], To::Lost(EARLY_HINTS)),
    maybe(&["--log-to-stdout"], To::Lost("RAILS_LOG_TO_STDOUT in environment")),
];

/// Flags of `passenger start`, which are the keys of Passengerfile.json, too.
pub(super) const PASSENGER: &[Flag] = &[
    one(&["-a", "--address"], To::Host),
    one(&["-p", "--port"], To::Port),
    one(&["-S", "--socket", "--socket-file"], To::Socket),
    one(&["-e", "--environment"], To::Environment),
    one(&["-R", "--rackup", "--startup-file"], To::File),
    one(&["--app-type", "--app-start-command"], To::Lost("the name of the file decides the language, or language of the app")),
    one(&["--user"], To::App("user")),
    one(&["--group"], To::App("group")),
    one(&["--log-file"], To::Server("error-log")),
    one(&["--log-level"], To::Lost("log-level in [server]: error, warn, info, debug or trace")),
    one(&["--pid-file"], To::Server("pid-file")),
    bare(&["-d", "--daemonize"], To::Lost(BACKGROUND)),
    one(&["--max-pool-size"], To::App("workers")),
    one(&["--min-instances"], To::LeastWorkers),
    one(&["--pool-idle-time"], To::App("scale-down-idle")),
    one(&["--max-preloader-idle-time"], To::Same("the process that has loaded the app ends when the app sleeps")),
    one(&["--force-max-concurrent-requests-per-process"], To::Lost("threads of the app sets the number of threads")),
    one(&["--spawn-method"], To::Same(ALWAYS_LOADED)),
    one(&["--concurrency-model"], To::Lost("threads of the app sets the number of threads")),
    one(&["--thread-count"], To::App("threads")),
    one(&["--memory-limit"], To::Memory),
    one(&["--max-requests"], To::App("max-requests")),
    one(&["--max-request-time"], To::App("request-timeout")),
    one(&["--max-request-queue-size"], To::App("queue-limit")),
    one(&["--max-request-queue-time"], To::App("queue-timeout")),
    one(&["--start-timeout"], To::App("load-timeout")),
    one(&["--static-files-dir"], To::Static),
    bare(&["--rolling-restarts"], To::Same("reloads keep the old workers until the new ones serve")),
    bare(&["--resist-deployment-errors"], To::Same("if a reload fails, the old workers keep serving")),
    bare(
        &["--sticky-sessions", "--abort-websockets-on-process-shutdown", "--no-abort-websockets-on-process-shutdown"],
        To::Lost("each worker can answer each request: keep sessions in a store that all share"),
    ),
    one(
        &["--sticky-sessions-cookie-name", "--sticky-sessions-cookie-attributes", "--vary-turbocache-by-cookie"],
        To::Lost("there are no sticky sessions; cache of a route stores responses by Vary"),
    ),
    bare(&["--turbocaching", "--no-turbocaching", "--disable-turbocaching"], To::Lost("cache of a route stores responses")),
    bare(
        &["--friendly-error-pages", "--no-friendly-error-pages", "--debugger"],
        To::Lost("show errors by the app's environment: development"),
    ),
    bare(&["--ssl"], To::Same("ssl-cert encrypts connections")),
    one(&["--ssl-certificate"], To::Server("ssl-cert")),
    one(&["--ssl-certificate-key"], To::Server("ssl-key")),
    one(&["--ssl-port"], To::Lost("write a second [[listen]] with ssl-cert")),
    one(&["--envvar", "--passenger-env-var"], To::Variable),
    one(
        &["--ruby", "--python", "--nodejs", "--meteor-app-settings"],
        To::Lost("the flag --ruby of oribi, or PATH, chooses the interpreter"),
    ),
    one(
        &["--request-queue-overflow-status-code", "--restart-dir", "--engine"],
        To::Lost("restart-file of the app names a file that reloads it when it is touched; a full queue is a 503"),
    ),
    one(
        &[
            "--nginx-config-template",
            "--nginx-bin",
            "--nginx-version",
            "--nginx-tarball",
            "--ctl",
            "--instance-registry-dir",
            "--data-buffer-dir",
            "--core-file-descriptor-ulimit",
            "--app-file-descriptor-ulimit",
            "--runtime-dir",
            "--runtime-check-dir",
        ],
        To::Lost("there is no nginx inside: options in [server] do this"),
    ),
    bare(
        &[
            "--load-shell-envvars",
            "--no-load-shell-envvars",
            "--preload-bundler",
            "--no-install-runtime",
            "--no-compile-runtime",
            "--auto",
            "--disable-security-update-check",
            "--disable-anonymous-telemetry",
            "--unlimited-concurrency-paths",
        ],
        To::Same("it has no meaning here"),
    ),
    one(&["--socket-backlog"], To::Server("backlog")),
    one(&["--custom-error-page"], To::Lost("errors are those of the app, or short texts of Oribi")),
    one(
        &["--admin-panel-url", "--admin-panel-auth-type", "--admin-panel-username", "--admin-panel-password"],
        To::Lost("dashboard in [server] is a page with the state of the server"),
    ),
    one(
        &[
            "--anonymous-telemetry-proxy",
            "--security-update-check-proxy",
            "--binaries-url-root",
            "--ctls",
            "--direct-instance-request-address",
        ],
        To::Same("it has no meaning here"),
    ),
    bare(
        &[
            "--app-support-kuria-protocol",
            "--debug-nginx-config",
            "--disable-log-prefix",
            "--dont-compile-runtime",
            "--dont-install-runtime",
            "--runtime-check-only",
        ],
        To::Same("it has no meaning here"),
    ),
];

const PERL: &str = "perl";
const RUBY: &str = "ruby";

const fn perl(
    names: &'static [&'static str],
    title: &'static str,
    tables: &'static [&'static [Flag]],
    workers: &'static [(&'static str, &'static str)],
) -> Server {
    Server {
        names,
        title,
        language: PERL,
        tables,
        file: "app.psgi",
        host: V4,
        port: "5000",
        defaults: workers,
        environment: "deployment",
        note: None,
    }
}

const fn ruby(
    names: &'static [&'static str],
    title: &'static str,
    tables: &'static [&'static [Flag]],
    host: &'static str,
    port: &'static str,
    defaults: &'static [(&'static str, &'static str)],
) -> Server {
    Server {
        names,
        title,
        language: RUBY,
        tables,
        file: "config.ru",
        host,
        port,
        defaults,
        environment: "development",
        note: None,
    }
}

/// The servers that plackup and rackup start, and those that are commands.
pub(super) const SERVERS: &[Server] = &[
    Server { host: "", ..perl(&["starman"], "Starman", &[STARMAN, PLACK], &[("workers", "5"), ("max-requests", "1000")]) },
    Server {
        environment: "development",
        ..perl(&["plackup", "http::server::psgi", "standalone"], "plackup", &[PLACK, STARLET], &[("workers", "1")])
    },
    perl(&["starlet"], "Starlet", &[STARLET, PLACK], &[("workers", "10"), ("max-requests", "100")]),
    perl(&["gazelle"], "Gazelle", &[STARLET, PLACK], &[("workers", "10"), ("max-requests", "1000")]),
    perl(&["monoceros"], "Monoceros", &[STARLET, PLACK], &[("workers", "5"), ("max-requests", "1000")]),
    Server { host: "", ..perl(&["twiggy", "twiggy::prefork"], "Twiggy", &[STARLET, PLACK], &[("workers", "1")]) },
    perl(&["feersum"], "Feersum", &[STARLET, PLACK], &[("workers", "1")]),
    Server {
        note: Some("an app that waits by Coro blocks a worker here: more workers, or threads"),
        ..perl(&["corona"], "Corona", &[STARLET, PLACK], &[("workers", "1")])
    },
    Server { port: "", ..perl(&["fcgi"], "Plack's FCGI", &[FCGI, PLACK], &[("workers", "1")]) },
    Server {
        file: "",
        port: "8080",
        environment: "production",
        note: Some(
            "hypnotoad's settings are in the app's own configuration, which is Perl: write listen, workers, pid_file, proxy, \
                 ... of `hypnotoad => {...}` here by hand",
        ),
        ..perl(&["hypnotoad"], "hypnotoad", &[MOJO], &[("workers", "4")])
    },
    Server { file: "", port: "3000", ..perl(&["daemon", "morbo"], "Mojolicious", &[MOJO], &[("workers", "1")]) },
    Server { file: "", port: "3000", ..perl(&["prefork"], "Mojolicious", &[MOJO], &[("workers", "4")]) },
    Server { note: Some(PUMA_FILE), ..ruby(&["puma"], "Puma", &[PUMA, RACK], "", "9292", &[]) },
    ruby(
        &["unicorn", "unicorn_rails", "rainbows"],
        "Unicorn",
        &[UNICORN, RACK],
        V4,
        "8080",
        &[("workers", "1"), ("request-timeout", "60")],
    ),
    ruby(&["rackup", "webrick"], "rackup", &[RACKUP, RACK], "127.0.0.1", "9292", &[("workers", "1")]),
    ruby(&["rhebok"], "Rhebok", &[RACKUP, RACK], V4, "9292", &[("workers", "5"), ("max-requests", "1000")]),
    ruby(&["thin"], "Thin", &[THIN, RACK], V4, "3000", &[("workers", "1")]),
    Server { note: Some(PUMA_FILE), ..ruby(&["rails"], "rails server", &[RAILS, RACK], "127.0.0.1", "3000", &[]) },
    ruby(&["passenger"], "Passenger", &[PASSENGER, RACK], V4, "3000", &[("workers", "6")]),
];
