//! The networks whose clients may get something, in the form in which users write them and read them.

use super::proxies::TrustedPeers;

/// The option that says which they are.
pub(super) const ALLOW: &str = "allow=";

const EXPECTED: &str = "expected IP addresses, or networks such as 10.0.0.0/8, with commas between them";

/// Networks with commas between them.
pub(super) fn networks(text: &str) -> Result<Vec<TrustedPeers>, String> {
    let network = |network: &str| TrustedPeers::parse_network(network.trim(), EXPECTED);
    text.split(',').map(network).collect::<Result<_, _>>().map_err(|why| format!("{why} behind {ALLOW}"))
}

/// In the form that [`networks`] reads.
pub(super) fn show_networks(networks: &[TrustedPeers]) -> String {
    networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
