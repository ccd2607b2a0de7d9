//! Lists with commas between their elements (RFC 9110, section 5.6.1).

/// Takes the white space off (OWS, RFC 9110, section 5.6.3).
pub(crate) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The elements of a list in which no element can hold a comma. Empty ones are left out, as a recipient must.
pub(crate) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim).filter(|element| !element.is_empty())
}
