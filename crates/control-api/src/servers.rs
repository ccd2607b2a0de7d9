//! The list of running servers, which `oribi ctl` makes without asking any of them.

use serde::Serialize;

/// A running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Server {
    /// The path of its control socket.
    pub control: String,
    /// The process id of its first process.
    pub pid: u32,
}

/// Returns servers as JSON. Paths have the escapes that JSON requires, and no others.
#[must_use]
pub fn servers_to_json(servers: &[Server]) -> String {
    serde_json::to_string(servers).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_servers_has_these_bytes() {
        let servers = [("/run/oribi/7.sock", 7), ("/\"\\\n\u{8}\u{7f}\u{e9}", 8)];
        let servers = servers.map(|(control, pid)| Server { control: control.to_owned(), pid });
        assert_eq!(
            servers_to_json(&servers),
            "[{\"control\":\"/run/oribi/7.sock\",\"pid\":7},{\"control\":\"/\\\"\\\\\\n\\b\u{7f}\u{e9}\",\"pid\":8}]"
        );
        assert_eq!(servers_to_json(&[]), "[]");
    }
}
