//! Properties of all values of Accept-Encoding, and of all fields of responses.

use oribi_encode::{Choice, Coding, Filter, HeadWriter, Outcome, Settings, negotiate, restore_tags};
use oribi_message::{FieldPair, ResponseHead};

const ORDERS: [&[Coding]; 5] = [
    &[Coding::Zstd, Coding::Brotli, Coding::Gzip],
    &[Coding::Gzip, Coding::Brotli, Coding::Zstd],
    &[Coding::Brotli, Coding::Gzip],
    &[Coding::Gzip],
    &[],
];

/// Negotiates, decides and makes a head. The first byte of `data` chooses the offered codings; a line with a colon is a field
/// of the response, and all other lines are values of Accept-Encoding. Returns whether the response would be encoded.
pub fn check(data: &[u8]) -> bool {
    let Some((first, rest)) = data.split_first() else { return false };
    let offered = ORDERS[usize::from(*first) % ORDERS.len()];
    let (mut values, mut fields): (Vec<&[u8]>, Vec<FieldPair<'_>>) = (Vec::new(), Vec::new());
    for line in rest.split(|byte| *byte == b'\n') {
        match line.iter().position(|byte| *byte == b':') {
            Some(colon) => fields.push((&line[..colon], line[colon + 1..].trim_ascii())),
            None => values.push(line),
        }
    }
    assert_eq!(negotiate(values.iter().copied(), offered), reference(&values, offered));

    let filter = Filter::new(Settings { codings: offered.to_vec(), ..Settings::default() });
    let request = filter.read_request(b"GET", values.iter().copied(), values.iter().copied(), false);
    if let Some(restored) = values.first().and_then(|value| restore_tags(value)) {
        assert!(restored.len() < values[0].len());
    }
    let outcome = filter.decide(request, 200, &fields, None);
    HeadWriter::default().write(outcome, ResponseHead { status: 200, fields: &fields }, |head| {
        let named = |name: &'static str| {
            head.fields.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| *value)
        };
        match outcome {
            Outcome::Skip => return assert_eq!(head.fields, fields),
            Outcome::Vary | Outcome::NotModified => assert!(head.fields.len() <= fields.len() + 1),
            Outcome::Encode(coding) => {
                assert!(offered.contains(&coding));
                assert!(named("Content-Encoding").eq([coding.name().as_bytes()]));
                assert_eq!(named("Content-Length").count() + named("Repr-Digest").count() + named("Accept-Ranges").count(), 0);
                assert!(named("ETag").all(|tag| tag.starts_with(b"W/")));
                assert_eq!(filter.decide(request, 200, head.fields, None), Outcome::Skip, "content is encoded once");
            }
        }
        let vary = named("Vary").flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        assert!(vary.clone().any(|member| member == b"*" || member.eq_ignore_ascii_case(b"Accept-Encoding")));
    });
    matches!(outcome, Outcome::Encode(_))
}

/// Chooses as the RFC says, over text, with a list of all weights.
fn reference(values: &[&[u8]], offered: &[Coding]) -> Choice {
    let mut weights: Vec<(String, f64)> = Vec::new();
    for member in values.iter().flat_map(|value| value.split(|byte| *byte == b',')) {
        // No byte above ASCII is valid in a member.
        let Ok(text) = std::str::from_utf8(member) else { continue };
        let text = text.trim_matches([' ', '\t']);
        let (name, parameter) = match text.split_once(';') {
            Some((name, parameter)) => (name.trim_matches([' ', '\t']), Some(parameter.trim_matches([' ', '\t']))),
            None => (text, None),
        };
        let weight = match parameter.map(str::to_ascii_lowercase) {
            None => 1.0,
            Some(parameter) => {
                let digits = parameter.strip_prefix("q=").unwrap_or_default();
                let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
                let valid =
                    (whole == "0" || whole == "1") && fraction.len() <= 3 && fraction.bytes().all(|b| b.is_ascii_digit());
                match digits.parse::<f64>() {
                    Ok(weight) if valid && weight <= 1.0 => weight,
                    _ => continue,
                }
            }
        };
        let name = name.to_ascii_lowercase();
        weights.push((if name == "x-gzip" { "gzip".to_owned() } else { name }, weight));
    }
    let weight = |name: &str| weights.iter().rev().find(|(other, _)| other == name).map(|(_, weight)| *weight);
    let of = |coding: &Coding| weight(coding.name()).or_else(|| weight("*")).unwrap_or(0.0);
    let best = offered.iter().map(of).fold(0.0, f64::max);
    if best == 0.0 || weight("identity").unwrap_or(0.0) > best {
        return Choice::Identity;
    }
    offered.iter().find(|coding| of(coding) == best).map_or(Choice::Identity, |coding| Choice::Coded(*coding))
}
