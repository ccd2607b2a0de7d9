//! The trusted proxies in front of the server, and the fields that they may set.

use std::fmt;
use std::net::IpAddr;

/// The peers whose fields the server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedPeers {
    /// All peers of Unix sockets.
    Unix,
    /// The addresses that begin with the same `prefix` bits as `address`.
    Network {
        /// The first address; all bits after the prefix are zero.
        address: IpAddr,
        /// The number of bits.
        prefix: u8,
    },
}

/// The fields that the server accepts from a trusted proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedFields {
    /// X-Forwarded-For
    pub client: bool,
    /// X-Forwarded-Proto
    pub scheme: bool,
    /// X-Forwarded-Host
    pub host: bool,
    /// X-Forwarded-Port
    pub port: bool,
    /// Forwarded (RFC 7239)
    pub forwarded: bool,
}

/// The trust in proxies in front of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies {
    /// The trusted peers; none by default.
    pub trusted: Vec<TrustedPeers>,
    /// The fields that the server accepts from trusted peers.
    pub fields: ForwardedFields,
    /// Whether the fields of other peers are removed; `None` to remove them only if there are trusted peers.
    pub strip: Option<bool>,
}

/// The treatment of the fields with which a peer describes a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// The app gets the fields; the server ignores them.
    #[default]
    Kept,
    /// The app gets the fields, and the server uses them.
    Believed,
    /// The fields are removed.
    Removed,
}

impl Default for Proxies {
    fn default() -> Self {
        Self { trusted: Vec::new(), fields: ForwardedFields::ALL, strip: None }
    }
}

impl Proxies {
    /// The treatment of the fields of a peer with this address; `None` is the peer of a Unix socket.
    #[must_use]
    pub fn forwarding(&self, peer: Option<IpAddr>) -> Forwarding {
        if self.trust(peer) { Forwarding::Believed } else { self.of_strangers() }
    }

    /// The treatment of the fields of a peer that is not trusted.
    #[must_use]
    pub fn of_strangers(&self) -> Forwarding {
        if self.strip.unwrap_or(!self.trusted.is_empty()) { Forwarding::Removed } else { Forwarding::Kept }
    }

    /// Whether the peer with this address is trusted; `None` is the peer of a Unix socket.
    #[must_use]
    pub fn trust(&self, peer: Option<IpAddr>) -> bool {
        self.trusted.iter().any(|peers| peers.include(peer))
    }
}

impl TrustedPeers {
    /// Whether the peer with this address is among these peers; `None` is the peer of a Unix socket.
    pub fn include(self, peer: Option<IpAddr>) -> bool {
        match (self, peer) {
            (Self::Unix, None) => true,
            (Self::Network { address: IpAddr::V4(first), prefix }, Some(IpAddr::V4(peer))) => {
                let differ = first.to_bits() ^ peer.to_bits();
                differ.checked_shr(32 - u32::from(prefix)).unwrap_or(0) == 0
            }
            (Self::Network { address: IpAddr::V6(first), prefix }, Some(IpAddr::V6(peer))) => {
                let differ = first.to_bits() ^ peer.to_bits();
                differ.checked_shr(128 - u32::from(prefix)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }

    /// Parses one address, network or `unix`.
    ///
    /// # Errors
    /// The expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected IP addresses, networks such as 10.0.0.0/8, or unix, with commas between them";
        if text.eq_ignore_ascii_case("unix") { Ok(Self::Unix) } else { Self::parse_network(text, EXPECTED) }
    }

    /// Parses one address or network. `expected` is the error for a text that is neither.
    ///
    /// The crate ipnet is not suitable: it parses no address without a slash, it accepts 10.1.2.3/8 (a mistake that would trust
    /// too many peers), and it has the same error for all faults. It would only replace the few lines of
    /// [`TrustedPeers::include`].
    pub(super) fn parse_network(text: &str, expected: &str) -> Result<Self, String> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| expected.to_owned())?;
        let address = if prefix.is_none() { address.to_canonical() } else { address };
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let is_number = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = match prefix {
            None => longest,
            Some(digits) => match Some(digits).filter(is_number).and_then(|digits| digits.parse().ok()) {
                Some(prefix) if prefix <= longest => prefix,
                _ => return Err(format!("expected a number from 0 to {longest} after the slash of {text}")),
            },
        };
        let rest = match address {
            IpAddr::V4(address) => u128::from(address.to_bits().checked_shl(u32::from(prefix)).unwrap_or(0)),
            IpAddr::V6(address) => address.to_bits().checked_shl(u32::from(prefix)).unwrap_or(0),
        };
        if rest != 0 {
            return Err(format!("{text} is not a network: bits of the address are set after the first {prefix}"));
        }
        Ok(Self::Network { address, prefix })
    }
}

impl fmt::Display for TrustedPeers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix => formatter.write_str("unix"),
            Self::Network { address: address @ IpAddr::V4(_), prefix: 32 } => write!(formatter, "{address}"),
            Self::Network { address: address @ IpAddr::V6(_), prefix: 128 } => write!(formatter, "{address}"),
            Self::Network { address, prefix } => write!(formatter, "{address}/{prefix}"),
        }
    }
}

impl ForwardedFields {
    /// The set of all fields.
    pub(crate) const ALL: Self = Self { client: true, scheme: true, host: true, port: true, forwarded: true };
    /// The empty set of fields.
    pub const NONE: Self = Self { client: false, scheme: false, host: false, port: false, forwarded: false };

    /// The fields by their names.
    pub(super) fn named(&mut self) -> [(&'static str, &mut bool); 5] {
        [
            ("x-forwarded-for", &mut self.client),
            ("x-forwarded-proto", &mut self.scheme),
            ("x-forwarded-host", &mut self.host),
            ("x-forwarded-port", &mut self.port),
            ("forwarded", &mut self.forwarded),
        ]
    }
}

impl fmt::Display for ForwardedFields {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = *self;
        let names: Vec<&str> = fields.named().iter().filter(|(_, chosen)| **chosen).map(|(name, _)| *name).collect();
        formatter.write_str(&if names.is_empty() { "off".to_owned() } else { names.join(",") })
    }
}
