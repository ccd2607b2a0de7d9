//! Selects the metrics format that a client prefers (RFC 9110, section 12.5.1).

use super::text::Format;

/// The weight of a media range without `q` (RFC 9110, section 12.4.2), in thousandths.
const WHOLE: u16 = 1000;

/// The message type of the binary format, and the encoding of several messages in sequence.
const MESSAGE: [Option<&str>; 2] = [Some("io.prometheus.client.MetricFamily"), Some("delimited")];

/// Returns the format that a client prefers, according to its Accept fields. A client gets OpenMetrics or the binary format
/// only if the fields name it, because other clients may not understand these formats.
pub fn preferred<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Format {
    let (mut binary, mut open, mut plain) = (0, 0, None);
    for range in fields.flat_map(|field| field.split(|byte| *byte == b',')) {
        let Ok(range) = std::str::from_utf8(range) else { continue };
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let value =
            |wanted: &str| parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value);
        let version = value("version").map(|version| version.trim_matches('"'));
        let message = ["proto", "encoding"].map(|name| value(name).map(|value| value.trim_matches('"')));
        let Some(weight) = value("q").map_or(Some(WHOLE), weight) else { continue };
        match (media_type.as_str(), version) {
            ("application/openmetrics-text", None | Some("1.0.0")) => open = open.max(weight),
            ("application/vnd.google.protobuf", _) if message == MESSAGE => binary = binary.max(weight),
            ("text/plain", None | Some("0.0.4")) => plain = Some(weight.max(plain.unwrap_or(0))),
            _ => {}
        }
    }
    let plain = plain.unwrap_or(0);
    match (binary, open) {
        (1.., _) if binary >= open.max(plain) => Format::Binary,
        (_, 1..) if open >= plain => Format::Open,
        _ => Format::Plain,
    }
}

/// Parses `q=0.5` as 500; `None` if it is not a valid weight.
fn weight(text: &str) -> Option<u16> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths = format!("{part:0<3}").parse::<u16>().ok().filter(|_| digits)?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(WHOLE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask_for_this_version_of_it() {
        use Format::{Binary, Open, Plain};
        // The fields of Prometheus 2.42, 2.53 and 3.0.
        let first = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                     text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let second = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                      text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let third = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                     application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                     text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        // The field of Prometheus 2.42 with native histograms, and an unsupported encoding.
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                      application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,\
                      text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let as_text = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text";
        for (fields, format) in [
            (&[][..], Plain),
            (&[native], Binary),
            (&[as_text], Plain),
            (&["application/vnd.google.protobuf"], Plain),
            (&["application/vnd.google.protobuf;proto=other;encoding=delimited"], Plain),
            (&["application/openmetrics-text;q=0.9", &native.replace("delimited", "delimited;q=0.8")], Open),
            (&["text/plain", &native.replace("delimited", "delimited;q=0.8")], Plain),
            (&["*/*"], Plain),
            (&[first], Open),
            (&[second], Open),
            (&[third], Open),
            (&["text/plain"], Plain),
            (&["application/openmetrics-text"], Open),
            (&["Application/OpenMetrics-Text ; Version=\"1.0.0\" ; Q=0.001"], Open),
            (&["application/openmetrics-text;q=0"], Plain),
            (&["application/openmetrics-text;q=0.000, */*"], Plain),
            (&["application/openmetrics-text;q=2"], Plain),
            (&["application/openmetrics-text;q=0.5555"], Plain),
            (&["application/openmetrics-text;q=.5"], Plain),
            (&["application/openmetrics-text;q=+.1"], Plain),
            (&["application/openmetrics-text;version=2.0.0"], Plain),
            (&["application/openmetrics-text;q=0.4,text/plain;q=0.5"], Plain),
            (&["text/plain;q=0.4", "application/openmetrics-text;q=0.5"], Open),
            (&[";;;,,=;q=,\u{e9}"], Plain),
        ] {
            assert_eq!(preferred(fields.iter().map(|field| field.as_bytes())), format, "{fields:?}");
        }
        assert_eq!(preferred([&b"\xff, application/openmetrics-text"[..]].into_iter()), Open);
    }
}
