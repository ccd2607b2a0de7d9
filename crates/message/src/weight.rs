//! Weights of members of lists such as Accept-Encoding.

/// Parses `q=0.5` as 500 (RFC 9110, section 12.4.2). `None` if the parameter is something else.
#[must_use]
pub fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', digit, rest @ ..] = parameter else { return None };
    let fraction = match rest {
        [] => &[],
        [b'.', fraction @ ..] if fraction.len() <= 3 && fraction.iter().all(u8::is_ascii_digit) => fraction,
        _ => return None,
    };
    let whole = match digit {
        b'0' => 0,
        b'1' if fraction.iter().all(|digit| *digit == b'0') => 1000,
        _ => return None,
    };
    Some(fraction.iter().zip([100, 10, 1]).fold(whole, |sum, (digit, place)| sum + u16::from(digit - b'0') * place))
}
