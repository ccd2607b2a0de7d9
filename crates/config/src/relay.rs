//! Parses the Redis over which messages are shared with other servers.

use super::contradiction::Contradictions;
use super::settings::Settings;
use super::value::is_off;
use crate::directory;
use oribi_io::process::environment;
use oribi_relay::Redis;
use std::path::Path;

/// The variable that names the Redis of an app to many programs.
const VARIABLE: &str = "REDIS_URL";

/// Parses the URL of a Redis, `auto` for the one in the environment, or `off`. Returns `None` for `off`, and for `auto` without
/// such a URL.
pub(super) fn redis(text: &str) -> Result<Option<Redis>, String> {
    let text = text.trim();
    if is_off(text) {
        return Ok(None);
    }
    if !text.eq_ignore_ascii_case("auto") {
        return Redis::parse(text).map(Some);
    }
    let url = environment::variable(VARIABLE).filter(|url| !url.trim().is_empty());
    url.map(|url| Redis::parse(&url)).transpose().map_err(|why| format!("{VARIABLE} in the environment: {why}"))
}

/// Formats the value, without the password, so that [`redis`] can parse it.
pub(super) fn show_redis(relay: &oribi_relay::Settings) -> String {
    relay.redis.as_ref().map_or_else(|| "off".to_owned(), Redis::to_string)
}

/// Makes the paths absolute, and refuses settings that have no effect.
pub(super) fn settle(settings: &mut Settings, found: &mut Contradictions) {
    let relay = &mut settings.relay;
    let absolute = |path: &Path| directory::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Some(path) = &mut relay.authorities {
        *path = absolute(path);
    }
    if let Some(redis) = &mut relay.redis {
        redis.make_absolute(absolute);
    }
    match (&relay.redis, &relay.authorities) {
        (Some(redis), Some(file)) if !redis.is_encrypted() => {
            found.add("relay-ca", file.display().to_string(), "the URL of --relay is not rediss", &["relay"]);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Origin};

    fn settings(pairs: &[(&str, &str)]) -> Result<oribi_relay::Settings, String> {
        let mut config = Config::with(|_| None, 1);
        for (name, value) in pairs {
            config.set(name, value, Origin::CommandLine).map_err(|error| error.to_string())?;
        }
        config.finish().map(|settings| settings.relay).map_err(|error| error.to_string())
    }

    #[test]
    fn messages_are_shared_over_a_redis() {
        let relay = settings(&[("relay", "rediss://db"), ("relay-ca", "ca.pem"), ("relay-prefix", "shop:")]).expect("fits");
        assert_eq!(relay.redis.map(|redis| redis.to_string()).as_deref(), Some("rediss://db:6379"));
        assert!(relay.authorities.is_some_and(|path| path.is_absolute()) && relay.prefix == "shop:");
        let relay = settings(&[("relay", "unix:redis.sock?password_file=secret")]).expect("fits");
        let shown = relay.redis.map(|redis| redis.to_string()).expect("a Redis");
        assert!(shown.starts_with("unix:/") && shown.contains("?password_file=/"), "{shown}");
        assert_eq!(settings(&[("relay", "off")]).expect("fits").redis, None);
        for (pairs, part) in [
            (&[("relay", "redis://:hunter2@db:port")][..], "expected redis://"),
            (&[("relay", "redis://db"), ("relay-ca", "ca.pem")], "is not rediss"),
            (&[("relay-prefix", "a*")], "without *"),
        ] {
            let why = settings(pairs).expect_err("a mistake");
            assert!(why.contains(part) && !why.contains("hunter2"), "{pairs:?}: {why}");
        }
    }
}
