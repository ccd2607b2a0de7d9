//! The orders of clients, each a line.

use crate::WorkerTarget;
use std::fmt::{self, Display, Formatter};

/// An order of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Return the state of the server.
    Status,
    /// Return whether the server is ready to serve.
    Health,
    /// Return the state of each worker and each edge.
    Workers,
    /// Return the requests in the server.
    Requests,
    /// Return the backtraces of workers.
    Backtrace {
        /// The number or the process id of the worker; `None` for all workers.
        worker: Option<u32>,
    },
    /// Load the app again, or replace the workers.
    Reload,
    /// Read the file with the apps again, and change what differs.
    Apply {
        /// The file that is read instead of that of the server, an absolute path; it becomes that of the server.
        file: Option<String>,
        /// Whether the differences are only described.
        dry_run: bool,
    },
    /// Remove stored responses.
    Purge {
        /// The name of the app whose responses are removed; `None`: all apps.
        app: Option<String>,
        /// The URI of the responses, or the beginning of URIs with `*` behind it; `None`: all.
        target: Option<String>,
    },
    /// Replace the program of the server itself.
    Upgrade,
    /// Finish the requests, and end.
    Stop,
    /// Set the number of workers, or its limits.
    Scale {
        /// The number of workers.
        target: WorkerTarget,
        /// Whether the answer comes only when these workers are ready and no other workers are left. If false, the answer comes
        /// at once.
        waits: bool,
    },
    /// Reopen the log files.
    ReopenLogs,
    /// An order for one of several apps.
    App {
        /// The name of the app.
        name: String,
        /// The order.
        act: AppOrder,
    },
}

/// An order for one of several apps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppOrder {
    /// Load the app again. The workers of before serve until the new ones do.
    Reload,
    /// Load the app again. The workers of before finish at once, and requests wait.
    Restart,
    /// Finish the requests, and refuse further ones.
    Stop,
    /// Serve again.
    Start,
    /// Set the number of workers, as [`Order::Scale`] does.
    Scale {
        /// The number of workers.
        target: WorkerTarget,
        /// Whether the answer comes only when the change is complete.
        waits: bool,
    },
}

/// The orders, for the message about an unknown one.
const KNOWN: &str = "status, health, workers, requests, backtrace [WORKER], reload, apply [dry-run] [/FILE], upgrade, stop, \
     purge [app NAME] [TARGET], scale NUMBER|MIN:MAX|auto [no-wait], reopen-logs, app NAME reload|restart|stop|start|scale NUMBER|MIN:MAX|auto [no-wait]";

impl Order {
    /// Parses a line without its end.
    ///
    /// # Errors
    /// The line is invalid; the message contains the reason.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let line = std::str::from_utf8(line).map_err(|_| "the request is not text".to_owned())?;
        if let Some(rest) = line.trim_ascii_start().strip_prefix("app ") {
            return parse_app_order(rest);
        }
        if let Some(rest) = line.trim_ascii().strip_prefix("apply").filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
            return parse_apply(rest.trim_ascii());
        }
        if let Some(rest) = line.trim_ascii().strip_prefix("purge").filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
            return parse_purge(rest);
        }
        let mut words = line.split_ascii_whitespace();
        let (name, argument, second) = (words.next().unwrap_or_default(), words.next(), words.next());
        if words.next().is_some() || second.is_some() && name != "scale" {
            return Err(format!("too many words; the orders are: {KNOWN}"));
        }
        let order = match (name, argument) {
            ("status", None) => Self::Status,
            ("health", None) => Self::Health,
            ("workers", None) => Self::Workers,
            ("requests", None) => Self::Requests,
            ("backtrace", None) => Self::Backtrace { worker: None },
            ("backtrace", Some(worker)) => {
                let worker = worker.parse().ok().filter(|worker| *worker > 0);
                Self::Backtrace { worker: Some(worker.ok_or("backtrace: expected the number or the process id of a worker")?) }
            }
            ("reload", None) => Self::Reload,
            ("upgrade", None) => Self::Upgrade,
            ("stop", None) => Self::Stop,
            ("reopen-logs", None) => Self::ReopenLogs,
            ("scale", Some(number)) => {
                let (target, waits) = parse_scale(number, second)?;
                Self::Scale { target, waits }
            }
            ("scale", None) => return Err("scale: expected a number of workers".to_owned()),
            ("status" | "health" | "workers" | "requests" | "reload" | "upgrade" | "stop" | "reopen-logs", Some(_)) => {
                return Err(format!("{name}: nothing may follow"));
            }
            _ => return Err(format!("unknown order; the orders are: {KNOWN}")),
        };
        Ok(order)
    }

    /// Whether the answer may come long after the order, when workers are ready or the server has ended.
    #[must_use]
    pub const fn waits(&self) -> bool {
        matches!(
            self,
            Self::Reload
                | Self::Apply { .. }
                | Self::Purge { .. }
                | Self::Upgrade
                | Self::Stop
                | Self::Scale { waits: true, .. }
                | Self::App { act: AppOrder::Reload | AppOrder::Restart | AppOrder::Scale { waits: true, .. }, .. }
        )
    }
}

/// Parses the number of workers, and the word after it.
fn parse_scale(number: &str, second: Option<&str>) -> Result<(WorkerTarget, bool), String> {
    let target = WorkerTarget::parse(number);
    let target = target.ok_or("scale: expected a number of workers, at least 1, or MIN:MAX, or auto")?;
    match second {
        None => Ok((target, true)),
        Some("no-wait") => Ok((target, false)),
        Some(_) => Err("scale: only no-wait may follow the number".to_owned()),
    }
}

/// Parses the text after `apply`.
fn parse_apply(text: &str) -> Result<Order, String> {
    let dry = text.strip_prefix("dry-run").filter(|rest| rest.is_empty() || rest.starts_with(' '));
    let path = dry.unwrap_or(text).trim_ascii();
    if !path.is_empty() && !path.starts_with('/') {
        return Err("apply: expected nothing, dry-run, or an absolute path".to_owned());
    }
    let file = (!path.is_empty()).then(|| path.to_owned());
    Ok(Order::Apply { file, dry_run: dry.is_some() })
}

/// Parses the words after `purge`.
fn parse_purge(words: &str) -> Result<Order, String> {
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let (app, target) = match words[..] {
        [] => (None, None),
        ["app", name] => (Some(name), None),
        ["app", name, target] => (Some(name), Some(target)),
        [target] => (None, Some(target)),
        _ => return Err("purge: expected nothing, app NAME, a target such as HOST/PATH, or both".to_owned()),
    };
    Ok(Order::Purge { app: app.map(str::to_owned), target: target.map(str::to_owned) })
}

/// Parses the words after `app`.
fn parse_app_order(words: &str) -> Result<Order, String> {
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let (name, act) = match words[..] {
        [name, "reload"] => (name, AppOrder::Reload),
        [name, "restart"] => (name, AppOrder::Restart),
        [name, "stop"] => (name, AppOrder::Stop),
        [name, "start"] => (name, AppOrder::Start),
        [name, "scale", number] => (name, scale_app(number, None)?),
        [name, "scale", number, second] => (name, scale_app(number, Some(second))?),
        _ => return Err("app: expected NAME and one of reload, restart, stop, start, scale NUMBER [no-wait]".to_owned()),
    };
    Ok(Order::App { name: name.to_owned(), act })
}

fn scale_app(number: &str, second: Option<&str>) -> Result<AppOrder, String> {
    parse_scale(number, second).map(|(target, waits)| AppOrder::Scale { target, waits })
}

/// Writes the line for the order, without its end.
impl Display for Order {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Status => "status",
            Self::Health => "health",
            Self::Workers => "workers",
            Self::Requests => "requests",
            Self::Backtrace { worker: None } => "backtrace",
            Self::Backtrace { worker: Some(worker) } => return write!(formatter, "backtrace {worker}"),
            Self::Reload => "reload",
            Self::Upgrade => "upgrade",
            Self::Stop => "stop",
            Self::Scale { target, waits: true } => return write!(formatter, "scale {target}"),
            Self::Scale { target, waits: false } => return write!(formatter, "scale {target} no-wait"),
            Self::ReopenLogs => "reopen-logs",
            Self::Apply { file, dry_run } => {
                formatter.write_str(if *dry_run { "apply dry-run" } else { "apply" })?;
                return file.iter().try_for_each(|file| write!(formatter, " {file}"));
            }
            Self::Purge { app, target } => {
                formatter.write_str("purge")?;
                app.iter().try_for_each(|app| write!(formatter, " app {app}"))?;
                return target.iter().try_for_each(|target| write!(formatter, " {target}"));
            }
            Self::App { name, act } => return write!(formatter, "app {name} {act}"),
        };
        formatter.write_str(name)
    }
}

impl Display for AppOrder {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reload => formatter.write_str("reload"),
            Self::Restart => formatter.write_str("restart"),
            Self::Stop => formatter.write_str("stop"),
            Self::Start => formatter.write_str("start"),
            Self::Scale { target, waits: true } => write!(formatter, "scale {target}"),
            Self::Scale { target, waits: false } => write!(formatter, "scale {target} no-wait"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_words_and_anything_else_is_refused() {
        for (line, order) in [
            ("status", Order::Status),
            ("health", Order::Health),
            ("workers", Order::Workers),
            ("requests", Order::Requests),
            ("backtrace", Order::Backtrace { worker: None }),
            ("backtrace 3", Order::Backtrace { worker: Some(3) }),
            ("reload\r", Order::Reload),
            (" stop ", Order::Stop),
            ("scale 4", Order::Scale { target: WorkerTarget::Number(4), waits: true }),
            ("scale 4 no-wait", Order::Scale { target: WorkerTarget::Number(4), waits: false }),
            ("scale 2:8", Order::Scale { target: WorkerTarget::Between { least: 2, most: 8 }, waits: true }),
            ("scale auto no-wait", Order::Scale { target: WorkerTarget::Auto, waits: false }),
            ("reopen-logs", Order::ReopenLogs),
            ("upgrade", Order::Upgrade),
            ("purge", Order::Purge { app: None, target: None }),
            ("purge app shop", Order::Purge { app: Some("shop".to_owned()), target: None }),
            ("purge a.example/*", Order::Purge { app: None, target: Some("a.example/*".to_owned()) }),
            ("purge app shop /a", Order::Purge { app: Some("shop".to_owned()), target: Some("/a".to_owned()) }),
            ("apply", Order::Apply { file: None, dry_run: false }),
            ("apply dry-run", Order::Apply { file: None, dry_run: true }),
            ("apply /srv/new apps.toml", Order::Apply { file: Some("/srv/new apps.toml".to_owned()), dry_run: false }),
            ("apply dry-run /a.toml", Order::Apply { file: Some("/a.toml".to_owned()), dry_run: true }),
            ("app shop reload", Order::App { name: "shop".to_owned(), act: AppOrder::Reload }),
            ("app shop restart", Order::App { name: "shop".to_owned(), act: AppOrder::Restart }),
            ("app reload stop", Order::App { name: "reload".to_owned(), act: AppOrder::Stop }),
            ("app a.b start", Order::App { name: "a.b".to_owned(), act: AppOrder::Start }),
            (
                "app a scale 2",
                Order::App { name: "a".to_owned(), act: AppOrder::Scale { target: WorkerTarget::Number(2), waits: true } },
            ),
            (
                "app a scale 2 no-wait",
                Order::App { name: "a".to_owned(), act: AppOrder::Scale { target: WorkerTarget::Number(2), waits: false } },
            ),
        ] {
            assert_eq!(Order::parse(line.as_bytes()), Ok(order.clone()), "{line:?}");
            assert_eq!(order.to_string(), line.trim(), "it is also written so");
        }
        for line in [
            "",
            "STATUS",
            "scale",
            "scale 0",
            "scale -1",
            "scale 1 2",
            "scale 1 no-wait 2",
            "scale x",
            "scale 3:2",
            "reload no wait",
            "backtrace 0",
            "backtrace all",
            "backtrace 1 2",
            "stop now",
            "apply oribi.toml",
            "apply dry-runs",
            "purge /a /b",
            "purge app shop /a /b",
            "purged",
            "health now",
            "status\0",
            "GET / HTTP/1.1",
        ] {
            assert!(Order::parse(line.as_bytes()).is_err(), "{line:?}");
        }
        assert!(Order::parse(b"\xff\xfe").is_err());
    }
}
