//! The rows of the table about encryption.

use super::super::handshakes::{parse_verify, parse_version, show_verify, show_version};
use super::super::setting::{Section, Setting};
use super::super::value::{boolean, path, show_switch};
use oribi_tls::Suites;

pub(super) const CERTIFICATE: Setting = Setting::listener(
    "ssl-cert",
    Section::Listening,
    "PATH",
    "The certificate with its chain, in PEM, for https:// addresses without cert=; if there are no https:// addresses, for all \
     TCP addresses. May be given several times: the name that a client asks for (SNI) decides",
)
.aliases(&["ssl-cert-file", "ssl-certfile", "ssl-certificate", "tls-cert", "certfile"])
.default_words("none")
.apply(|draft, text| path(text).map(|path| draft.settings.tls.certificates.push(path)))
.shows_each(|settings| settings.tls.certificates.iter().map(|path| path.display().to_string()).collect());

pub(super) const KEY: Setting = Setting::listener(
    "ssl-key",
    Section::Listening,
    "PATH",
    "The private key of --ssl-cert, in PEM; for several, in the same order. It may be readable by root only",
)
.aliases(&["ssl-key-file", "ssl-keyfile", "ssl-certificate-key", "tls-key", "keyfile"])
.default_words("in the file of the certificate")
.apply(|draft, text| path(text).map(|path| draft.settings.tls.keys.push(path)))
.shows_each(|settings| settings.tls.keys.iter().map(|path| path.display().to_string()).collect());

pub(super) const SSL: Setting = Setting::listener(
    "ssl",
    Section::Listening,
    "",
    "Encrypt connections at TCP addresses without a scheme; auto: if there is --ssl-cert and no address says https://",
)
.aliases(&["enable-ssl", "tls", "https"])
.apply(|draft, text| {
    draft.settings.tls.wanted = if text.trim().eq_ignore_ascii_case("auto") { None } else { Some(boolean(text)?) };
    Ok(())
})
.show(|settings| settings.tls.wanted.map_or_else(|| "auto".to_owned(), show_switch));

pub(super) const VERSION: Setting =
    Setting::listener("tls-min-version", Section::Listening, "VERSION", "The oldest version of TLS for clients: 1.2 or 1.3")
        .aliases(&["ssl-min-version", "ssl-protocol-min"])
        .apply(|draft, text| parse_version(text).map(|version| draft.settings.tls.oldest = version))
        .show(|settings| show_version(settings.tls.oldest).to_owned());

pub(super) const SUITES: Setting = Setting::listener(
    "ssl-ciphers",
    Section::Listening,
    "NAMES",
    "The cipher suites to accept, by their names in OpenSSL, separated by colons, such as ECDHE-RSA-AES256-GCM-SHA384. If no \
     suite of a version of TLS is named, all suites of that version are accepted",
)
.separator(':')
.aliases(&["ssl-cipher-list", "ssl-ciphersuites", "tls-ciphers"])
.default_words("all, none of which is weak")
.apply(|draft, text| Suites::parse(text).map(|suites| draft.settings.tls.suites = suites))
.show(|settings| settings.tls.suites.to_string());

pub(super) const VERIFY: Setting = Setting::listener(
    "ssl-verify-client",
    Section::Listening,
    "NAME",
    "Whether clients are asked for certificates: none, optional, or required. An invalid certificate is refused; apps find a \
     valid one in SSL_CLIENT_CERT, SSL_CLIENT_S_DN and others",
)
.aliases(&["ssl-client-verify", "ssl-verify", "ssl-verify-mode"])
.apply(|draft, text| parse_verify(text).map(|clients| draft.settings.tls.clients = clients))
.show(|settings| show_verify(settings.tls.clients).to_owned());

pub(super) const AUTHORITIES: Setting = Setting::listener(
    "ssl-ca",
    Section::Listening,
    "PATH",
    "CA certificates (PEM) for client certificates (--ssl-verify-client)",
)
.aliases(&["ssl-ca-file", "ssl-ca-certs", "ca-certs", "ssl-client-certificate"])
.default_words("none")
.apply(|draft, text| path(text).map(|path| draft.settings.tls.authorities = Some(path)))
.show(|settings| settings.tls.authorities.as_ref().map_or_else(String::new, |path| path.display().to_string()));

pub(super) const STATUS: Setting = Setting::listener(
    "ssl-ocsp",
    Section::Listening,
    "PATH",
    "The OCSP response, in DER, that is sent with --ssl-cert to clients that ask for it; for several, in the same order. HUP reads it \
     again",
)
.aliases(&["ssl-stapling-file"])
.default_words("none")
.apply(|draft, text| path(text).map(|path| draft.settings.tls.statuses.push(path)))
.shows_each(|settings| settings.tls.statuses.iter().map(|path| path.display().to_string()).collect());
