//! The rows of the table about listening sockets.

use super::super::address::{parse_host, parse_port};
use super::super::setting::{Section, Setting};
use super::super::value::{boolean, count, file_mode, show_file_mode, show_switch};

/// listen(2) takes an `int`.
const LONGEST_BACKLOG: u64 = i32::MAX as u64;

pub(super) const HOST: Setting =
    Setting::server("host", Section::Listening, "HOST", "Listen on this host or address (* for all) and the port of --port")
        .short('o')
        .environment("HOST")
        .apply(|draft, text| parse_host(text).map(|host| draft.host = Some(host)));

pub(super) const PORT: Setting =
    Setting::server("port", Section::Listening, "PORT", "Listen on this port (0: the kernel chooses) and the host of --host")
        .short('p')
        .environment("PORT")
        .apply(|draft, text| parse_port(text).map(|port| draft.port = Some(port)));

pub(super) const BACKLOG: Setting = Setting::server(
    "backlog",
    Section::Listening,
    "NUMBER",
    "Connections that may wait to be accepted; the kernel also has a limit (net.core.somaxconn)",
)
.apply(|draft, text| count(text, 1..=LONGEST_BACKLOG).map(|number| draft.settings.backlog = number as u32))
.show(|settings| settings.backlog.to_string());

pub(super) const REUSE_PORT: Setting =
    Setting::server("reuse-port", Section::Listening, "", "Let other servers listen on the same TCP port beside this one")
        .aliases(&["reuseport"])
        .apply(|draft, text| boolean(text).map(|on| draft.settings.reuse_port = on))
        .show(|settings| show_switch(settings.reuse_port));

pub(super) const SOCKET_MODE: Setting = Setting::listener(
    "socket-mode",
    Section::Listening,
    "MODE",
    "Permission bits of Unix socket files, such as 660 or 0666, unless --listen gives them; off leaves them to the umask",
)
.aliases(&["chmod-socket"])
.apply(|draft, text| file_mode(text).map(|mode| draft.settings.socket_mode = mode))
.show(|settings| show_file_mode(settings.socket_mode));
