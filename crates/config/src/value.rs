//! Parses and formats simple values: counts, sizes, durations, switches. Every error contains the expected form.

use super::AccessPattern;
use super::settings::{AcceptModel, AccessFormat, EdgeChoice, Limits, LogTarget, Protocol, Timeouts};
use super::system_log::SystemLog;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Whether the text is a word for "off". 0 is not such a word, because it could also mean "at once" or "nothing".
pub(super) fn is_off(text: &str) -> bool {
    ["off", "never", "none", "unlimited"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Parses a whole number in `range`.
pub fn count(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let text = text.trim();
    let (low, high) = (*range.start(), *range.end());
    let parsed = if digits_only(text) { text.parse::<u64>().ok() } else { None };
    match parsed {
        Some(number) if range.contains(&number) => Ok(number),
        _ if high == u64::MAX => Err(format!("expected a whole number from {low} on")),
        _ => Err(format!("expected a whole number from {low} to {high}")),
    }
}

/// Parses a whole number in `range`, as `usize`.
pub(crate) fn small_count(text: &str, range: RangeInclusive<u32>) -> Result<usize, String> {
    count(text, u64::from(*range.start())..=u64::from(*range.end())).map(|number| number as usize)
}

/// Parses `MIN:MAX`, or one number for both. MIN may be 0, MAX may not.
pub(crate) fn span(text: &str, most: u32) -> Result<(usize, usize), String> {
    let (low, high) = text.split_once(':').unwrap_or((text, text));
    let low_from = if text.contains(':') { 0 } else { 1 };
    match (small_count(low, low_from..=most), small_count(high, 1..=most)) {
        (Ok(low), Ok(high)) if low <= high => Ok((low, high)),
        _ => Err(format!("expected a whole number from 1 to {most}, or two as MIN:MAX")),
    }
}

/// Formats the value so that [`span`] can parse it.
pub(crate) fn show_span(low: usize, high: usize) -> String {
    if low == high { high.to_string() } else { format!("{low}:{high}") }
}

/// Parses a part of a line for users.
pub(crate) fn title_part(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err("expected a text of one line without control characters".to_owned());
    }
    Ok(text.trim().to_owned())
}

/// Parses the name or number of a user or a group.
pub(crate) fn account(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty()
        || text.contains(|character: char| character.is_control() || character.is_whitespace() || character == ':')
    {
        return Err("expected the name or number of a user or a group".to_owned());
    }
    Ok(text.to_owned())
}

/// Parses permission bits of a file, as an octal number; `off` leaves them to the umask.
pub(crate) fn file_mode(text: &str) -> Result<Option<u32>, String> {
    let text = text.trim();
    if is_off(text) {
        return Ok(None);
    }
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 && digits_only(text) => Ok(Some(mode)),
        _ => Err("expected permission bits as an octal number such as 660, or `off` for the umask".to_owned()),
    }
}

/// Formats the value so that [`file_mode`] can parse it.
pub(crate) fn show_file_mode(mode: Option<u32>) -> String {
    mode.map_or_else(|| "off".to_owned(), |mode| format!("{mode:03o}"))
}

/// Parses a whole number; 0 and `off` mean "no limit".
pub fn limit(text: &str) -> Result<Option<u64>, String> {
    if is_off(text.trim()) {
        return Ok(None);
    }
    match count(text, 0..=u64::MAX) {
        Ok(0) => Ok(None),
        Ok(number) => Ok(Some(number)),
        Err(_) => Err("expected a whole number, or 0 for no limit".to_owned()),
    }
}

/// Parses a number of bytes in `range`: `4096`, `64k`, `1m`, `1MiB`, `2GB`. However a unit is spelled, it is a multiple of
/// 1024, as in the configuration of every web server.
pub fn size(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let text = text.trim();
    let (number, unit) = split_unit(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        "t" | "tb" | "tib" => Some(40),
        _ => None,
    };
    let bytes = match (digits_only(number), shift) {
        (true, Some(shift)) => number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)),
        _ => return Err("expected a size in bytes, such as 65536, 64k, 1m or 1GiB".to_owned()),
    };
    match bytes {
        Some(bytes) if range.contains(&bytes) => Ok(bytes),
        _ => Err(format!("expected a size from {} to {}", show_size(*range.start()), show_size(*range.end()))),
    }
}

/// Parses a number of bytes, at least 1, or `off` for no limit. 0 is refused, because some servers mean "nothing" by it, and
/// others "no limit".
pub(crate) fn size_limit(text: &str) -> Result<u64, String> {
    if is_off(text.trim()) {
        return Ok(Limits::UNLIMITED);
    }
    match size(text, 0..=Limits::UNLIMITED) {
        Ok(0) => Err("expected a size such as 64k or 1m, or `off` for no limit; 0 could mean either".to_owned()),
        other => other,
    }
}

/// Parses a duration of at most a year: `30`, `30s`, `1.5`, `500ms`, `5m`, `2h`, `1d`. A plain number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "expected a time such as 30, 30s, 500ms, 5m or 1h; a plain number counts seconds";
    const YEAR: u128 = 365 * 24 * 3600 * 1000;
    let text = text.trim();
    let (number, unit) = split_unit(text);
    let milliseconds_of_unit: u128 = match unit.to_ascii_lowercase().as_str() {
        "ms" => 1,
        "" | "s" | "sec" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(EXPECTED.to_owned()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // 13 digits of milliseconds are three hundred years, and keep the arithmetic below far from overflow.
    if !digits_only(whole) || !digits_only(fraction) || whole.len() > 13 || fraction.len() > 9 {
        return Err(EXPECTED.to_owned());
    }
    let (Ok(whole), Ok(part)) = (whole.parse::<u128>(), fraction.parse::<u128>()) else { return Err(EXPECTED.to_owned()) };
    let exact = whole * milliseconds_of_unit;
    let part = part * milliseconds_of_unit / 10_u128.pow(fraction.len() as u32);
    match u64::try_from(exact + part) {
        Ok(milliseconds) if u128::from(milliseconds) <= YEAR => Ok(Duration::from_millis(milliseconds)),
        _ => Err("expected a time of at most 365d".to_owned()),
    }
}

/// Parses a deadline: a time above zero, or `off` for none. 0 is refused, because some servers mean "at once" by it, and others
/// "never".
pub(crate) fn deadline(text: &str) -> Result<Duration, String> {
    if is_off(text.trim()) {
        return Ok(Timeouts::NEVER);
    }
    match duration(text)? {
        Duration::ZERO => {
            Err("expected a time above zero such as 30s, or `off` for no deadline; 0 could mean either".to_owned())
        }
        time => Ok(time),
    }
}

/// Like [`deadline`]; `None` for `auto`.
pub(crate) fn deadline_or_auto(text: &str) -> Result<Option<Duration>, String> {
    if text.trim().eq_ignore_ascii_case("auto") { Ok(None) } else { deadline(text).map(Some) }
}

/// Parses a time; 0 and `off` turn the event off.
pub fn duration_or_off(text: &str) -> Result<Duration, String> {
    if is_off(text.trim()) { Ok(Duration::ZERO) } else { duration(text) }
}

/// Parses the longest time to wait: 0 for "not at all", `off` for "without limit".
pub(crate) fn patience(text: &str) -> Result<Duration, String> {
    if is_off(text.trim()) { Ok(Timeouts::NEVER) } else { duration(text) }
}

/// Parses `on`, `off` and their synonyms. An empty text, which a switch without a value has, means on.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "1" | "on" | "yes" | "true" => Ok(true),
        "0" | "off" | "no" | "false" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

/// Formats the value so that [`boolean`] can parse it.
pub fn show_switch(on: bool) -> String {
    (if on { "on" } else { "off" }).to_owned()
}

/// Parses the path of a file or directory.
pub(crate) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("expected a path".to_owned());
    }
    Ok(PathBuf::from(text))
}

/// Parses names of files, separated by commas, or `off` for none.
///
/// # Errors
/// A name is empty, or leads elsewhere; the message says what is expected.
pub fn file_names(text: &str) -> Result<Vec<String>, String> {
    if is_off(text.trim()) {
        return Ok(Vec::new());
    }
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    let fits = |name: &String| !name.is_empty() && !matches!(name.as_str(), "." | "..") && !name.contains(['/', '\0', '\\']);
    if names.iter().all(fits) {
        return Ok(names);
    }
    Err("expected names of files with commas between them, as in index.html,index.htm, or off".to_owned())
}

/// Formats the value so that [`file_names`] can parse it.
pub(crate) fn show_file_names(names: &[String]) -> String {
    if names.is_empty() { "off".to_owned() } else { names.join(",") }
}

/// Parses the destination of a log: `-` or a path.
pub fn log_target(text: &str) -> Result<LogTarget, String> {
    match text {
        "-" => Ok(LogTarget::Standard),
        _ => match SystemLog::parse(text) {
            Some(log) => log.map(LogTarget::System),
            None => path(text).map(LogTarget::File).map_err(|_| "expected a path, `-`, `syslog:` or `journal`".to_owned()),
        },
    }
}

/// Parses the destination of a log, or `off`.
pub(crate) fn optional_log_target(text: &str) -> Result<Option<LogTarget>, String> {
    if is_off(text) { Ok(None) } else { log_target(text).map(Some).map_err(|why| format!("{why}, or `off`")) }
}

/// Parses a format of the access log.
pub(crate) fn access_format(text: &str) -> Result<AccessFormat, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "common" => Ok(AccessFormat::Common),
        "combined" => Ok(AccessFormat::Combined),
        "rack" => Ok(AccessFormat::Rack),
        "json" => Ok(AccessFormat::Json),
        _ if text.contains('%') => AccessPattern::parse(text).map(AccessFormat::Pattern),
        _ => Err("expected common, combined, rack, json, or a pattern like '%h %t \"%r\" %>s %b %D'".to_owned()),
    }
}

/// Parses the protocol of clients.
pub(crate) fn protocol(text: &str) -> Result<Protocol, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "http" => Ok(Protocol::Http),
        "fastcgi" | "fcgi" => Ok(Protocol::FastCgi),
        _ => Err("expected http or fastcgi".to_owned()),
    }
}

/// Formats the value so that [`protocol`] can parse it.
pub(crate) fn show_protocol(protocol: Protocol) -> String {
    match protocol {
        Protocol::Http => "http",
        Protocol::FastCgi => "fastcgi",
    }
    .to_owned()
}

/// Parses the way of connections to lanes.
pub fn accept_model(text: &str) -> Result<AcceptModel, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "shared" => Ok(AcceptModel::Shared),
        "own" => Ok(AcceptModel::Own),
        _ => Err("expected shared or own".to_owned()),
    }
}

/// Formats the value so that [`accept_model`] can parse it.
pub fn show_accept_model(model: AcceptModel) -> String {
    match model {
        AcceptModel::Shared => "shared",
        AcceptModel::Own => "own",
    }
    .to_owned()
}

/// Parses whether connections belong to edges.
pub fn edge_choice(text: &str) -> Result<EdgeChoice, String> {
    if text.trim().eq_ignore_ascii_case("auto") {
        return Ok(EdgeChoice::Auto);
    }
    match boolean(text) {
        Ok(true) => Ok(EdgeChoice::On),
        Ok(false) => Ok(EdgeChoice::Off),
        Err(_) => Err("expected auto, on or off".to_owned()),
    }
}

/// Formats the value so that [`edge_choice`] can parse it.
pub(crate) fn show_edge_choice(choice: EdgeChoice) -> String {
    match choice {
        EdgeChoice::Auto => "auto",
        EdgeChoice::On => "on",
        EdgeChoice::Off => "off",
    }
    .to_owned()
}

/// Parses addresses, separated by commas; empty: no restriction.
pub(crate) fn ip_addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    let addresses = text.split(',').map(str::trim).filter(|address| !address.is_empty());
    addresses
        .map(|address| address.parse().map(|address: IpAddr| address.to_canonical()))
        .collect::<Result<_, _>>()
        .map_err(|_| "expected IP addresses with commas between them, as in 127.0.0.1,192.0.2.7".to_owned())
}

/// Formats the value so that [`ip_addresses`] can parse it.
pub(crate) fn show_ip_addresses(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Parses a level of the error log.
pub(crate) fn log_level(text: &str) -> Result<log::LevelFilter, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "off" => Ok(log::LevelFilter::Off),
        "error" => Ok(log::LevelFilter::Error),
        "warn" | "warning" => Ok(log::LevelFilter::Warn),
        "info" | "notice" => Ok(log::LevelFilter::Info),
        "debug" => Ok(log::LevelFilter::Debug),
        "trace" => Ok(log::LevelFilter::Trace),
        _ => Err("expected off, error, warn, info, debug or trace".to_owned()),
    }
}

/// Parses a text that is allowed in a response field: visible ASCII with single spaces between.
pub(crate) fn field_value(text: &str) -> Result<String, String> {
    let visible = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if visible && text.trim() == text { Ok(text.to_owned()) } else { Err("expected visible ASCII characters".to_owned()) }
}

/// Parses a name for SERVER_NAME: a host that is allowed in a URI.
pub(crate) fn host_name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\"\\<>".contains(&byte));
    if fits { Ok(text.to_owned()) } else { Err("expected a host name or an address".to_owned()) }
}

/// Formats a number of bytes with the largest unit that is exact.
pub fn show_size(bytes: u64) -> String {
    if bytes >= Limits::UNLIMITED {
        return "off".to_owned();
    }
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Formats a time with the largest unit that is exact and of which there is more than one.
pub fn show_duration(time: Duration) -> String {
    if time >= Timeouts::NEVER {
        return "off".to_owned();
    }
    let milliseconds = time.as_millis();
    for (length, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")] {
        if milliseconds > length && milliseconds.is_multiple_of(length) {
            return format!("{}{unit}", milliseconds / length);
        }
    }
    match milliseconds {
        0 => "0".to_owned(),
        1000 => "1s".to_owned(),
        _ => format!("{milliseconds}ms"),
    }
}

/// Formats a number, or `off` for `None`.
pub fn show_limit(limit: Option<u64>) -> String {
    limit.map_or_else(|| "off".to_owned(), |number| number.to_string())
}

/// Formats the destination of a log.
pub fn show_log_target(target: &LogTarget) -> String {
    match target {
        LogTarget::Standard => "-".to_owned(),
        LogTarget::File(path) => path.display().to_string(),
        LogTarget::System(log) => log.to_string(),
    }
}

/// The name of a format, or its pattern.
pub(crate) fn show_access_format(format: &AccessFormat) -> &str {
    match format {
        AccessFormat::Common => "common",
        AccessFormat::Combined => "combined",
        AccessFormat::Rack => "rack",
        AccessFormat::Json => "json",
        AccessFormat::Pattern(pattern) => pattern.as_str(),
    }
}

fn digits_only(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits a text into the number and the unit after it (with or without a space between them).
fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(text.len());
    (text[..end].trim_end(), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (text, expected) in [("3", (3, 3)), ("0:5", (0, 5)), ("5:5", (5, 5)), (" 1 : 8 ", (1, 8))] {
            assert_eq!(span(text, 8), Ok(expected), "{text}");
            let shown = show_span(expected.0, expected.1);
            assert_eq!(span(&shown, 8), Ok(expected), "{shown}");
        }
        for text in ["0", "9", "0:0", "5:4", "1:9", "1:", ":5", "1:2:3", "-1:2", ""] {
            let why = span(text, 8).expect_err(text);
            assert_eq!(why, "expected a whole number from 1 to 8, or two as MIN:MAX");
        }
    }

    #[test]
    fn names_of_files() {
        for (text, expected) in [("index.html", &["index.html"][..]), (" a , b.htm", &["a", "b.htm"]), ("off", &[])] {
            let names = file_names(text).expect(text);
            assert_eq!(names, expected, "{text}");
            assert_eq!(file_names(&show_file_names(&names)), Ok(names), "{text}");
        }
        for text in ["", "a,", "..", "a/b", "../a", "a,.", "a\0", "a\\b"] {
            assert!(file_names(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn file_modes() {
        for (text, expected) in [("660", Some(0o660)), ("0666", Some(0o666)), ("0", Some(0)), ("off", None)] {
            assert_eq!(file_mode(text), Ok(expected), "{text}");
            assert_eq!(file_mode(&show_file_mode(expected)), Ok(expected), "{text}");
        }
        for text in ["", "888", "1777", "+66", "rw"] {
            assert!(file_mode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("64k", 64 << 10),
            ("64K", 64 << 10),
            ("1m", 1 << 20),
            ("1MiB", 1 << 20),
            ("1 MB", 1 << 20),
            ("2g", 2 << 30),
            ("100b", 100),
        ] {
            assert_eq!(size(text, 0..=u64::MAX), Ok(expected), "{text}");
        }
        for text in ["", "k", "-1", "+1", "1.5m", "64q", "0x10", "1_000", "99999999999999999999", "99999999t", "1k1"] {
            assert!(size(text, 0..=u64::MAX).is_err(), "{text}");
        }
        assert_eq!(size("1k", 2048..=4096), Err("expected a size from 2KiB to 4KiB".to_owned()));
        assert_eq!(size_limit("off"), Ok(Limits::UNLIMITED));
        assert!(size_limit("0").is_err());
    }

    #[test]
    fn durations() {
        for (text, milliseconds) in [
            ("30", 30_000),
            ("30s", 30_000),
            ("0", 0),
            ("500ms", 500),
            ("1.5", 1500),
            ("0.25s", 250),
            ("5m", 300_000),
            ("5 min", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("365d", 31_536_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "s", "-1", "1.", ".5", "1..2", "5 minutes", "366d", "99999999999999", "1e3", "1s2"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn never_and_not_at_all() {
        assert_eq!(deadline("off"), Ok(Timeouts::NEVER));
        assert!(deadline("0").is_err());
        assert_eq!(duration_or_off("off"), Ok(Duration::ZERO));
        assert_eq!(duration_or_off("0"), Ok(Duration::ZERO));
        assert_eq!(patience("off"), Ok(Timeouts::NEVER));
        assert_eq!(patience("0"), Ok(Duration::ZERO));
        assert_eq!(limit("0"), Ok(None));
        assert_eq!(limit("never"), Ok(None));
        assert_eq!(limit("7"), Ok(Some(7)));
        assert!(limit("many").is_err());
    }

    #[test]
    fn counts_and_switches() {
        assert_eq!(count(" 8 ", 1..=10), Ok(8));
        assert_eq!(count("0", 1..=10), Err("expected a whole number from 1 to 10".to_owned()));
        assert!(count("+8", 1..=10).is_err());
        for (text, expected) in
            [("", true), ("1", true), ("Yes", true), ("on", true), ("0", false), ("off", false), ("FALSE", false)]
        {
            assert_eq!(boolean(text), Ok(expected), "{text}");
        }
        assert!(boolean("perhaps").is_err());
    }

    #[test]
    fn fields_carry_no_line_ends() {
        assert!(field_value("Oribi 1.0").is_ok());
        assert_eq!(field_value(""), Ok(String::new()));
        for text in ["a\r\nSet-Cookie: x", "a\0", "\u{e9}", " a"] {
            assert!(field_value(text).is_err(), "{text:?}");
        }
        for text in ["", "a b", "a/b", "a\n"] {
            assert!(host_name(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for milliseconds in [0, 1, 999, 1000, 1001, 30_000, 60_000, 65_000, 300_000, 3_600_000, 86_400_000, 172_800_000] {
            let time = Duration::from_millis(milliseconds);
            assert_eq!(duration(&show_duration(time)), Ok(time), "{}", show_duration(time));
        }
        assert_eq!(show_duration(Duration::from_secs(300)), "5m");
        assert_eq!(show_duration(Duration::from_secs(60)), "60s");
        for bytes in [0, 1, 1023, 1024, 1536, 1 << 20, 3 << 30, 1 << 40] {
            assert_eq!(size(&show_size(bytes), 0..=u64::MAX), Ok(bytes), "{}", show_size(bytes));
        }
    }
}
