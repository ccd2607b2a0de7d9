//! Restricts metrics to clients in certain networks, if `--metrics ADDRESS?allow=` names some.

use oribi_config::TrustedPeers;
use rustix::net::getpeername;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The interval at which the log reports refused clients, so that they cannot fill the log.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// The networks with access, and the clients that were refused.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    /// The networks; empty if all clients have access.
    networks: Vec<TrustedPeers>,
    /// The number of clients refused since the last log line about a refused client.
    refused: u64,
    told: Option<Instant>,
}

impl Allowed {
    pub(super) fn new(networks: &[TrustedPeers]) -> Self {
        Self { networks: networks.to_vec(), ..Self::default() }
    }

    /// Whether the peer of a socket may get metrics. Logs a refusal, unless one was logged a short time ago.
    pub(super) fn admit(&mut self, socket: impl AsFd, now: Instant) -> bool {
        if self.networks.is_empty() {
            return true;
        }
        // A peer that has disconnected already has no address any more, and is refused.
        let peer = getpeername(socket).ok().flatten().and_then(|address| SocketAddr::try_from(address).ok());
        let address = peer.map(|peer| peer.ip().to_canonical());
        let is_known = address.is_some_and(|address| self.include(address));
        if let Some(address) = address.filter(|_| !is_known)
            && let Some(line) = self.note_refusal(address, now)
        {
            log::warn!("{line}");
        }
        is_known
    }

    fn include(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.include(Some(address)))
    }

    /// Counts a refused client; returns the text for the log, if one is due.
    fn note_refusal(&mut self, address: IpAddr, now: Instant) -> Option<String> {
        self.refused += 1;
        if self.told.is_some_and(|told| now < told + TOLD_EVERY) {
            return None;
        }
        self.told = Some(now);
        let others = match std::mem::take(&mut self.refused) - 1 {
            0 => String::new(),
            1 => ", like another client since the last such message".to_owned(),
            more => format!(", like {more} other clients since the last such message"),
        };
        Some(format!("refused metrics to {address}, which is in none of the networks of --metrics ...?allow={others}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str, prefix: u8) -> TrustedPeers {
        TrustedPeers::Network { address: text.parse().expect(text), prefix }
    }

    #[test]
    fn those_in_a_network_are_let_in() {
        let allowed = Allowed::new(&[network("10.0.0.0", 8), network("::1", 128)]);
        for (address, admitted) in [("10.255.0.1", true), ("11.0.0.1", false), ("::1", true), ("::2", false)] {
            assert_eq!(allowed.include(address.parse().expect(address)), admitted, "{address}");
        }
    }

    #[test]
    fn the_log_is_told_once_a_minute_and_then_of_all() {
        let (mut allowed, begun) = (Allowed::default(), Instant::now());
        let stranger: IpAddr = [192, 0, 2, 7].into();
        let mut refuse = |seconds| allowed.note_refusal(stranger, begun + Duration::from_secs(seconds));
        let first = "refused metrics to 192.0.2.7, which is in none of the networks of --metrics ...?allow=";
        assert_eq!(refuse(0).as_deref(), Some(first));
        assert_eq!((refuse(1), refuse(59)), (None, None));
        assert_eq!(refuse(60), Some(format!("{first}, like 2 other clients since the last such message")));
        assert_eq!(refuse(61), None);
        assert_eq!(refuse(200), Some(format!("{first}, like another client since the last such message")));
    }
}
