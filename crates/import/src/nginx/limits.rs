//! `limit_req` and `limit_conn`, with their zones.

use super::context::{Context, LIMITS};
use super::syntax::Directive;
use super::{Nginx, key};
use crate::filters::{By, Limit, Most};

/// A zone of counts.
pub(super) struct Zone {
    name: String,
    /// The requests that are counted together, or the variables that a limit does not have.
    by: Result<By, String>,
    /// The rate, of `limit_req_zone`.
    rate: Option<(u32, &'static str)>,
}

impl Nginx<'_> {
    /// Reads `limit_req_zone` or `limit_conn_zone`.
    pub(super) fn zone(&mut self, directive: &Directive) {
        let key = key(directive);
        let mut zone = Zone { name: String::new(), by: by(directive.word(0)), rate: None };
        if let Ok(By::Field(name)) = &zone.by {
            self.draft.lost(&key, format!("requests without {name} are limited by their clients, not admitted"));
        }
        for word in directive.words.iter().skip(1) {
            match word.split_once('=') {
                Some(("zone", value)) => zone.name = value.split(':').next().unwrap_or_default().to_owned(),
                Some(("rate", value)) => {
                    zone.rate = rate(value);
                    if zone.rate.is_none() {
                        self.draft.lost(&key, format!("a rate is a number with r/s or r/m, not {value}"));
                    }
                }
                _ => self.draft.lost(&key, format!("{word} has no counterpart")),
            }
        }
        self.zones.push(zone);
    }

    /// The limits of a context.
    pub(super) fn limits(&mut self, context: &Context) -> Vec<Limit> {
        let is_on = |name: &str| context.filters.iter().any(|other| other.name == name && other.word(0) == "on");
        let mut limits = Vec::new();
        for directive in context.filters.iter().filter(|directive| LIMITS.contains(&&*directive.name)) {
            self.used(directive);
            let limit = match directive.name.as_str() {
                "limit_req" => self.rate(directive, is_on("limit_req_dry_run")),
                "limit_conn" => self.open(directive, is_on("limit_conn_dry_run")),
                _ => None,
            };
            limits.extend(limit);
        }
        limits
    }

    fn rate(&mut self, directive: &Directive, dry_run: bool) -> Option<Limit> {
        let key = key(directive);
        let (mut name, mut burst, mut delays) = ("", 0, true);
        for word in &directive.words {
            match word.split_once('=') {
                Some(("zone", value)) => name = value,
                Some(("burst", value)) => burst = value.parse().unwrap_or(0),
                None if word == "nodelay" => delays = false,
                Some(("delay", _)) => {}
                _ => self.draft.lost(&key, format!("{word} has no counterpart")),
            }
        }
        let by = self.by(name, directive)?;
        let rate = self.zones.iter().find(|zone| zone.name == name).and_then(|zone| zone.rate);
        let Some((requests, per)) = rate else {
            self.draft.lost(&key, format!("the zone {name} has no rate"));
            return None;
        };
        if delays && burst > 0 {
            self.draft.lost(&key, "no request is delayed: all of a burst are answered at once, and further ones get a 429");
        }
        Some(Limit { most: Most::Rate { requests, per, burst: 1 + burst.min(1 << 23) }, by, dry_run })
    }

    fn open(&mut self, directive: &Directive, dry_run: bool) -> Option<Limit> {
        let by = self.by(directive.word(0), directive)?;
        let Ok(open) = directive.word(1).parse() else {
            self.draft.lost(&key(directive), "expected the name of a zone and a number");
            return None;
        };
        Some(Limit { most: Most::Open(open), by, dry_run })
    }

    fn by(&mut self, name: &str, directive: &Directive) -> Option<By> {
        let key = key(directive);
        match self.zones.iter().find(|zone| zone.name == name).map(|zone| zone.by.clone()) {
            Some(Ok(by)) => Some(by),
            Some(Err(variables)) => {
                self.draft.lost(&key, format!("a limit counts by client, by the value of a field, or all, not by {variables}"));
                None
            }
            None => {
                self.draft.lost(&key, format!("there is no zone {name}"));
                None
            }
        }
    }
}

/// The requests that a zone counts together.
fn by(variables: &str) -> Result<By, String> {
    match variables {
        "$binary_remote_addr" | "$remote_addr" => Ok(By::Client),
        "$server_name" => Ok(By::All),
        text if !text.contains('$') => Ok(By::All),
        text => match text.strip_prefix("$http_") {
            Some(name) if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && name != "host" => {
                Ok(By::Field(name.replace('_', "-")))
            }
            _ => Err(text.to_owned()),
        },
    }
}

/// `10r/s` or `30r/m`.
fn rate(text: &str) -> Option<(u32, &'static str)> {
    let (number, per) = match text.strip_suffix("r/s") {
        Some(number) => (number, "1s"),
        None => (text.strip_suffix("r/m")?, "1m"),
    };
    number.parse().ok().filter(|number| *number > 0).map(|number| (number, per))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_count_by_client_by_field_or_all() {
        for (text, expected) in [
            ("$binary_remote_addr", Ok(By::Client)),
            ("$server_name", Ok(By::All)),
            ("$http_x_api_key", Ok(By::Field("x-api-key".to_owned()))),
            ("$http_host", Err("$http_host".to_owned())),
            ("$remote_addr$uri", Err("$remote_addr$uri".to_owned())),
        ] {
            assert_eq!(by(text), expected);
        }
    }

    #[test]
    fn a_rate_has_a_number_and_a_time() {
        for (text, expected) in
            [("10r/s", Some((10, "1s"))), ("30r/m", Some((30, "1m"))), ("0r/s", None), ("10", None), ("xr/s", None)]
        {
            assert_eq!(rate(text), expected, "{text}");
        }
    }
}
