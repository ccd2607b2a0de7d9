//! Parses the values of the settings in [`Life`](super::life::Life).

use super::life::{ReloadMode, ReplaceOrder};
use super::settings::Timeouts;
use super::value::{deadline, show_duration, show_size, size};
use std::time::Duration;

/// Parses a time above zero; `None` for `off`.
pub(super) fn lifetime(text: &str) -> Result<Option<Duration>, String> {
    deadline(text).map(|time| (time < Timeouts::NEVER).then_some(time))
}

/// Formats the value so that [`lifetime`] can parse it.
pub(super) fn show_lifetime(most: Option<Duration>) -> String {
    show_duration(most.unwrap_or(Timeouts::NEVER))
}

/// Parses a request target in origin form; `None` for `off` and for an empty text.
pub(super) fn boot_request(text: &str) -> Result<Option<String>, String> {
    let target = text.trim();
    if target.is_empty() || target.eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    if !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err("expected a path such as /login or /search?q=x, or off".to_owned());
    }
    Ok(Some(target.to_owned()))
}

/// Parses `whole` or `rolling`.
pub(super) fn reload_mode(text: &str) -> Result<ReloadMode, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "whole" => Ok(ReloadMode::Whole),
        "rolling" => Ok(ReloadMode::Rolling),
        _ => Err("expected whole or rolling".to_owned()),
    }
}

/// Formats the value so that [`reload_mode`] can parse it.
pub(super) fn show_reload_mode(mode: ReloadMode) -> String {
    match mode {
        ReloadMode::Whole => "whole",
        ReloadMode::Rolling => "rolling",
    }
    .to_owned()
}

/// Parses `new-first` or `old-first`.
pub(super) fn replace_order(text: &str) -> Result<ReplaceOrder, String> {
    match text.trim().to_ascii_lowercase().replace('_', "-").as_str() {
        "new-first" => Ok(ReplaceOrder::NewFirst),
        "old-first" => Ok(ReplaceOrder::OldFirst),
        _ => Err("expected new-first or old-first".to_owned()),
    }
}

/// Formats the value so that [`replace_order`] can parse it.
pub(super) fn show_replace_order(order: ReplaceOrder) -> String {
    match order {
        ReplaceOrder::NewFirst => "new-first",
        ReplaceOrder::OldFirst => "old-first",
    }
    .to_owned()
}

/// The smallest plausible limit for the memory of a worker, in bytes: an interpreter alone needs more.
const LEAST_MEMORY: u64 = 1 << 20;

/// Parses a size; `None` for `off`. A plain number counts MiB, as in the servers whose option names are accepted here.
pub(super) fn memory(text: &str) -> Result<Option<u64>, String> {
    let text = text.trim();
    if ["off", "never", "none", "unlimited", "0"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Ok(None);
    }
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = if plain { size(&format!("{text}m"), 0..=u64::MAX) } else { size(text, 0..=u64::MAX) };
    match bytes {
        Ok(bytes) if bytes >= LEAST_MEMORY => Ok(Some(bytes)),
        _ => Err("expected a size of at least 1m, such as 300m or 2g, or off; a plain number counts MiB".to_owned()),
    }
}

/// Formats the value so that [`memory`] can parse it.
pub(super) fn show_memory(limit: Option<u64>) -> String {
    limit.map_or_else(|| "off".to_owned(), show_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_boot_requests() {
        assert_eq!(boot_request(" /up?deep=1 "), Ok(Some("/up?deep=1".to_owned())));
        for text in ["", "off", "OFF"] {
            assert_eq!(boot_request(text), Ok(None), "{text:?}");
        }
        for text in ["up", "/a b", "/a#b", "http://x/", "/\u{e9}", "/a\r\nX: y"] {
            assert!(boot_request(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn memory_limits() {
        for (text, expected) in
            [("300m", Some(300 << 20)), ("2GB", Some(2 << 30)), ("512", Some(512 << 20)), ("off", None), ("0", None)]
        {
            assert_eq!(memory(text), Ok(expected), "{text:?}");
            assert_eq!(memory(&show_memory(expected)), Ok(expected), "{text:?}");
        }
        for text in ["", "100k", "-1", "1.5g", "many", "99999999999999999999"] {
            assert!(memory(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn words_are_read_as_they_are_shown() {
        for mode in [ReloadMode::Whole, ReloadMode::Rolling] {
            assert_eq!(reload_mode(&show_reload_mode(mode)), Ok(mode));
        }
        for order in [ReplaceOrder::NewFirst, ReplaceOrder::OldFirst] {
            assert_eq!(replace_order(&show_replace_order(order)), Ok(order));
        }
        assert!(reload_mode("phased").is_err());
        assert!(replace_order("").is_err());
    }
}
