//! The values of options from all their sources.

use super::*;
use crate::{Config, WorkerRange};
use std::time::Duration;

/// A configuration with an environment of `NAME=value` and a command line of `name=value`, on a machine with 3 CPUs.
fn config(environment: &[&str], command_line: &[&str]) -> Config {
    let variable = |name: &str| {
        let pair = environment.iter().filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name);
        pair.map(|(_, value)| value.to_owned())
    };
    let mut config = Config::with(variable, 3);
    for pair in command_line {
        let (name, value) = pair.split_once('=').expect("name=value");
        config.set(name, value, Origin::CommandLine).expect(pair);
    }
    config
}

fn listeners(environment: &[&str], command_line: &[&str]) -> String {
    let settings = config(environment, command_line).finish().expect("fits");
    settings.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn where_to_listen() {
    for (environment, command_line, expected) in [
        (&[][..], &[][..], "127.0.0.1:5000"),
        (&[], &["port=8080"], "127.0.0.1:8080"),
        (&[], &["host=0.0.0.0"], "0.0.0.0:5000"),
        (&[], &["host=*", "port=80"], "*:80"),
        (&[], &["host=::1", "port=80"], "[::1]:80"),
        (&[], &["port=80", "port=81"], "127.0.0.1:81"),
        (&["PORT=3000"], &[], "*:3000"),
        (&["PORT=3000"], &["host=127.0.0.1"], "127.0.0.1:3000"),
        (&["PORT=3000"], &["port=80"], "127.0.0.1:80"),
        (&["PORT="], &[], "127.0.0.1:5000"),
        (&["HOST=::1"], &[], "[::1]:5000"),
        (&["HOST=::1", "PORT=3000"], &[], "[::1]:3000"),
        (&["PORT=3000"], &["listen=:80"], "*:80"),
        (&["PORT=3000", "HOST=::1"], &["socket=/x"], "unix:/x"),
        (&["ORIBI_LISTEN=:90", "PORT=3000"], &[], "*:90"),
        (&["ORIBI_LISTEN=:90", "ORIBI_PORT=91"], &["listen=:80"], "*:80"),
        (&[], &["listen=:80", "listen=/x?mode=660", "listen=:80"], "*:80 unix:/x?mode=660"),
        (&[], &["listen=/x", "socket=/x"], "unix:/x"),
        (&[], &["listen=:0", "listen=:0"], "*:0 *:0"),
    ] {
        assert_eq!(listeners(environment, command_line), expected, "{environment:?} {command_line:?}");
    }
}

#[test]
fn each_setting_has_a_variable() {
    let environment = ["WEB_CONCURRENCY=2", "ORIBI_WORKERS=5", "ORIBI_MAX_REQUESTS=7", "ORIBI_KEEPALIVE=", "ORIBI_NO_SUCH=1"];
    let resolved = config(&environment, &["max-requests=8"]).resolve().expect("fits");
    assert_eq!((resolved.settings.workers, resolved.settings.max_requests), (5.into(), Some(8)));
    assert_eq!(resolved.origin("workers").to_string(), "environment (ORIBI_WORKERS)");
    let error = config(&["ORIBI_MAX_BODY_SIZE=much"], &[]).finish().expect_err("does not fit").to_string();
    assert!(error.starts_with("bad value `much` for ORIBI_MAX_BODY_SIZE: "), "{error}");
}

#[test]
fn port_beside_listen_is_an_echo_of_plackup_and_a_mistake_of_a_person() {
    let error = config(&[], &["listen=:80", "port=81"]).finish().expect_err("a mistake").to_string();
    assert_eq!(error, "bad value `81` for port: it would have no effect beside `listen`; write --listen HOST:PORT for each");
    let mut config = Config::with(|_| None, 1);
    for (name, value) in [("listen", ":80"), ("port", "80"), ("host", "")] {
        config.set(name, value, Origin::named("plackup")).expect("fits");
    }
    assert_eq!(config.finish().expect("fits").listen.len(), 1);
}

#[test]
fn the_higher_origin_wins_in_any_order() {
    let mut config = Config::with(|name| (name == "WEB_CONCURRENCY").then(|| "2".to_owned()), 3);
    assert_eq!(config.finish().expect("fits").workers, 2.into());
    config.set("max_workers", "5", Origin::named("plackup")).expect("fits");
    config.set("workers", "7", Origin::File("/etc/oribi".to_owned())).expect("fits");
    config.set("listen", ":7", Origin::File("/etc/oribi".to_owned())).expect("fits");
    assert_eq!(config.finish().expect("fits").workers, 5.into());
    assert_eq!(config.finish().expect("fits").listen[0].to_string(), "*:7");
    config.set("workers", "9", Origin::named("file oribi.rb:3")).expect("fits");
    assert_eq!(config.finish().expect("fits").workers, 5.into());
    config.set("threads", "9", Origin::named("file oribi.rb:3")).expect("fits");
    assert!(config.resolve().expect("fits").explain().any(|(_, line)| line.origin.to_string() == "oribi.rb:3"));
    config.set("socket", "/x", Origin::CommandLine).expect("fits");
    assert_eq!(config.finish().expect("fits").listen[0].to_string(), "unix:/x");
}

#[test]
fn workers_of_the_environment() {
    for (text, expected) in [("auto", 3), ("", 3), (" ", 3), ("AUTO", 3), ("2", 2), ("0", 1)] {
        let pair = format!("WEB_CONCURRENCY={text}");
        assert_eq!(config(&[&pair], &[]).finish().expect("fits").workers, WorkerRange::from(expected), "{text:?}");
    }
    let error = config(&["WEB_CONCURRENCY=many"], &[]).finish().expect_err("does not fit").to_string();
    assert_eq!(
        error,
        "bad value `many` for WEB_CONCURRENCY: expected a whole number from 0 to 1024, or auto, or two as MIN:MAX"
    );
    let overruled = config(&["WEB_CONCURRENCY=many"], &["workers=4"]);
    assert_eq!(overruled.finish().expect("nobody asks the environment").workers, 4.into());
}

#[test]
fn shorthands_give_way_to_what_is_more_particular() {
    let resolved = config(&[], &["header-timeout=5", "timeout=300", "disable-keepalive="]).resolve().expect("fits");
    let timeouts = &resolved.settings.timeouts;
    assert_eq!(timeouts.head, Duration::from_secs(5));
    assert_eq!(timeouts.content, Duration::from_secs(300));
    assert_eq!(timeouts.write, Duration::from_secs(300));
    assert_eq!(timeouts.keepalive, Duration::ZERO);
    let origin = |name: &str| resolved.explain().find(|(_, line)| line.name == name).map(|(_, line)| line.origin.clone());
    assert_eq!(origin("write-timeout"), Some(Origin::CommandLine));
    assert_eq!(origin("keepalive-timeout"), Some(Origin::CommandLine));
    assert_eq!(origin("linger-timeout"), Some(Origin::Default));
    assert_eq!(origin("timeout"), None);
}

#[test]
fn contradictions() {
    for (command_line, part) in [
        (&["min-requests=10"][..], "needs --max-requests"),
        (&["min-requests=10", "max-requests=5"], "at most max-requests, which is 5"),
        (&["max-header-size=4k", "max-uri-size=5k"], "at most max-header-size, which is 4KiB"),
    ] {
        let error = config(&[], command_line).finish().expect_err("a contradiction").to_string();
        assert!(error.contains(part), "{error}");
    }
    let small = config(&[], &["max-header-size=4k"]).finish().expect("the default of the target gives way");
    assert_eq!(small.limits.target_bytes, 4096);
}

#[test]
fn errors_say_what_came_and_what_would_fit() {
    let mut config = Config::with(|_| None, 1);
    for (name, value, expected) in [
        ("wrkers", "1", "unknown setting `wrkers`; did you mean `workers`?"),
        ("qqq\n", "1", "unknown setting `qqq\\n`; `oribi --help` lists all settings"),
        (
            "chroot",
            "/srv",
            "cannot do what `chroot` asks for: Oribi does not change the root directory; let the service manager (RootDirectory= in a systemd unit) or a container do it",
        ),
        (
            "max_workers",
            "-1",
            "bad value `-1` for max_workers: expected a whole number from 0 to 1024, or auto, or two as MIN:MAX",
        ),
        ("max-body-size", "10q", "bad value `10q` for max-body-size: expected a size in bytes, such as 65536, 64k, 1m or 1GiB"),
        (
            "timeout",
            "soon",
            "bad value `soon` for timeout: expected a time such as 30, 30s, 500ms, 5m or 1h; a plain number counts seconds",
        ),
        ("log-level", "loud", "bad value `loud` for log-level: expected off, error, warn, info, debug or trace"),
        ("keepalive", "maybe", "bad value `maybe` for keepalive: expected on or off"),
        ("server-header", "a\r\nb", "bad value `a\\r\\nb` for server-header: expected visible ASCII characters"),
    ] {
        let error = config.set(name, value, Origin::CommandLine).expect_err(name);
        assert_eq!(error.to_string(), expected);
    }
    assert!(config.given.is_empty(), "a refused text must leave nothing behind");
}

#[test]
fn arguments_make_the_same_settings_elsewhere() {
    let all = [
        "listen=:80",
        "listen=http+unix:/x.sock?mode=660&proxy_protocol=v1",
        "backlog=7",
        "server_name=example.org",
        "reuse-port=",
        "chunked-transfer=off",
        "socket-mode=600",
        "threads=2:4",
        "interface=pagi",
        "max-io-threads=3",
        "loop=ioasync",
        "concurrency=1000",
        // No other number goes with several threads.
        "fibers=0",
        "max_reqs_per_child=1000",
        "min_reqs_per_child=800",
        "io=io_uring",
        "accept=own",
        "edge=on",
        "edges=2",
        "queue-limit=64",
        "queue-timeout=off",
        "websocket-message-size=256K",
        "websocket-buffer=64K",
        "websocket-ping=20s",
        "websocket-compression=off",
        "websocket-http2=on",
        "websocket-origin=https://example.org,http://localhost:3000",
        "probe=/healthz",
        "retry-lost=",
        "x-request-start=",
        "request-id=X-Trace-Id",
        "relay=rediss://127.0.0.1:6380?user=app&password_file=/run/secrets/redis",
        "relay-prefix=shop:",
        "relay-ca=/ca.pem",
        "traces=on",
        "trace-sample=0.25",
        "trace-export=https://127.0.0.1:4318",
        "trace-export-ca=/ca.pem",
        "trace-service=shop",
        "request-warning=5",
        "request-kill=50",
        "boot-request=/up?deep=1",
        "boot-timeout=20s",
        "upgrade-timeout=20s",
        "load-timeout=10m",
        "reload-mode=rolling",
        "max-worker-lifetime=1h",
        "reload-on-rss=300",
        "replace-order=old_first",
        "reload=",
        "auto-apply=on",
        "reload-path=/srv/app,/srv/lib",
        "scale-up-wait=50ms",
        "scale-up-cpu=75",
        "scale-down-idle=5m",
        "spawn_interval=1.5",
        "err_respawn_interval=500ms",
        "graceful_timeout=off",
        "shutdown-delay=5",
        "timeout=20",
        "body-timeout=off",
        "max_keepalive_reqs=100",
        "keepalive_timeout=2",
        "linger-timeout=0",
        "request-timeout=45",
        "max-header-size=16k",
        "max-headers=50",
        "max-uri-len=4000",
        "max-body-len=off",
        "body-buffer-size=64k",
        "body-memory-total=16m",
        "body-files-total=100",
        "output-buffer-size=64k",
        "output-spool-size=off",
        "output-spool-total=1g",
        "output-memory-total=16m",
        "max-connections=9",
        "max-pipelined-requests=1",
        "max-fastcgi-requests=1",
        "protocol=fastcgi",
        "fastcgi-clients=127.0.0.1,::1",
        "http2=off",
        "http2-streams=7",
        "underscore-headers=",
        "strict-uri=",
        "trusted-proxies=10.0.0.0/8,::1",
        "trusted-proxies=unix",
        "forwarded-fields=forwarded",
        "strip-forwarded=off",
        "proxy-protocol=v2",
        "listen=https://:443?cert=/c%26.pem&key=/k.pem&proxy_protocol=on",
        "ssl-cert=/c.pem",
        "ssl-key=/k.pem",
        "ssl=on",
        "tls-min-version=1.3",
        "server-header=",
        "redirect-https=8443",
        "hsts=max-age=60; preload",
        "listen=https://:8443?ca=/c.pem&ciphers=TLS_AES_128_GCM_SHA256",
        "ssl-ocsp=/o.der",
        "ssl-ciphers=ECDHE-RSA-AES128-GCM-SHA256",
        "ssl-verify-client=optional",
        "ssl-ca=/ca.pem",
        "acme=example.org,www.example.org",
        "acme-agree-terms=on",
        "acme-email=me@example.org",
        "acme-directory=https://example.org/dir",
        "acme-storage=/srv/acme",
        "acme-ca=/authority.pem",
        "acme-challenge=tls-alpn-01",
        "static=/assets=/usr/lib",
        "static=/=/usr/share",
        "sendfile-root=/usr/lib",
        "sendfile-root=/usr/share",
        "accel=/internal=/usr/share",
        "index=off",
        "media-type=.zork=text/x-zork",
        "media-type=*=text/x-other",
        "max-age=1h",
        "cache-control=public, max-age=60",
        "open-files=0",
        "precompressed=off",
        "listing=on",
        "dotfiles=on",
        "access-log=-",
        "access-log-format=json",
        "slow=1s",
        "error-log=/var/log/oribi",
        "log-level=debug",
        "pid=/run/oribi.pid",
        "user=www-data",
        "gid=33",
        "umask=027",
        "edge-user=nobody",
        "edge-group=65534",
        "edge-sandbox=try",
        "no-new-privileges=",
        "disable-proctitle=",
        "app-name=shop",
        "restart-file=/srv/app/tmp/restart.txt",
        "control=/run/oribi/shop.sock",
        "metrics=:9090?allow=10.0.0.0/8,::1",
        "metrics-path=/metrics?allow=10.0.0.0/8",
        "dashboard=requests,stats.example.org",
        "server-timing=",
        "histogram-buckets=10us,2.5ms,1s",
        "metrics-route=shop=/store/*",
    ];
    for command_line in [&[][..], &all] {
        let original = config(&["WEB_CONCURRENCY=2", "TMPDIR=/var/tmp"], command_line).resolve().expect("fits");
        // The other process has the same variables of single settings.
        let variable = |name: &str| match name {
            "TMPDIR" => Some("/".to_owned()),
            _ if table().iter().any(|setting| setting.own_variable().is_some_and(|own| own == name)) => None,
            _ => Some("5".to_owned()),
        };
        let mut copy = Config::with(variable, 64);
        for argument in original.arguments() {
            let (name, value) = argument.split_once('=').expect("name=value");
            copy.set(name, value, Origin::CommandLine).expect(name);
        }
        assert_eq!(copy.finish(), Ok(original.settings));
    }
    // Checks that the test covers every setting with a value of its own.
    let original = config(&["WEB_CONCURRENCY=2", "TMPDIR=/var/tmp"], &all).resolve().expect("fits");
    let untouched: Vec<_> =
        original.explain().filter(|(_, line)| *line.origin == Origin::Default).map(|(_, line)| line.name).collect();
    assert_eq!(untouched, [""; 0]);
}

#[test]
fn defaults_can_be_read_and_are_told_truthfully() {
    let defaults = config(&[], &[]).finish().expect("fits");
    for setting in table() {
        let Some(text) = setting.show_in(&defaults) else { continue };
        let mut draft = Draft::new(3);
        if !text.is_empty() {
            (setting.apply)(&mut draft, &text).expect(setting.name);
            assert_eq!(setting.show_in(&draft.settings), Some(text.clone()), "{}", setting.name);
        }
        let told = setting.default_text().unwrap_or_default();
        // Words describe a default that depends on something; any other default is the value itself.
        let depends = ["listen", "server-name", "workers", "control"].contains(&setting.name);
        assert!(depends || told.starts_with(&text), "{}: {told}", setting.name);
    }
}

#[test]
fn directories_of_files_are_there_and_found_after_a_change_of_directory() {
    let settings = config(&[], &["static=/src=src"]).finish().expect("fits");
    assert!(settings.files.mounts[0].directory.is_absolute());
    for (mistake, name) in
        [("static=/b=nowhere", "static"), ("accel=/b=nowhere", "accel"), ("sendfile-root=nowhere", "sendfile-root")]
    {
        let error = config(&[], &["static=/a=src", mistake]).finish().expect_err("a mistake").to_string();
        assert!(error.ends_with(&format!("/nowhere` for {name}: there is no such directory")), "{error}");
    }
}

#[test]
fn log_files_are_found_after_a_change_of_directory() {
    let settings = config(&[], &["access-log=log/access"]).finish().expect("fits");
    assert!(matches!(settings.access_log, Some(LogTarget::File(path)) if path.is_absolute()));
}

#[test]
fn a_dashboard_is_at_the_address_for_metrics() {
    let error = config(&[], &["dashboard=requests"]).finish().expect_err("a mistake").to_string();
    assert!(error.ends_with("it needs --metrics ADDRESS, because it is at that address"), "{error}");
    assert!(config(&[], &["dashboard=on", "metrics=0"]).finish().is_ok());
}

#[test]
fn web_servers_send_no_proxy_header() {
    for command_line in [&["listen=fcgi://:80?proxy_protocol=on"][..], &["listen=:80?proxy_protocol=v1", "protocol=fastcgi"]] {
        let error = config(&[], command_line).finish().expect_err("a mistake").to_string();
        assert!(error.ends_with("leave proxy_protocol out"), "{error}");
    }
    assert!(config(&[], &["listen=fcgi://:80", "proxy-protocol=on"]).finish().is_ok());
}

#[test]
fn all_contradictions_are_found_each_with_its_origin() {
    let mut config = config(&["ORIBI_PROBE=/m"], &["metrics-path=/m?allow=127.0.0.1", "static=/a=src", "static=/b=nowhere"]);
    let line = |line| Origin::ConfigFile { path: "oribi.toml".into(), line, column: 1 };
    for (number, (name, value)) in [
        ("min_requests", "5"),
        ("dashboard", "on"),
        ("trace-export", "http://a"),
        ("relay", "redis://db"),
        ("relay-ca", "ca.pem"),
        ("listen", "https://:1"),
        ("listen", "fcgi://:2?proxy_protocol=on"),
        ("max-uri-size", "64k"),
        ("max-header-size", "8k"),
        ("ssl-key", "key.pem"),
    ]
    .into_iter()
    .enumerate()
    {
        config.set(name, value, line(number + 1)).expect(name);
    }
    let (_, found) = config.examine();
    let found: Vec<_> = found.iter().map(|found| (found.name, found.origin.clone())).collect();
    let expected = [
        ("ssl-key", line(10)),
        ("listen", line(7)),
        ("trace-export", line(3)),
        ("relay-ca", line(5)),
        ("min-requests", line(1)),
        ("max-uri-size", line(8)),
        ("listen", line(7)),
        ("dashboard", line(2)),
        ("metrics-path", Origin::CommandLine),
        ("static", Origin::CommandLine),
    ];
    assert_eq!(found, expected);
    assert!(config.resolve().is_err_and(|error| error.to_string().contains("no certificate for this key")));
}
