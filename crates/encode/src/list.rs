//! Lists with commas between their members (RFC 9110, section 5.6.1).

/// Strips white space (OWS, RFC 9110, section 5.6.3).
pub(crate) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The members of a list whose members contain no commas. Empty ones are skipped, as a recipient must do.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim).filter(|member| !member.is_empty())
}
