//! Options of other servers that have a protective effect and that Oribi lacks. Most unknown options only get a warning. But a
//! user who gives a protective option relies on the protection, so the server must not start without it.

use super::value::boolean;

/// The names in normalized form, and the advice for each.
const OPTIONS: &[(&[&str], &str)] = &[
    (&["sslbind"], "write --listen \"https://HOST:PORT?cert=FILE&key=FILE\" in its place"),
    (&["sslcapath"], "put the certificates into one file, and give --ssl-ca FILE"),
    (
        &["sslcrl", "sslcrlpath"],
        "Oribi does not know which certificates of clients are revoked; let a web server or proxy in front do it",
    ),
    (&["sslversion"], "Oribi speaks TLS 1.2 and 1.3; --tls-min-version 1.3 leaves the older version out"),
    (
        &["chroot", "chrootdir", "rootdirectory"],
        "Oribi does not change the root directory; let the service manager (RootDirectory= in a systemd unit) or a container do it",
    ),
    (
        &["allow", "deny", "cidrallow", "cidrdeny", "allowedhosts", "permittedhosts", "allowip", "denyip"],
        "Oribi does not choose among clients by their addresses; let a firewall or a web server in front do it",
    ),
    (&["dropprivileges"], "the names are --user and --group"),
];

/// Returns the advice for this protective option; `None` if the option does not protect, or if `text` turns the option off.
pub(super) fn instead_of(squashed: &str, text: &str) -> Option<&'static str> {
    let (_, instead) = OPTIONS.iter().find(|(names, _)| names.contains(&squashed))?;
    (boolean(text) != Ok(false)).then_some(*instead)
}
