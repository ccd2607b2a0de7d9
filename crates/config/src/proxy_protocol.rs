//! The setting whether connections begin with a PROXY header.

use super::address_option::take_option;
use oribi_proto::proxy_protocol::Versions;

/// Whether the connections of a listener begin with a PROXY header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// Connections begin without a PROXY header.
    #[default]
    Off,
    /// Each connection must begin with a PROXY header in one of these versions; the server closes any other connection.
    Required(Versions),
}

impl ProxyProtocol {
    /// Parses `off`, `v1`, `v2` or `on`.
    ///
    /// # Errors
    /// The text is not one of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "v1" => Ok(Self::Required(Versions::One)),
            "v2" => Ok(Self::Required(Versions::Two)),
            "1" | "on" | "yes" | "true" => Ok(Self::Required(Versions::Both)),
            "0" | "off" | "no" | "false" => Ok(Self::Off),
            _ => Err("expected off, v1, v2 or on (either version)".to_owned()),
        }
    }

    /// Formats the value so that [`ProxyProtocol::parse`] can parse it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Required(Versions::One) => "v1",
            Self::Required(Versions::Two) => "v2",
            Self::Required(Versions::Both) => "on",
        }
    }
}

/// Removes `proxy_protocol=VALUE` from the options of an address. Returns the address without it, and the choice.
pub(super) fn take_choice(address: &str) -> Result<(String, Option<ProxyProtocol>), String> {
    let (rest, value) = take_option(address, "proxy_protocol=")?;
    let chosen = value.map(ProxyProtocol::parse).transpose().map_err(|why| format!("{why} after proxy_protocol="))?;
    Ok((rest, chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in ["off", "v1", "v2", "on"] {
            assert_eq!(ProxyProtocol::parse(text).map(ProxyProtocol::name), Ok(text));
        }
        assert_eq!(ProxyProtocol::parse(" V2 "), Ok(ProxyProtocol::Required(Versions::Two)));
        assert!(ProxyProtocol::parse("v3").is_err() && ProxyProtocol::parse("").is_err());
    }
}
