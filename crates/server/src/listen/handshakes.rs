//! Handshakes that have begun: the kernel has answered the client, but the client's acknowledgement has not arrived. Such a
//! connection cannot be accepted yet, and closing the listener now would reset it.

use std::fs;

/// The kernel's tables of TCP sockets: proc(5).
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// SYN-RECEIVED in the tables (`enum` in the kernel's `tcp_states.h`).
const SYN_RECEIVED: &str = "03";

/// Whether a handshake has begun at one of `ports`. If the tables cannot be read, returns false.
pub(super) fn begun(ports: &[u16]) -> bool {
    !ports.is_empty() && TABLES.iter().any(|table| fs::read_to_string(table).is_ok_and(|text| shows(&text, ports)))
}

fn shows(table: &str, ports: &[u16]) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let port = fields.next().and_then(|address| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok());
        fields.nth(1) == Some(SYN_RECEIVED) && port.is_some_and(|port| ports.contains(&port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_seen_at_its_port_and_while_it_lasts() {
        let line = |address: &str, state: &str| {
            format!(
                "  sl  local_address rem_address   st tx_queue\n   0: {address} 0100007F:C350 {state} 00000000:00000000 01:00000063\n"
            )
        };
        assert!(shows(&line("0100007F:1388", "03"), &[80, 5000]));
        assert!(shows(&line("00000000000000000000000001000000:1388", "03"), &[5000]));
        assert!(!shows(&line("0100007F:1388", "01"), &[5000]), "it is over");
        assert!(!shows(&line("0100007F:1388", "03"), &[80]), "it is another server's");
        assert!(!begun(&[]));
    }
}
