//! Formats numbers in few characters.

/// A rate, or a count, in five characters.
pub fn few(number: f64) -> String {
    scaled(number, 1000.0, ["", "k", "M", "G", "T"])
}

/// A count, in five characters.
pub fn count(number: f64) -> String {
    if number < 9999.5 { format!("{number:.0}") } else { few(number) }
}

/// Memory, in units of 1024.
pub fn memory(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, ["", "K", "M", "G", "T"])
}

fn scaled(number: f64, step: f64, units: [&str; 5]) -> String {
    let mut scaled = number;
    let mut units = units.into_iter();
    let mut unit = units.next().unwrap_or_default();
    // Numbers of four digits are displayed unchanged.
    while scaled >= if unit.is_empty() { 9999.5 } else { 999.5 } {
        let Some(next) = units.next() else { break };
        (scaled, unit) = (scaled / step, next);
    }
    let decimals = if scaled == 0.0 || scaled >= 99.95 || (unit.is_empty() && scaled >= 9.95) { 0 } else { 1 };
    format!("{scaled:.decimals$}{unit}")
}

/// A time in six characters.
pub fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0 if seconds < 0.000_95 && seconds > 0.0 => format!("{:.0}us", seconds * 1_000_000.0),
        0 if seconds < 0.0095 && seconds > 0.0 => format!("{:.1}ms", seconds * 1000.0),
        0 => format!("{:.0}ms", seconds * 1000.0),
        1..10 => format!("{seconds:.1}s"),
        10..60 => format!("{seconds:.0}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        3600..86_400 => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
        _ => format!("{}d{:02}h", whole / 86_400, whole % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_not_rounded_into_the_next_unit() {
        let told = [0.0, 0.04, 0.5, 9.94, 9.96, 123.4, 9999.0, 9999.6, 12_345.0, 123_456.0, 999_600.0, 12e6, 5e15].map(few);
        assert_eq!(told, ["0", "0.0", "0.5", "9.9", "10", "123", "9999", "10.0k", "12.3k", "123k", "1.0M", "12.0M", "5000T"]);
        assert_eq!([0.0, 1.0, 9999.0, 12_345.0].map(count), ["0", "1", "9999", "12.3k"]);
        assert_eq!([0, 4096, 64 << 20, 3 << 30].map(memory), ["0", "4096", "64.0M", "3.0G"]);
    }

    #[test]
    fn times_are_short() {
        let told = [0.0, 0.000_04, 0.0012, 0.0123, 0.25, 1.25, 12.6, 61.0, 3661.0, 90_000.0].map(span);
        assert_eq!(told, ["0ms", "40us", "1.2ms", "12ms", "250ms", "1.2s", "13s", "1m01s", "1h01m", "1d01h"]);
    }
}
