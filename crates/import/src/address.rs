//! Addresses as servers of Perl and Ruby write them.

use std::net::IpAddr;

/// An address for `[[listen]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    pub text: String,
    /// Options of the server that the address asks for.
    pub options: Vec<(&'static str, String)>,
    pub notes: Vec<String>,
}

impl Address {
    /// An address without options.
    pub fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

/// Reads `HOST:PORT`, `:PORT`, `PORT`, a path, or a URL: `tcp://`, `unix://`, `unix:`, `ssl://`, `http://`, `https://`.
///
/// # Errors
/// The reason why Oribi cannot listen there.
pub(crate) fn of_server(text: &str) -> Result<Address, String> {
    let (plain, query) = text.split_once('?').unwrap_or((text, ""));
    let mut address = Address::default();
    let (scheme, rest) = match plain.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None => plain.strip_prefix("unix:").map_or(("", plain), |path| ("unix", path)),
    };
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name {
            "umask" | "mode" if name == "mode" => {
                address.options.push(("socket-mode", value.trim_start_matches('0').to_owned()));
            }
            "backlog" => address.options.push(("backlog", value.to_owned())),
            "cert" => address.options.push(("ssl-cert", value.to_owned())),
            "key" => address.options.push(("ssl-key", value.to_owned())),
            "ca" => address.options.push(("ssl-ca", value.to_owned())),
            "verify_mode" => {
                let mode = match value {
                    "none" | "0" | "0x00" => "none",
                    "peer" | "1" | "0x01" => "optional",
                    _ => "required",
                };
                address.options.push(("ssl-verify-client", mode.to_owned()));
            }
            "reuse" | "reuse_port" | "reuseport" => address.options.push(("reuse-port", "on".to_owned())),
            "no_tlsv1" | "no_tlsv1_1" => {}
            _ => address.notes.push(format!("the part {name} of the address has no counterpart")),
        }
    }
    let of_tcp = |rest: &str| {
        let rest = rest.trim_end_matches('/');
        let (host, port) = rest.rsplit_once(':').unwrap_or(("", rest));
        let host = if ["*", "[::]", "::"].contains(&host) { "" } else { host };
        format!("{host}:{port}")
    };
    address.text = match scheme {
        "unix" | "http+unix" if rest.starts_with('@') => return Err("an abstract socket: Oribi listens at a path".to_owned()),
        "unix" if rest.starts_with('/') => rest.to_owned(),
        // In Puma's unix://tmp/socket the path is relative.
        "unix" => format!("./{}", rest.trim_start_matches("./")),
        "http+unix" => rest.replace("%2F", "/"),
        "tcp" | "http" => of_tcp(rest),
        "ssl" | "https" => of_tcp(rest),
        "" if rest.starts_with(['/', '.']) => rest.to_owned(),
        "" if rest.ends_with(".sock") => format!("./{rest}"),
        "" => {
            // Starman's :443:ssl.
            let rest = rest.strip_suffix(":ssl").unwrap_or(rest);
            of_tcp(rest)
        }
        "fd" | "activate" => return Err("sockets from systemd are used without an option".to_owned()),
        _ => return Err(format!("an address with the scheme {scheme} is not known")),
    };
    if ["ssl", "https"].contains(&scheme) && !address.options.iter().any(|(name, _)| *name == "ssl-cert") {
        address.notes.push("connections here are encrypted: write ssl-cert and ssl-key".to_owned());
        address.options.push(("ssl-cert", "cert.pem".to_owned()));
    }
    Ok(address)
}

/// As [`of_server`], for a server whose addresses without a host are those of IPv4 alone.
///
/// # Errors
/// As [`of_server`].
pub(crate) fn of_v4_server(text: &str) -> Result<Address, String> {
    let mut address = of_server(text)?;
    if address.text.starts_with(':') && !text.contains("::") {
        address.text.insert_str(0, V4);
    }
    Ok(address)
}

/// The note about an address without a host in Puma.
pub(crate) fn of_puma(port: &str) -> String {
    format!("Puma before version 8 has IPv4 alone here, and :{port} has IPv6, too: 0.0.0.0:{port} has IPv4 alone")
}

/// The host for all interfaces of IPv4, and of no other family.
pub(crate) const V4: &str = "0.0.0.0";

/// The pattern of an address of `[[listen]]` for `destination`.
pub(crate) fn destination(address: &str) -> String {
    let plain = address.split_once("://").map_or(address, |(_, rest)| rest);
    let plain = plain.strip_prefix("fcgi+").unwrap_or(plain);
    if plain.starts_with("unix:") {
        return plain.to_owned();
    }
    if plain.starts_with(['/', '.']) {
        return format!("unix:{plain}");
    }
    match plain.rsplit_once(':') {
        Some((host, _)) if host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| !ip.is_unspecified()) => {
            plain.to_owned()
        }
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        Some((_, port)) => format!("*:{port}"),
        None => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_pattern() {
        for (address, expected) in [
            (":80", "*:80"),
            ("0.0.0.0:80", "*:80"),
            ("fcgi://*:9000", "*:9000"),
            ("fcgi://127.0.0.1:9000", "127.0.0.1:9000"),
            ("localhost:80", "127.0.0.1:80"),
            ("example.com:80", "*:80"),
            ("[::1]:80", "[::1]:80"),
            ("/run/a.sock", "unix:/run/a.sock"),
            ("./a.sock", "unix:./a.sock"),
            ("fcgi+unix:/run/a.sock", "unix:/run/a.sock"),
        ] {
            assert_eq!(destination(address), expected, "{address}");
        }
    }

    #[test]
    fn addresses_are_those_of_oribi() {
        for (text, expected) in [
            ("0.0.0.0:80", "0.0.0.0:80"),
            (":80", ":80"),
            ("80", ":80"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::]:80", ":80"),
            ("[::1]:80", "[::1]:80"),
            ("*:80", ":80"),
            ("tcp://0.0.0.0:3000", "0.0.0.0:3000"),
            ("tcp://[::]:3000", ":3000"),
            ("unix:///run/a.sock", "/run/a.sock"),
            ("unix:/run/a.sock", "/run/a.sock"),
            ("unix://tmp/a.sock", "./tmp/a.sock"),
            ("/run/a.sock", "/run/a.sock"),
            ("http://*:8080", ":8080"),
            (":443:ssl", ":443"),
        ] {
            assert_eq!(of_server(text).map(|address| address.text).as_deref(), Ok(expected), "{text}");
        }
        let address = of_server("ssl://0.0.0.0:443?cert=a.pem&key=b.pem&verify_mode=peer&x=1").expect("an address");
        let option = |name, value: &str| (name, value.to_owned());
        assert_eq!(
            address.options,
            [option("ssl-cert", "a.pem"), option("ssl-key", "b.pem"), option("ssl-verify-client", "optional")]
        );
        assert_eq!(address.notes, ["the part x of the address has no counterpart"]);
        assert!(of_server("unix:@abstract").is_err());
        for (text, expected) in [
            (":80", "0.0.0.0:80"),
            ("80", "0.0.0.0:80"),
            ("*:80", "0.0.0.0:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::]:80", ":80"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("/run/a.sock", "/run/a.sock"),
        ] {
            assert_eq!(of_v4_server(text).map(|address| address.text).as_deref(), Ok(expected), "{text}");
        }
    }
}
