//! Parses the networks of allowed clients.

use super::proxies::TrustedPeers;

/// The option with the networks.
pub(super) const ALLOW: &str = "allow=";

const EXPECTED: &str = "expected IP addresses, or networks such as 10.0.0.0/8, with commas between them";

/// Parses networks separated by commas.
pub(super) fn networks(text: &str) -> Result<Vec<TrustedPeers>, String> {
    let network = |network: &str| TrustedPeers::parse_network(network.trim(), EXPECTED);
    text.split(',').map(network).collect::<Result<_, _>>().map_err(|why| format!("{why} after {ALLOW}"))
}

/// Formats the value so that [`networks`] can parse it.
pub(super) fn show_networks(networks: &[TrustedPeers]) -> String {
    networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
