//! The list of running servers, which `oribi ctl` makes without asking any of them.

use serde::Serialize;
use std::path::Path;

/// A running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Server {
    /// The path of its control socket.
    pub control: String,
    /// The process id of its first process.
    pub pid: u32,
}

impl Server {
    /// The server with this process id and control socket. In JSON, parts of the path that are not UTF-8 are U+FFFD.
    #[must_use]
    pub fn new(pid: u32, control: &Path) -> Self {
        Self { control: control.to_string_lossy().into_owned(), pid }
    }
}

/// Returns servers as JSON. Paths have the escapes that JSON requires, and no others.
#[must_use]
pub fn servers_to_json(servers: &[Server]) -> String {
    serde_json::to_string(servers).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_list_of_servers_has_these_bytes() {
        let servers = [("/run/oribi/7.sock", 7), ("/\"\\\n\u{8}\u{7f}\u{e9}", 8)];
        let servers = servers.map(|(control, pid)| Server::new(pid, Path::new(control)));
        assert_eq!(
            servers_to_json(&servers),
            "[{\"control\":\"/run/oribi/7.sock\",\"pid\":7},{\"control\":\"/\\\"\\\\\\n\\b\u{7f}\u{e9}\",\"pid\":8}]"
        );
        assert_eq!(servers_to_json(&[]), "[]");
    }

    #[test]
    fn a_path_that_is_not_utf_8_is_listed() {
        let path = Path::new(OsStr::from_bytes(b"/run/\xff/7.sock"));
        assert_eq!(servers_to_json(&[Server::new(7, path)]), "[{\"control\":\"/run/\u{fffd}/7.sock\",\"pid\":7}]");
    }
}
