//! `[[listen]]`: an address with its options, written as one address of `--listen`.

use crate::content::{Item, Listen, Text};
use crate::options::{Options, Table, refusal};
use crate::table::{Entry, Reader};
use oribi_config::{ListenAddress, Protocol, SocketAddress};
use std::collections::BTreeMap;

/// The options that are a part of the query of an address, by their names there. All but the last are about TLS.
const QUERY: &[(&str, &str)] = &[
    ("ssl-cert", "cert"),
    ("ssl-key", "key"),
    ("ssl-ocsp", "ocsp"),
    ("ssl-ca", "ca"),
    ("ssl-verify-client", "verify_mode"),
    ("tls-min-version", "min_version"),
    ("ssl-ciphers", "ciphers"),
    ("proxy-protocol", "proxy_protocol"),
];

const PROXY_PROTOCOL: &str = "proxy-protocol";

/// The options of a section by their first names.
type Given = BTreeMap<&'static str, Item>;

/// Reads a `[[listen]]`.
pub(crate) fn listen(reader: &mut Reader<'_>, at: usize, entries: &[Entry<'_>]) -> Option<Listen> {
    let (mut address, mut given, mut complete) = (None, Given::new(), true);
    let mut options = Options::of(Table::Listen);
    for &entry in entries {
        if entry.key == "address" {
            let text = reader.text(entry, entry.value);
            complete &= text.is_some();
            address = text.map(|text| (entry, text));
        } else {
            let option = options.read(reader, entry);
            complete &= option.is_some();
            given.extend(option.map(|(setting, item)| (setting.name, item)));
        }
    }
    let place = reader.source.place(at);
    let Some((entry, text)) = address else {
        if complete {
            reader.mistake(at, "[[listen]] needs an address, such as address = \":8080\"");
        }
        return None;
    };
    if let Some(message) = refusal("listen", &text.value, text.from_environment, &text.value) {
        reader.mistake(entry.value.at, message);
        return None;
    }
    let whole = match whole(&text, &given).filter(|_| complete)? {
        Ok(whole) => whole,
        Err((option, message)) => {
            let at = entries.iter().find(|entry| option == entry.key).map_or(entry.value.at, |entry| entry.at);
            reader.mistake(at, message);
            return None;
        }
    };
    let from_environment = text.from_environment || given.values().any(|item| item.from_environment);
    if let Some(message) = refusal("listen", &whole, from_environment, &whole) {
        reader.mistake(entry.value.at, message);
        return None;
    }
    let places = vec![text.place.clone()];
    let address = Item { name: "listen".to_owned(), values: vec![whole], place: text.place, places, from_environment };
    Some(Listen { address, options: given.into_values().collect(), place })
}

/// The address with its options, or the option that contradicts the address and a message.
fn whole(text: &Text, given: &Given) -> Option<Result<String, (String, String)>> {
    let text = text.value.trim();
    if given.is_empty() {
        return Some(Ok(text.to_owned()));
    }
    // It fits: the parser has accepted it.
    let parsed = ListenAddress::parse(text).ok()?;
    Some(scheme(&parsed, given).and_then(|scheme| with_options(text, &parsed, scheme, given)))
}

/// The scheme of the address, `None` for one that leaves the protocol and encryption open.
fn scheme(parsed: &ListenAddress, given: &Given) -> Result<Option<&'static str>, (String, String)> {
    let tcp = matches!(parsed.socket, SocketAddress::Tcp { .. });
    let refuse = |option: &Item, why: &str| Err((option.name.clone(), format!("`{}` {why}", option.name)));
    let word = |name: &str| given.get(name).and_then(|item| item.values.first());
    let protocol = match given.get("protocol") {
        None => parsed.protocol,
        Some(option) => {
            let wanted = word("protocol").map(|word| word.trim().to_ascii_lowercase());
            let wanted = if wanted.as_deref() == Some("http") { Protocol::Http } else { Protocol::FastCgi };
            if parsed.protocol.is_some_and(|protocol| protocol != wanted) {
                return refuse(option, "contradicts the scheme of the address: leave one of them out");
            }
            Some(wanted)
        }
    };
    let about_tls = |name: &&(&str, &str)| name.0 != PROXY_PROTOCOL;
    let tls = QUERY.iter().filter(about_tls).find_map(|(name, _)| given.get(name));
    let wanted = given.get("ssl").and_then(|option| {
        let word = word("ssl")?.trim().to_ascii_lowercase();
        (word != "auto").then(|| (option, !["0", "off", "no", "false"].contains(&word.as_str())))
    });
    let plain = wanted.filter(|(_, on)| !on).map(|(option, _)| option);
    let encrypted = wanted.filter(|(_, on)| *on).map(|(option, _)| option).or(tls);
    if let (Some(plain), true) = (plain, tls.is_some() || parsed.says_encrypted()) {
        return refuse(plain, "contradicts the address or the other options: leave one of them out");
    }
    if let Some(option) = encrypted {
        if !tcp {
            return refuse(option, "needs a TCP address: connections at Unix sockets are not encrypted");
        }
        if protocol == Some(Protocol::FastCgi) {
            return refuse(option, "needs HTTP: connections of FastCGI are not encrypted");
        }
        if parsed.protocol.is_some() && !parsed.says_encrypted() {
            return refuse(option, "contradicts http:// in the address: write https://");
        }
    }
    Ok(match protocol {
        _ if parsed.says_encrypted() || encrypted.is_some() => Some("https"),
        Some(Protocol::FastCgi) => Some("fcgi"),
        Some(Protocol::Http) => Some("http"),
        // An address of http:// is not encrypted.
        None if plain.is_some() && tcp => Some("http"),
        None => None,
    })
}

/// Writes the address with its scheme and its query.
fn with_options(text: &str, parsed: &ListenAddress, scheme: Option<&str>, given: &Given) -> Result<String, (String, String)> {
    let query = text.split_once('?').map_or("", |(_, query)| query);
    let mut query: Vec<String> =
        query.split('&').filter(|part| !part.is_empty() && !part.starts_with("mode=")).map(str::to_owned).collect();
    let mode = given.get("socket-mode");
    let mut address = match &parsed.socket {
        SocketAddress::Tcp { .. } if mode.is_some() => {
            let name = mode.map_or("socket-mode", |option| &option.name);
            return Err((name.to_owned(), format!("`{name}` needs the path of a Unix socket: other addresses have no file")));
        }
        SocketAddress::Tcp { host, port } => {
            let host = match host.as_str() {
                "" => "*".to_owned(),
                host if host.contains(':') => format!("[{host}]"),
                host => host.to_owned(),
            };
            scheme.map_or_else(String::new, |scheme| format!("{scheme}://")) + &format!("{host}:{port}")
        }
        SocketAddress::Unix { path, mode: given_mode } => {
            match (mode, given_mode) {
                (Some(option), Some(_)) => {
                    return Err((option.name.clone(), format!("`{}` is already in the address: ?mode=", option.name)));
                }
                (Some(option), None) => query.insert(0, format!("mode={}", option.values.concat().trim())),
                (None, Some(bits)) => query.insert(0, format!("mode={bits:03o}")),
                (None, None) => {}
            }
            scheme.map_or_else(String::new, |scheme| format!("{scheme}+")) + &format!("unix:{}", path.display())
        }
    };
    for (option, name) in QUERY {
        for value in given.get(option).iter().flat_map(|item| &item.values) {
            query.push(format!("{name}={}", encoded(value)));
        }
    }
    if !query.is_empty() {
        address = format!("{address}?{}", query.join("&"));
    }
    Ok(address)
}

/// A value for the query of an address, percent-encoded.
fn encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:,".contains(&byte);
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(one).collect()
}
