//! The statuses in the answers of scripts.

/// A number as the status of a final response: 200 to 599.
pub(crate) fn final_status(number: f64) -> Option<u16> {
    ((200.0..600.0).contains(&number) && number.fract() == 0.0).then_some(number as u16)
}

/// The status at the beginning of a line like "404 Not Found".
pub(crate) fn status_of(line: &[u8]) -> Option<u16> {
    let digits = line.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let number = digits.iter().fold(0.0, |number, digit| number * 10.0 + f64::from(digit - b'0'));
    line.get(3).is_none_or(|&byte| byte == b' ').then(|| final_status(number)).flatten()
}
