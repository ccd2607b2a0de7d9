//! The rows of the table about certificates that are ordered.

use super::super::setting::{Section, Setting};
use super::super::value::{boolean, path, show_switch};
use oribi_acme::{Challenge, LETS_ENCRYPT, Names};

pub(super) const CERTIFICATE: Setting = Setting::server(
    "acme",
    Section::Listening,
    "DOMAIN",
    "Order a certificate for this domain, or for several separated by commas, by ACME, and renew it; port 80 of the domains, \
     or port 443 (see --acme-challenge), must reach this server. May be given several times",
)
.default_words("none")
.apply(|draft, text| Names::parse(text).map(|names| draft.settings.acme.certificates.push(names)))
.shows_each(|settings| settings.acme.certificates.iter().map(ToString::to_string).collect());

pub(super) const TERMS: Setting =
    Setting::server("acme-agree-terms", Section::Listening, "", "You agree to the terms of service of the authority of --acme")
        .aliases(&["agree-tos"])
        .apply(|draft, text| boolean(text).map(|agreed| draft.settings.acme.agreed = agreed))
        .show(|settings| show_switch(settings.acme.agreed));

pub(super) const CHALLENGE: Setting = Setting::server(
    "acme-challenge",
    Section::Listening,
    "NAME",
    "The proof to the authority of --acme that a domain belongs to this server: http-01 (at port 80, without TLS), tls-alpn-01 \
     (at port 443, in the handshake) or auto (http-01 if an address is without TLS, otherwise tls-alpn-01)",
)
.apply(|draft, text| challenge(text).map(|choice| draft.settings.acme_challenge = choice))
.show(|settings| settings.acme_challenge.map_or(AUTO, Challenge::name).to_owned());

pub(super) const EMAIL: Setting =
    Setting::server("acme-email", Section::Listening, "EMAIL", "The email address for messages of the authority of --acme")
        .default_words("none")
        .apply(|draft, text| email(text).map(|address| draft.settings.acme.email = Some(address)))
        .show(|settings| settings.acme.email.clone().unwrap_or_default());

pub(super) const DIRECTORY: Setting =
    Setting::server("acme-directory", Section::Listening, "URL", "The URL of the ACME directory of the authority of --acme")
        .apply(|draft, text| directory(text).map(|url| draft.settings.acme.directory = url))
        .show(|settings| settings.acme.directory.clone())
        .default_words(LETS_ENCRYPT);

pub(super) const STORAGE: Setting = Setting::server(
    "acme-storage",
    Section::Listening,
    "PATH",
    "Directory for keys and certificates of --acme; only the user that starts the server can read them",
)
.default_words("/var/lib/oribi/acme for root, else $XDG_STATE_HOME/oribi/acme")
.apply(|draft, text| path(text).map(|path| draft.settings.acme.storage = path))
.show(|settings| settings.acme.storage.display().to_string());

pub(super) const AUTHORITIES: Setting =
    Setting::server("acme-ca", Section::Listening, "PATH", "CA certificates (PEM) for the directory of --acme")
        .default_words("those of the system")
        .apply(|draft, text| path(text).map(|path| draft.settings.acme.authorities = Some(path)))
        .show(|settings| settings.acme.authorities.as_ref().map_or_else(String::new, |path| path.display().to_string()));

const AUTO: &str = "auto";

fn challenge(text: &str) -> Result<Option<Challenge>, String> {
    let text = text.trim();
    let kinds = [Challenge::Http, Challenge::TlsAlpn];
    match kinds.into_iter().find(|kind| kind.name() == text) {
        None if text != AUTO => Err("expected http-01, tls-alpn-01 or auto".to_owned()),
        found => Ok(found),
    }
}

fn directory(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_url = text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    if is_url && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected a URL with https://, such as {LETS_ENCRYPT}"))
    }
}

fn email(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_address = text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'));
    // The address becomes a part of a `mailto` URL (RFC 6068). RFC 8555, section 7.3, allows only one address in the URL, and
    // no other fields of a mail.
    if is_address && text.bytes().all(|byte| byte.is_ascii_graphic() && !b",?&%:<>".contains(&byte)) {
        Ok(text.to_owned())
    } else {
        Err("expected an address such as you@example.org".to_owned())
    }
}
