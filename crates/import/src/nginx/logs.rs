//! `error_log` and `access_log`, and their form of a syslog daemon.

use super::syntax::Directive;
use crate::draft::Draft;
use crate::note::Key;

/// The facilities of Oribi.
const FACILITIES: &[&str] = &[
    "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "local0", "local1", "local2",
    "local3", "local4", "local5", "local6", "local7",
];

/// The longest tag.
const TAG_BYTES: usize = 32;

/// Reads `error_log`.
pub(super) fn errors(directive: &Directive, key: &Key, draft: &mut Draft) {
    let path = directive.word(0);
    match (path, path.strip_prefix("syslog:")) {
        ("stderr" | "/dev/stderr" | "/dev/stdout", _) => draft.server.set("error-log", "-", key),
        (_, Some(daemon)) => {
            let target = syslog(daemon, false, key, draft);
            draft.server.set("error-log", target, key);
        }
        (path, None) => draft.server.set("error-log", path, key),
    }
    let level = match directive.word(1) {
        "" | "error" => return,
        "debug" => "debug",
        "info" | "notice" => "info",
        "warn" => "warn",
        _ => "error",
    };
    draft.server.set("log-level", level, key);
}

/// Reads `access_log`.
pub(super) fn requests(directive: &Directive, key: &Key, draft: &mut Draft) {
    let path = directive.word(0);
    match (path, path.strip_prefix("syslog:")) {
        ("off", _) => {
            return draft.same(key, "without access-log no requests are logged; one that is set holds for all of them");
        }
        ("/dev/stdout" | "/dev/stderr", _) => draft.server.set("access-log", "-", key),
        (_, Some(daemon)) => {
            let target = syslog(daemon, true, key, draft);
            draft.server.set("access-log", target, key);
        }
        (path, None) => draft.server.set("access-log", path, key),
    }
    for word in directive.words.iter().skip(1) {
        match word.split_once('=').map_or(word.as_str(), |(name, _)| name) {
            "if" => draft.lost(key, "the access log has all requests, without if"),
            name @ ("buffer" | "flush") => draft.same(key, format!("{name}: each line is written at once")),
            "gzip" => draft.lost(key, "the access log is not compressed: gzip has no counterpart"),
            "combined" => {}
            _ => draft.lost(key, "access-log-format is combined, unless you set it"),
        }
    }
}

/// The target of a log for `server=ADDRESS,facility=NAME,tag=NAME`. `of_requests`: for lines of the access log.
fn syslog(parameters: &str, of_requests: bool, key: &Key, draft: &mut Draft) -> String {
    let (mut server, mut options) = ("", Vec::new());
    for parameter in parameters.split(',').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let is_tag = |tag: &str| {
            let letters = tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
            (1..=TAG_BYTES).contains(&tag.len()) && letters
        };
        match name {
            "server" => server = value.strip_prefix("unix:").unwrap_or(value),
            "facility" => {
                let known = match &*value.to_ascii_lowercase() {
                    // nginx has its own names of these.
                    "intern" => Some("syslog"),
                    "clock" => Some("cron"),
                    name => FACILITIES.iter().find(|known| **known == name).copied(),
                };
                match known {
                    Some(known) => options.push(format!("facility={known}")),
                    None => draft.lost(key, format!("the facility {value} has no counterpart: messages have local7")),
                }
            }
            "tag" if is_tag(value) => options.push(format!("tag={value}")),
            "tag" => {
                draft.lost(key, format!("a tag has up to {TAG_BYTES} letters, digits, `.`, `_` and `-`: messages have oribi"));
            }
            "severity" if !of_requests => draft.same(key, "severity: each message about an error has its own, in nginx, too"),
            "severity" if value.eq_ignore_ascii_case("info") => {}
            "severity" => draft.lost(key, format!("messages about requests have the severity info, not {value}")),
            "nohostname" => draft.lost(key, "messages by UDP name this machine, without nohostname"),
            _ => draft.lost(key, format!("{name} has no counterpart")),
        }
    }
    if server.is_empty() {
        draft.lost(key, "no server is named: messages go to the daemon of this machine");
    }
    let query = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
    format!("syslog:{server}{query}")
}

#[cfg(test)]
mod tests {
    use crate::draft::Draft;
    use crate::note::Kind;

    /// The options of a directive, and the texts of its notes of one kind.
    fn read(text: &str, kind: Kind) -> (String, Vec<String>) {
        let mut draft = Draft::default();
        super::super::read("nginx.conf", text, &mut draft).expect("it can be read");
        let options = draft.server.list.iter().map(|option| format!("{}={}", option.name, option.value.plain()));
        let options = options.collect::<Vec<_>>().join(" ");
        (options, draft.notes.into_iter().filter(|note| note.kind == kind).map(|note| note.text).collect())
    }

    #[test]
    fn messages_go_to_the_same_daemon() {
        for (text, expected) in [
            (
                "access_log syslog:server=10.0.0.1:514,facility=local3,tag=x,severity=info;",
                "access-log=syslog:10.0.0.1:514?facility=local3&tag=x",
            ),
            ("access_log syslog:server=unix:/dev/log combined;", "access-log=syslog:/dev/log"),
            ("access_log syslog:server=[2001:db8::1]:5140;", "access-log=syslog:[2001:db8::1]:5140"),
            (
                "error_log syslog:server=10.0.0.1,facility=INTERN warn;",
                "error-log=syslog:10.0.0.1?facility=syslog log-level=warn",
            ),
        ] {
            assert_eq!(read(text, Kind::Lost), (expected.to_owned(), Vec::new()), "{text}");
        }
    }

    #[test]
    fn each_parameter_without_a_counterpart_is_noted() {
        for parameter in ["facility=ntp", "tag=a+b", "severity=notice", "nohostname", "zork=1"] {
            let (options, notes) = read(&format!("access_log syslog:server=10.0.0.1,{parameter};"), Kind::Lost);
            assert_eq!((options.as_str(), notes.len()), ("access-log=syslog:10.0.0.1", 1), "{parameter}: {notes:?}");
        }
        assert_eq!(read("error_log syslog:server=10.0.0.1,severity=notice;", Kind::Same).1.len(), 1);
        assert_eq!(read("error_log syslog:;", Kind::Lost).1.len(), 1);
    }

    #[test]
    fn each_word_is_noted() {
        let text = "access_log /a.log combined buffer=32k flush=5s gzip=1 if=$loggable; keepalive_timeout 75s 60s;";
        let (options, lost) = read(text, Kind::Lost);
        assert_eq!(options, "access-log=/a.log keepalive-timeout=75s");
        for (part, note) in ["gzip", "if", "60s"].iter().zip(&lost) {
            assert!(note.contains(part), "{part}: {lost:?}");
        }
        assert_eq!((lost.len(), read(text, Kind::Same).1.len()), (3, 2), "{lost:?}");
    }
}
