//! Encodes listeners as text, for the environment of a process that inherits them.

use oribi_config::{Offer, Protocol, ProxyProtocol};
use oribi_listen::Listener;
use std::fmt::Write as _;
use std::os::fd::AsRawFd;

/// The variable with the descriptors and the properties of the listeners.
pub(super) const LISTENERS: &str = "ORIBI_LISTENERS";

/// The prefix of the property of a listener whose connections begin with a PROXY header.
const PROXY: &str = "proxy-";
/// The prefix of the property of an encrypted listener.
const TLS: &str = "tls:";
/// The prefix of the property of a listener at which challenges are answered.
const ACME: &str = "acme:";

/// Returns the value of `ORIBI_LISTENERS` for `listeners`.
pub(super) fn describe(listeners: &[Listener]) -> String {
    let one = |listener: &Listener| {
        let numbers: Vec<_> = listener.sockets().map(|socket| socket.as_raw_fd().to_string()).collect();
        let numbers = numbers.join(",");
        // Earlier versions do not know whether a listener that is lent is a stored one, and read the same word twice.
        let lent = match (listener.lent, listener.stored) {
            (true, true) => "=lent=lent",
            (true, false) => "=lent",
            (false, _) => "",
        };
        let protocol = if listener.protocol == Protocol::FastCgi { "=fcgi" } else { "" };
        let greeting = match listener.proxy_protocol {
            ProxyProtocol::Off => String::new(),
            choice => format!("={PROXY}{}", choice.name()),
        };
        let offer = listener.offer.as_ref().map_or_else(String::new, |offer| format!("={TLS}{}", encode(&offer.to_string())));
        let thumbprint = listener.thumbprint.as_ref().map_or_else(String::new, |thumbprint| format!("={ACME}{thumbprint}"));
        let (display, server_name) = (encode(&listener.display), encode(&listener.server_name));
        format!("{numbers}={display}={server_name}{lent}{protocol}{greeting}{offer}{thumbprint}")
    };
    listeners.iter().map(one).collect::<Vec<_>>().join(";")
}

/// One listener according to the environment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListenerEntry {
    /// The descriptors; at least one.
    pub(super) numbers: Vec<i32>,
    pub(super) display: String,
    pub(super) server_name: String,
    pub(super) lent: bool,
    pub(super) stored: bool,
    pub(super) protocol: Protocol,
    pub(super) proxy_protocol: ProxyProtocol,
    pub(super) offer: Option<Offer>,
    pub(super) thumbprint: Option<String>,
}

pub(super) fn parse(value: &str) -> Result<Vec<ListenerEntry>, String> {
    let one = |entry: &str| {
        let mut parts = entry.split('=');
        let numbers = parts.next()?.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
        let (display, server_name) = (decode(parts.next()?)?, decode(parts.next()?)?);
        let (protocol, proxy_protocol) = (Protocol::Http, ProxyProtocol::Off);
        let mut entry = ListenerEntry {
            numbers,
            display,
            server_name,
            lent: false,
            stored: false,
            protocol,
            proxy_protocol,
            offer: None,
            thumbprint: None,
        };
        for property in parts {
            match property {
                "lent" => (entry.stored, entry.lent) = (entry.lent, true),
                "fcgi" => entry.protocol = Protocol::FastCgi,
                other => match (other.strip_prefix(TLS), other.strip_prefix(ACME)) {
                    (Some(offer), _) => entry.offer = Some(Offer::parse(&decode(offer)?)?),
                    (None, Some(thumbprint)) => entry.thumbprint = Some(thumbprint.to_owned()),
                    (None, None) => entry.proxy_protocol = ProxyProtocol::parse(other.strip_prefix(PROXY)?).ok()?,
                },
            }
        }
        Some(entry)
    };
    let parsed = value.split(';').map(|entry| one(entry).ok_or_else(|| format!("{LISTENERS}: cannot understand {entry:?}")));
    parsed.collect()
}

fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/[]".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut pieces = text.split('%');
    bytes.extend_from_slice(pieces.next()?.as_bytes());
    for piece in pieces {
        bytes.push(u8::from_str_radix(piece.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(piece.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_proto::proxy_protocol::Versions;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_described_is_understood() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let (display, server_name) = ("unix:/tmp/a b;c=d%é.sock".to_owned(), "[::1]".to_owned());
        let mut listener = Listener::adopted(socket.into(), "", Protocol::Http).expect("it listens");
        let other = listener.as_fd().try_clone_to_owned().expect("a descriptor");
        listener.add_sockets([Listener::adopted(other, "", Protocol::Http).expect("it listens")]);
        let numbers = listener.sockets().map(AsRawFd::as_raw_fd).collect::<Vec<_>>();
        (listener.display, listener.server_name) = (display.clone(), server_name.clone());
        let mut listeners = [listener];
        for (lent, protocol, proxy_protocol) in [
            (false, Protocol::Http, ProxyProtocol::Off),
            (true, Protocol::Http, ProxyProtocol::Required(Versions::One)),
            (false, Protocol::Http, ProxyProtocol::Required(Versions::Both)),
            (false, Protocol::FastCgi, ProxyProtocol::Off),
            (true, Protocol::FastCgi, ProxyProtocol::Off),
        ] {
            let stored = protocol == Protocol::FastCgi;
            (listeners[0].lent, listeners[0].stored, listeners[0].protocol, listeners[0].proxy_protocol) =
                (lent, stored, protocol, proxy_protocol);
            let plain = Offer::parse("cert=/a&key=/k").expect("it is one");
            let full = Offer::parse(
                "cert=/a,b%3d;%c3%a9&key=/k&cert=/c&key=/c&ocsp=/o&ca=/d&verify_mode=required&min_version=1.3&ciphers=TLS_AES_128_GCM_SHA256",
            );
            for offer in [None, Some(plain), Some(full.expect("it is one"))] {
                listeners[0].offer.clone_from(&offer);
                let (display, server_name, numbers) = (display.clone(), server_name.clone(), numbers.clone());
                let thumbprint = lent.then(|| "aZ0-_".to_owned());
                listeners[0].thumbprint = thumbprint.as_deref().map(Into::into);
                let stored = stored && lent;
                let entry =
                    ListenerEntry { numbers, display, server_name, lent, stored, protocol, proxy_protocol, offer, thumbprint };
                assert_eq!(parse(&describe(&listeners)), Ok(vec![entry]));
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        for value in [
            "",
            "5",
            "5=a",
            "x=a=b",
            ",=a=b",
            "5,=a=b",
            "5=a=b=c",
            "5=a=b=lent=",
            "5=a=b=proxy-",
            "5=a=b=proxy-v3",
            "5=a=b=tls:",
            "5=a=b=tls:a",
            "5=a=b=tls:a,b,c",
            "5=a=b=tls:%4,b",
            "5=%4=b",
            "5=%zz=b",
            "5=a=b;",
        ] {
            assert!(parse(value).is_err(), "{value:?}");
        }
    }
}
