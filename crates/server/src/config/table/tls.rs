//! The rows of the table about encryption.

use super::super::setting::{Section, Setting};
use super::super::value::{boolean, path, show_switch};
use oribi_tls::Version;

pub(super) const CERTIFICATE: Setting = Setting::new(
    "ssl-cert",
    Section::Listening,
    "PATH",
    "The certificate with its chain, in PEM, for https:// addresses that name none; if there are none, for all TCP addresses. May be \
     given several times: clients choose by the server's name (SNI)",
)
.aliases(&["ssl-cert-file", "ssl-certfile", "ssl-certificate", "tls-cert", "certfile"])
.default_words("none")
.apply(|draft, text| path(text).map(|path| draft.settings.tls.certificates.push(path)))
.shows_each(|settings| settings.tls.certificates.iter().map(|path| path.display().to_string()).collect());

pub(super) const KEY: Setting = Setting::new(
    "ssl-key",
    Section::Listening,
    "PATH",
    "The private key of --ssl-cert, in PEM; for several, in the same order. It may be readable for root alone",
)
.aliases(&["ssl-key-file", "ssl-keyfile", "ssl-certificate-key", "tls-key", "keyfile"])
.default_words("in the file of the certificate")
.apply(|draft, text| path(text).map(|path| draft.settings.tls.keys.push(path)))
.shows_each(|settings| settings.tls.keys.iter().map(|path| path.display().to_string()).collect());

pub(super) const SSL: Setting = Setting::new(
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
    Setting::new("tls-min-version", Section::Listening, "VERSION", "The oldest version of TLS for clients: 1.2 or 1.3")
        .aliases(&["ssl-min-version", "ssl-protocol-min"])
        .apply(|draft, text| version(text).map(|version| draft.settings.tls.oldest = version))
        .show(|settings| show_version(settings.tls.oldest).to_owned());

fn version(text: &str) -> Result<Version, String> {
    let text = text.trim().to_ascii_lowercase();
    match text.trim_start_matches("tls").trim_start_matches('v').replace('_', ".").as_str() {
        "1.2" => Ok(Version::Tls12),
        "1.3" => Ok(Version::Tls13),
        _ => Err("expected 1.2 or 1.3; nothing older is spoken (RFC 8996)".to_owned()),
    }
}

const fn show_version(version: Version) -> &'static str {
    match version {
        Version::Tls12 => "1.2",
        Version::Tls13 => "1.3",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_they_are_spelled() {
        for text in ["1.3", " TLSv1.3", "tls1_3", "TLSv1_3"] {
            assert_eq!(version(text), Ok(Version::Tls13), "{text}");
        }
        assert_eq!(version("1.2").map(show_version), Ok("1.2"));
        assert!(version("1.1").is_err() && version("").is_err() && version("ssl3").is_err());
    }
}
