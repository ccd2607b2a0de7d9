//! The table of settings: one row for each.
//!
//! The rows of each section are together. Rows are applied from top to bottom, and a shorthand is above the settings that it
//! sets: so these settings, which are more specific, override the shorthand.

mod acme;
mod control;
mod edges;
mod fastcgi;
mod https;
mod life;
mod limits;
mod listening;
mod logs;
mod metrics;
mod requests;
mod tls;
mod traces;
mod websockets;
mod workers;

use super::address::parse_socket;
use super::io_model::IoModel;
use super::setting::{Draft, Section, Setting};
use super::settings::{ListenAddress, SocketAddress};
use super::value::{
    accept_model, account, boolean, deadline, deadline_or_auto, duration, duration_or_off, field_value, file_mode, file_names,
    host_name, limit, log_level, log_target, path, patience, protocol, show_accept_model, show_duration, show_file_mode,
    show_file_names, show_limit, show_log_target, show_protocol, show_span, show_switch, small_count, span,
};
use oribi_files::Mount;
use std::time::Duration;

/// The most workers, and lanes of a worker, that a user may ask for: more is a typing error.
const PROCESSES: u32 = 1024;

/// All settings, in the order of `--help`.
#[must_use]
pub fn table() -> &'static [Setting] {
    TABLE
}

static TABLE: &[Setting] = &[
    Setting::server(
        "listen",
        Section::Listening,
        "ADDRESS",
        "Where to listen: HOST:PORT, :PORT (all interfaces), [IPV6]:PORT, or the path of a Unix socket, which may end in \
         ?mode=660 for its permission bits. https://HOST:PORT?cert=FILE&key=FILE for TLS. Preceded by fcgi:// or fcgi+unix:, \
         for FastCGI; followed by ?proxy_protocol=on, for PROXY headers (see --proxy-protocol). May be given several times",
    )
    .short('l')
    .aliases(&["bind"])
    .default_words("127.0.0.1:5000, or *:$PORT")
    .apply(|draft, text| {
        let address = ListenAddress::parse(text)?;
        add_listener(draft, address);
        Ok(())
    })
    .shows_each(|settings| settings.listen.iter().map(ToString::to_string).collect()),
    Setting::server("socket", Section::Listening, "PATH", "Listen on a Unix socket: --listen PATH").short('S').apply(
        |draft, text| {
            let address = parse_socket(text)?;
            add_listener(draft, address);
            Ok(())
        },
    ),
    listening::HOST,
    listening::PORT,
    listening::BACKLOG,
    listening::REUSE_PORT,
    listening::SOCKET_MODE,
    Setting::listener(
        "protocol",
        Section::Listening,
        "NAME",
        "Protocol at addresses without a scheme (http://, fcgi://) and at sockets handed down by another program: http or fastcgi",
    )
    .apply(|draft, text| protocol(text).map(|protocol| draft.settings.protocol = protocol))
    .show(|settings| show_protocol(settings.protocol)),
    requests::PROXY_PROTOCOL,
    tls::CERTIFICATE,
    tls::KEY,
    tls::SSL,
    tls::VERSION,
    tls::SUITES,
    tls::VERIFY,
    tls::AUTHORITIES,
    tls::STATUS,
    acme::CERTIFICATE,
    acme::TERMS,
    acme::CHALLENGE,
    acme::EMAIL,
    acme::DIRECTORY,
    acme::STORAGE,
    acme::AUTHORITIES,
    fastcgi::CLIENTS,
    Setting::app("server-name", Section::Listening, "NAME", "The value of SERVER_NAME for the app")
        .default_words("the name in Host")
        .apply(|draft, text| host_name(text).map(|name| draft.settings.server_name = Some(name)))
        .show(|settings| settings.server_name.clone().unwrap_or_default()),
    // ---- Workers and threads
    workers::WORKERS,
    workers::UP_WAIT,
    workers::UP_CPU,
    workers::DOWN_IDLE,
    Setting::app(
        "threads",
        Section::Workers,
        "NUMBER",
        "Threads of each worker that run the app. Perl: each thread has its own interpreter. Ruby: MIN:MAX starts threads \
         beyond MIN when they are needed",
    )
    .apply(|draft, text| {
        let (least, most) = span(text, PROCESSES)?;
        (draft.settings.min_threads, draft.settings.threads) = (least, most);
        Ok(())
    })
    .show(|settings| show_span(settings.min_threads, settings.threads)),
    workers::IO_THREADS,
    workers::INTERFACE,
    workers::LOOP,
    workers::CONCURRENCY,
    workers::FIBERS,
    Setting::server(
        "io",
        Section::Workers,
        "NAME",
        concat!(
            "I/O model of the workers: ",
            oribi_io::listed_models!(),
            "or auto; without edges Ruby has epoll only, because its threads share their connections",
        ),
    )
    .apply(|draft, text| IoModel::parse(text).map(|model| draft.settings.io = model))
    .show(|settings| settings.io.show()),
    Setting::server(
        "accept",
        Section::Workers,
        "NAME",
        "How connections reach workers, or edges if there are any: shared (all listen on the same sockets, and one with room \
         accepts the next connection) or own (each worker, thread or edge has its own sockets, and the kernel spreads \
         connections without regard to load: SO_REUSEPORT)",
    )
    .apply(|draft, text| accept_model(text).map(|model| draft.settings.accept = model))
    .show(|settings| show_accept_model(settings.accept)),
    Setting::app(
        "max-requests",
        Section::Workers,
        "NUMBER",
        "Replace a worker (with threads: an interpreter) after this many requests; 0 is never",
    )
    .aliases(&["max-reqs-per-child", "max-requests-per-child", "max-request-per-child", "max-requests-per-worker"])
    .apply(|draft, text| limit(text).map(|number| draft.settings.max_requests = number))
    .show(|settings| show_limit(settings.max_requests)),
    Setting::app(
        "min-requests",
        Section::Workers,
        "NUMBER",
        "Each worker gets a random limit between this number and --max-requests, so that not all are replaced at once",
    )
    .aliases(&["min-reqs-per-child", "min-requests-per-child", "min-request-per-child"])
    .apply(|draft, text| limit(text).map(|number| draft.settings.min_requests = number))
    .show(|settings| show_limit(settings.min_requests)),
    Setting::app("spawn-interval", Section::Workers, "TIME", "Time between the starts of two workers")
        .apply(|draft, text| duration_or_off(text).map(|time| draft.settings.spawn_interval = time))
        .show(|settings| show_duration(settings.spawn_interval)),
    Setting::app(
        "respawn-interval",
        Section::Workers,
        "TIME",
        "Time to wait before replacing a worker that failed before it could serve; it doubles, up to a minute, while workers \
         keep failing. A worker that has served is replaced at once",
    )
    .aliases(&["err-respawn-interval"])
    .apply(|draft, text| duration_or_off(text).map(|time| draft.settings.respawn_interval = time))
    .show(|settings| show_duration(settings.respawn_interval)),
    life::BOOT_REQUEST,
    life::BOOT_TIMEOUT,
    life::UPGRADE_TIMEOUT,
    life::LOAD_TIMEOUT,
    life::RELOAD_MODE,
    life::MAX_LIFETIME,
    life::MAX_MEMORY,
    life::REPLACE_ORDER,
    life::RELOAD,
    life::RELOAD_PATH,
    Setting::app(
        "user",
        Section::Workers,
        "NAME",
        "The user, by name or number, that the workers run as; `oribi` also loads the app as that user. Needs root: the first \
         process stays root and keeps listeners, logs and the pid file",
    )
    .aliases(&["uid", "setuid", "run-as", "change-user"])
    .default_words("the user that starts the server")
    .apply(|draft, text| account(text).map(|name| draft.settings.user = Some(name)))
    .show(|settings| settings.user.clone().unwrap_or_default()),
    Setting::app("group", Section::Workers, "NAME", "The group, by name or number, that the workers run as")
        .aliases(&["gid", "setgid", "change-group"])
        .default_words("that of --user")
        .apply(|draft, text| account(text).map(|name| draft.settings.group = Some(name)))
        .show(|settings| settings.group.clone().unwrap_or_default()),
    Setting::app(
        "no-new-privileges",
        Section::Workers,
        "",
        "Keep programs that the app starts from getting more rights than the app: sudo, ping and other set-user-ID programs \
         stop working. Always on for edges",
    )
    .aliases(&["no-new-privs"])
    .opposites(&["new-privileges"])
    .apply(|draft, text| boolean(text).map(|on| draft.settings.new_privileges = !on))
    .show(|settings| show_switch(!settings.new_privileges)),
    Setting::app(
        "umask",
        Section::Workers,
        "MODE",
        "Permission bits that new files do not get, such as 022; off leaves it unchanged",
    )
        .apply(|draft, text| file_mode(text).map(|mode| draft.settings.umask = mode))
        .show(|settings| show_file_mode(settings.umask)),
    Setting::server(
        "proctitle",
        Section::Workers,
        "",
        "Show in process lists what each process is: `oribi: worker 3 app.psgi (generation 2)`",
    )
    .opposites(&["disable-proctitle", "no-proctitle"])
    .apply(|draft, text| boolean(text).map(|on| draft.settings.process_titles = on))
    .show(|settings| show_switch(settings.process_titles)),
    workers::APP_NAME,
    Setting::app(
        "graceful-timeout",
        Section::Workers,
        "TIME",
        "Time for workers to finish their requests when the server stops; 0 stops at once, off waits without limit",
    )
    .aliases(&["worker-shutdown-timeout", "shutdown-timeout"])
    .apply(|draft, text| patience(text).map(|time| draft.settings.timeouts.graceful = time))
    .show(|settings| show_duration(settings.timeouts.graceful)),
    Setting::server(
        "shutdown-delay",
        Section::Workers,
        "TIME",
        "Time to keep serving after TERM or QUIT, while --probe reports that the server is draining, so that load balancers \
         send their requests elsewhere before anything closes; a second TERM, or INT, skips it",
    )
    .aliases(&["drain-delay"])
    .apply(|draft, text| duration(text).map(|time| draft.settings.timeouts.shutdown_delay = time))
    .show(|settings| show_duration(settings.timeouts.shutdown_delay)),
    // ---- Edges
    edges::EDGE,
    edges::EDGES,
    edges::EDGE_USER,
    edges::EDGE_GROUP,
    edges::EDGE_SANDBOX,
    edges::QUEUE_LIMIT,
    edges::QUEUE_TIMEOUT,
    edges::PROBE,
    edges::RETRY_LOST,
    edges::X_REQUEST_START,
    // ---- WebSockets
    websockets::MESSAGE_SIZE,
    websockets::BUFFER,
    websockets::PING,
    websockets::COMPRESSION,
    websockets::HTTP2,
    websockets::ORIGIN,
    websockets::RELAY,
    websockets::RELAY_PREFIX,
    websockets::RELAY_AUTHORITIES,
    // ---- Timeouts
    Setting::server("timeout", Section::Timeouts, "TIME", "Sets --header-timeout, --body-timeout and --write-timeout").apply(
        |draft, text| {
            let time = deadline(text)?;
            draft.settings.timeouts.head = time;
            draft.settings.timeouts.content = time;
            draft.settings.timeouts.write = time;
            Ok(())
        },
    ),
    Setting::server("read-timeout", Section::Timeouts, "TIME", "Sets --header-timeout and --body-timeout").apply(|draft, text| {
        let time = deadline(text)?;
        draft.settings.timeouts.head = time;
        draft.settings.timeouts.content = time;
        Ok(())
    }),
    Setting::server(
        "header-timeout",
        Section::Timeouts,
        "TIME",
        "Time from the first byte of a request to the end of its header; or off",
    )
    .aliases(&["head-timeout", "first-data-timeout"])
    .apply(|draft, text| deadline(text).map(|time| draft.settings.timeouts.head = time))
    .show(|settings| show_duration(settings.timeouts.head)),
    Setting::server("body-timeout", Section::Timeouts, "TIME", "Time from the end of the header to the end of the body; or off")
        .aliases(&["content-timeout"])
        .apply(|draft, text| deadline(text).map(|time| draft.settings.timeouts.content = time))
        .show(|settings| show_duration(settings.timeouts.content)),
    Setting::server("write-timeout", Section::Timeouts, "TIME", "Time for a client to take each 64 KiB of a response; or off")
        .aliases(&["send-timeout"])
        .apply(|draft, text| deadline(text).map(|time| draft.settings.timeouts.write = time))
        .show(|settings| show_duration(settings.timeouts.write)),
    Setting::app(
        "request-warning",
        Section::Timeouts,
        "TIME",
        "Time after which a request that is still running is logged, with a backtrace of its app if the language has one; or \
         off",
    )
    .apply(|draft, text| deadline(text).map(|time| draft.settings.request_warning = time))
    .show(|settings| show_duration(settings.request_warning)),
    Setting::app(
        "request-timeout",
        Section::Timeouts,
        "TIME",
        "Time for an app to produce its answer, or the next piece of it, before it is interrupted and the client gets a 504; or off",
    )
    .aliases(&["harakiri", "worker-timeout", "max-request-time"])
    .apply(|draft, text| deadline(text).map(|time| draft.settings.timeouts.request = time))
    .show(|settings| show_duration(settings.timeouts.request)),
    Setting::app(
        "request-kill",
        Section::Timeouts,
        "TIME",
        "Time after which a worker is killed and replaced if its app has neither answered nor stopped at --request-timeout; \
         auto is 5 seconds more than that; or off",
    )
    .apply(|draft, text| deadline_or_auto(text).map(|time| draft.settings.request_kill = time))
    .show(|settings| settings.request_kill.map_or_else(|| "auto".to_owned(), show_duration)),
    Setting::server(
        "keepalive-timeout",
        Section::Timeouts,
        "TIME",
        "Time for a connection to wait for its next request; 0 closes it after each response",
    )
    .aliases(&["keep-alive-timeout", "idle-timeout", "persistent-timeout"])
    .apply(|draft, text| duration_or_off(text).map(|time| draft.settings.timeouts.keepalive = time))
    .show(|settings| show_duration(settings.timeouts.keepalive)),
    Setting::server("disable-keepalive", Section::Timeouts, "", "Answer one request per connection: --keepalive-timeout 0")
        .aliases(&["no-keepalive"])
        .opposites(&["keepalive", "enable-keepalive"])
        .apply(|draft, text| {
            if boolean(text)? {
                draft.settings.timeouts.keepalive = Duration::ZERO;
            }
            Ok(())
        }),
    Setting::server(
        "linger-timeout",
        Section::Timeouts,
        "TIME",
        "Time to keep reading from a client after an early answer, before its connection is closed, so that it gets the \
         answer; or off",
    )
    .apply(|draft, text| duration_or_off(text).map(|time| draft.settings.timeouts.linger = time))
    .show(|settings| show_duration(settings.timeouts.linger)),
    // ---- Limits
    limits::MAX_HEADER_SIZE,
    limits::MAX_HEADERS,
    limits::MAX_URI_SIZE,
    limits::MAX_BODY_SIZE,
    limits::BODY_BUFFER_SIZE,
    limits::OUTPUT_BUFFER_SIZE,
    limits::BODY_MEMORY_TOTAL,
    limits::BODY_FILES_TOTAL,
    limits::OUTPUT_SPOOL_SIZE,
    limits::OUTPUT_SPOOL_TOTAL,
    limits::OUTPUT_MEMORY_TOTAL,
    limits::MAX_CONNECTIONS,
    limits::MAX_KEEPALIVE_REQUESTS,
    limits::MAX_PIPELINED_REQUESTS,
    limits::MAX_FASTCGI_REQUESTS,
    // ---- Requests
    requests::UNDERSCORE_HEADERS,
    requests::STRICT_URI,
    requests::TRUSTED_PROXIES,
    requests::FORWARDED_FIELDS,
    requests::STRIP_FORWARDED,
    requests::REQUEST_ID,
    requests::SERVER_TIMING,
    traces::TRACES,
    traces::SAMPLE,
    traces::EXPORT,
    traces::AUTHORITIES,
    traces::SERVICE,
    requests::HTTP2,
    requests::HTTP2_STREAMS,
    // ---- Responses
    Setting::server("server-header", Section::Responses, "TEXT", "The Server field of responses; an empty text omits it")
        .apply(|draft, text| field_value(text).map(|value| draft.settings.server_header = value))
        .show(|settings| settings.server_header.clone()),
    Setting::server(
        "chunked-transfer",
        Section::Responses,
        "",
        "Send content of unknown length in chunks to HTTP/1.1 clients; off: end it by closing the connection, as for HTTP/1.0 clients",
    )
    .apply(|draft, text| boolean(text).map(|on| draft.settings.chunked_transfer = on))
    .show(|settings| show_switch(settings.chunked_transfer)),
    https::REDIRECT,
    https::POLICY,
    // ---- Files
    Setting::server(
        "static",
        Section::Files,
        "/PREFIX=DIR",
        "Answer requests below /PREFIX with the files of DIR; if there is no such file, the app answers. May be given several times",
    )
    .default_words("none")
    .apply(|draft, text| Mount::parse(text).map(|mount| draft.settings.files.mounts.push(mount)))
    .shows_each(|settings| settings.files.mounts.iter().map(ToString::to_string).collect()),
    Setting::app(
        "sendfile-root",
        Section::Files,
        "DIR",
        "Send a file below DIR in place of the app's content if the app names it by X-Sendfile; may be given several times. Without \
         it, the field is passed on",
    )
    .aliases(&["x-sendfile-path"])
    .default_words("none")
    .apply(|draft, text| path(text).map(|path| draft.settings.files.sendfile_roots.push(path)))
    .shows_each(|settings| settings.files.sendfile_roots.iter().map(|path| path.display().to_string()).collect()),
    Setting::app(
        "accel",
        Section::Files,
        "/PREFIX=DIR",
        "Send a file of DIR if the app names it by X-Accel-Redirect: /PREFIX/FILE; may be given several times. Without it, the \
         field is passed on",
    )
    .aliases(&["x-accel"])
    .default_words("none")
    .apply(|draft, text| Mount::parse(text).map(|mount| draft.settings.files.accelerated.push(mount)))
    .shows_each(|settings| settings.files.accelerated.iter().map(ToString::to_string).collect()),
    Setting::server(
        "index",
        Section::Files,
        "NAMES",
        "Answer a request for a directory with the first of these files that exists, separated by commas; off: none",
    )
    .separator(',')
    .aliases(&["index-files"])
    .apply(|draft, text| file_names(text).map(|names| draft.settings.files.options.index = names))
    .show(|settings| show_file_names(&settings.files.options.index)),
    Setting::server(
        "media-type",
        Section::Files,
        ".ENDING=TYPE",
        "The media type of files whose names end so, have this NAME, or with * say no type, as in .wasm=application/wasm; may be given several times",
    )
    .default_words("that of the last ending, as it is built in")
    .apply(|draft, text| draft.settings.files.options.media_types.add(text))
    .shows_each(|settings| settings.files.options.media_types.texts()),
    Setting::server(
        "max-age",
        Section::Files,
        "TIME",
        "Time for clients to cache a file: --cache-control max-age=SECONDS",
    ).apply(
        |draft, text| {
            let time = duration(text)?;
            draft.settings.files.options.cache_control = Some(format!("max-age={}", time.as_secs()));
            Ok(())
        },
    ),
    Setting::server(
        "cache-control",
        Section::Files,
        "TEXT",
        "The Cache-Control field of files, such as \"public, max-age=3600\"",
    )
        .apply(|draft, text| {
            let value = field_value(text)?;
            draft.settings.files.options.cache_control = Some(value).filter(|value| !value.is_empty());
            Ok(())
        })
        .show(|settings| settings.files.options.cache_control.clone().unwrap_or_default()),
    Setting::server(
        "open-files",
        Section::Files,
        "NUMBER",
        "Most files of each directory that an event loop keeps open, or in memory if they are small; a file that was checked \
         more than a second ago is checked for changes again; 0: keep none",
    )
    .apply(|draft, text| small_count(text, 0..=1 << 20).map(|number| draft.settings.files.options.open_files = number))
    .show(|settings| settings.files.options.open_files.to_string()),
    Setting::server(
        "precompressed",
        Section::Files,
        "",
        "Send FILE.br, FILE.zst or FILE.gz in place of FILE to clients that accept it, if it exists and is not older",
    )
    .apply(|draft, text| boolean(text).map(|on| draft.settings.files.options.precompressed = on))
    .show(|settings| show_switch(settings.files.options.precompressed)),
    Setting::server(
        "listing",
        Section::Files,
        "",
        "Answer for a directory without an index with a list of its files: as a page, or as JSON to clients that ask for it",
    )
    .apply(|draft, text| boolean(text).map(|on| draft.settings.files.options.listing = on))
    .show(|settings| show_switch(settings.files.options.listing)),
    Setting::server("dotfiles", Section::Files, "", "Serve files that begin with a dot, or that are in a directory that does")
        .apply(|draft, text| boolean(text).map(|on| draft.settings.files.options.dotfiles = on))
        .show(|settings| show_switch(settings.files.options.dotfiles)),
    // ---- Logs and files
    logs::ACCESS_LOG,
    logs::ACCESS_LOG_FORMAT,
    logs::SLOW,
    Setting::server(
        "error-log",
        Section::Logs,
        "PATH",
        "Write errors, and the app's standard error, to this file; or errors to `syslog:` or `journal`",
    )
    .apply(|draft, text| log_target(text).map(|target| draft.settings.error_log = target))
    .show(|settings| show_log_target(&settings.error_log)),
    Setting::server(
        "log-level",
        Section::Logs,
        "LEVEL",
        "The lowest level of messages to write: off, error, warn, info, debug or trace",
    )
    .apply(|draft, text| log_level(text).map(|level| draft.settings.log_level = level))
    .show(|settings| settings.log_level.as_str().to_ascii_lowercase()),
    Setting::server("pid-file", Section::Logs, "PATH", "Write the process id of the master to a file")
        .aliases(&["pid", "pidfile"])
        .apply(|draft, text| path(text).map(|path| draft.settings.pid_file = Some(path)))
        .show(|settings| settings.pid_file.as_ref().map_or_else(String::new, |path| path.display().to_string())),
    control::CONTROL,
    metrics::METRICS,
    metrics::METRICS_PATH,
    metrics::DASHBOARD,
    metrics::HISTOGRAM_BUCKETS,
    metrics::METRICS_ROUTE,
    Setting::app("restart-file", Section::Logs, "PATH", "Load the app again, as on HUP, whenever this file is touched")
        .apply(|draft, text| path(text).map(|path| draft.settings.restart_file = Some(path)))
        .show(|settings| settings.restart_file.as_ref().map_or_else(String::new, |path| path.display().to_string())),
    life::AUTO_APPLY,
    Setting::server(
        "temporary-directory",
        Section::Logs,
        "PATH",
        "Directory for request bodies that are too large for memory, and for responses to slow clients",
    )
    .aliases(&["temp-dir", "tmp-dir", "tmpdir"])
    .environment("TMPDIR")
    .apply(|draft, text| path(text).map(|path| draft.settings.temporary_directory = path))
    .show(|settings| settings.temporary_directory.display().to_string()),
];

/// Adds a listener, unless its address is already there: plackup passes some addresses twice, as `socket` and as `listen`.
fn add_listener(draft: &mut Draft, address: ListenAddress) {
    let chosen_by_kernel = matches!(address.socket, SocketAddress::Tcp { port: 0, .. });
    if chosen_by_kernel || !draft.settings.listen.contains(&address) {
        draft.settings.listen.push(address);
    }
}

#[cfg(test)]
mod tests {
    use super::super::setting::Scope;
    use super::*;

    #[test]
    fn a_list_in_one_text_has_a_separator() {
        for setting in table().iter().filter(|setting| !setting.repeats()) {
            let described = match setting.help {
                help if help.contains("by colons") => Some(':'),
                help if help.contains("by commas") || help.contains("after commas") => Some(','),
                _ => None,
            };
            assert_eq!(setting.separator, described, "{}", setting.name);
        }
    }

    #[test]
    fn what_one_app_can_have_for_itself_is_of_the_app() {
        let scope = |name| table().iter().find(|setting| setting.name == name).map(|setting| setting.scope);
        for (names, expected) in [
            ("workers threads user request-timeout queue-limit max-memory sendfile-root restart-file", Scope::App),
            ("edges access-log control backlog header-timeout max-connections acme metrics static", Scope::Server),
            ("ssl-cert ssl-key ssl-ca tls-min-version socket-mode proxy-protocol protocol", Scope::Listener),
        ] {
            for name in names.split(' ') {
                assert_eq!(scope(name), Some(expected), "{name}");
            }
        }
    }

    #[test]
    fn sections_stand_together() {
        let sections: Vec<Section> = table().iter().map(|setting| setting.section).collect();
        assert!(sections.is_sorted(), "{sections:?}");
    }
}
