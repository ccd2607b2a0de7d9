//! The row of the table about web servers that send FastCGI requests.

use super::super::setting::{Section, Setting};
use super::super::value::{ip_addresses, show_ip_addresses};

pub(super) const CLIENTS: Setting = Setting::server(
    "fastcgi-clients",
    Section::Listening,
    "ADDRESSES",
    "IP addresses, separated by commas, of the web servers that may send FastCGI requests; does not affect Unix sockets",
)
.separator(',')
.environment("FCGI_WEB_SERVER_ADDRS")
.default_words("all")
.apply(|draft, text| ip_addresses(text).map(|addresses| draft.settings.fastcgi_clients = addresses))
.show(|settings| show_ip_addresses(&settings.fastcgi_clients));
