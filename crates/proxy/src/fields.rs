//! Fields that belong to a connection and not to a message (RFC 9110, section 7.6.1).

use oribi_message::list::members;
use oribi_message::{FieldPair, KnownField};

/// Whether a name begins with this prefix, in any case.
pub(crate) fn starts_with(name: &[u8], prefix: &[u8]) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Whether a field, in any message, is about its connection, or belongs to a proxy. The framing of content is among these,
/// because each connection has its own.
pub(crate) fn is_of_connection(known: Option<KnownField>, name: &[u8]) -> bool {
    match known {
        Some(
            KnownField::Connection
            | KnownField::KeepAlive
            | KnownField::ProxyConnection
            | KnownField::ProxyAuthorization
            | KnownField::Proxy
            | KnownField::Te
            | KnownField::Trailer
            | KnownField::TransferEncoding
            | KnownField::Upgrade,
        ) => true,
        Some(_) => false,
        None => starts_with(name, b"proxy-") || name.eq_ignore_ascii_case(b"HTTP2-Settings"),
    }
}

/// Whether one of the `connection` fields names this field. Fields without which a message means something else are no option
/// of a connection, so they stay: a client could otherwise remove fields of proxies in front.
pub(crate) fn is_named(connection: &[&[u8]], known: Option<KnownField>, name: &[u8]) -> bool {
    if connection.is_empty() {
        return false;
    }
    let kept = matches!(
        known,
        Some(
            KnownField::Host
                | KnownField::ContentLength
                | KnownField::ContentType
                | KnownField::Authorization
                | KnownField::CacheControl
                | KnownField::Cookie
                | KnownField::Via
        )
    );
    !kept && connection.iter().flat_map(|value| members(value)).any(|option| option.eq_ignore_ascii_case(name))
}

/// The values of Connection among these fields.
pub(crate) fn connection_options<'a>(fields: impl Iterator<Item = (Option<KnownField>, &'a [u8], &'a [u8])>) -> Vec<&'a [u8]> {
    // `close` and `keep-alive` name no field that could stay.
    let names = |value: &[u8]| {
        members(value).any(|option| !option.eq_ignore_ascii_case(b"close") && !option.eq_ignore_ascii_case(b"keep-alive"))
    };
    fields
        .filter(|(known, _, value)| *known == Some(KnownField::Connection) && names(value))
        .map(|(_, _, value)| value)
        .collect()
}

/// The fields of a response that its client gets.
pub(crate) fn of_response<'a>(
    fields: impl Iterator<Item = (Option<KnownField>, &'a [u8], &'a [u8])> + Clone,
) -> Vec<FieldPair<'a>> {
    let connection = connection_options(fields.clone());
    fields
        .filter(|(known, name, _)| !is_of_connection(*known, name) && !is_named(&connection, *known, name))
        .map(|(_, name, value)| (name, value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::of_response;
    use oribi_message::KnownField;

    #[test]
    fn a_response_keeps_all_fields_but_those_of_its_connection() {
        let fields = [
            ("Content-Length", "5"),
            ("Connection", "close, x-hop , Content-Length"),
            ("X-Hop", "a"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Authenticate", "Basic"),
            ("Transfer-Encoding", "chunked"),
            ("Trailer", "a"),
            ("Upgrade", "h2c"),
            ("Set-Cookie", "a=b"),
            ("Set-Cookie", "c=d"),
            ("X-Other", ""),
        ];
        let all = fields.iter().map(|(name, value)| (KnownField::lookup(name.as_bytes()), name.as_bytes(), value.as_bytes()));
        let kept = of_response(all).iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>();
        assert_eq!(kept, ["Content-Length", "Set-Cookie", "Set-Cookie", "X-Other"]);
    }
}
