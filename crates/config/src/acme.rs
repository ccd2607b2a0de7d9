//! Settings about certificates from an authority (ACME): their folder, the challenge, and the addresses.

use super::contradiction::{Contradictions, ENCRYPTION};
use super::settings::{ListenAddress, Protocol, Settings};
use crate::directory;
use oribi_acme::Challenge;
use oribi_io::process::environment;
use oribi_tls::Verify;
use std::path::PathBuf;

/// The default addresses of a server that orders certificates: authorities ask for proof at port 80 (RFC 8555, section 8.3)
/// or at port 443 (RFC 8737, section 3).
pub(super) fn addresses(choice: Option<Challenge>) -> Vec<ListenAddress> {
    let plain = ListenAddress::tcp("", 80).speaking(Protocol::Http);
    let needs_plain = choice != Some(Challenge::TlsAlpn);
    needs_plain.then_some(plain).into_iter().chain([ListenAddress::tcp("", 443).encrypted(Vec::new())]).collect()
}

/// Decides where certificates are kept, and refuses certificates that cannot be ordered.
pub(super) fn settle(settings: &mut Settings, found: &mut Contradictions) {
    let acme = &mut settings.acme;
    let Some(first) = acme.certificates.first() else { return };
    if !acme.agreed {
        let why = "authorities issue certificates only if you agree to their terms: read them (Let's Encrypt's are at \
                   https://letsencrypt.org/repository/), then give --acme-agree-terms";
        found.add("acme", first.to_string(), why, &["acme-agree-terms"]);
    }
    for (place, names) in acme.certificates.iter().enumerate() {
        if acme.certificates[..place].iter().any(|other| other.first() == names.first()) {
            let why = "there are two certificates whose first name is this";
            found.add("acme", names.to_string(), why, &[]);
        }
    }
    if acme.storage.as_os_str().is_empty() {
        match default_storage() {
            Some(path) => acme.storage = path,
            None => {
                let why = "there is neither $XDG_STATE_HOME nor $HOME to keep it in: give --acme-storage PATH";
                found.add("acme", first.to_string(), why, &["acme-storage"]);
            }
        }
    } else if let Ok(full) = directory::absolute(&acme.storage) {
        acme.storage = full;
    }
    settings.tls.ordered = acme.certificates.iter().map(|names| acme.file(names)).collect();
}

/// Chooses the challenge, unless the user has chosen one: http-01 if an address speaks HTTP without TLS, tls-alpn-01 otherwise.
/// http-01 is preferred, because a TLS proxy in front of the server does not interfere at port 80. Refuses certificates that no
/// address offers, and a challenge that works at none of the addresses.
pub(super) fn choose_challenge(settings: &mut Settings, found: &mut Contradictions) {
    let Some(first) = settings.acme.certificates.first() else { return };
    let mut bad = |why: &str| found.add("acme", first.to_string(), why, ENCRYPTION);
    let is_encrypted = |address: &&ListenAddress| settings.offer_of(address).is_some();
    let is_plain =
        |address: &&ListenAddress| !is_encrypted(address) && address.protocol.unwrap_or(settings.protocol) == Protocol::Http;
    let offers = |address: &ListenAddress| {
        settings.offer_of(address).is_some_and(|offer| {
            offer
                .files
                .iter()
                .any(|files| files.certificate.path().is_some_and(|path| settings.tls.ordered.iter().any(|file| file == path)))
        })
    };
    if !settings.listen.iter().any(offers) {
        return bad("no address offers it: --listen http://:80 --listen https://:443");
    }
    let has_plain = settings.listen.iter().any(|address| is_plain(&address));
    let automatic = if has_plain { Challenge::Http } else { Challenge::TlsAlpn };
    let challenge = settings.acme_challenge.unwrap_or(automatic);
    if challenge == Challenge::Http && !has_plain {
        return bad(
            "http-01 needs port 80 without TLS: also give --listen http://:80, or leave --acme-challenge out, for port 443",
        );
    }
    let asks_all =
        |address: &ListenAddress| settings.offer_of(address).is_none_or(|offer| offer.options.clients == Verify::Required);
    if challenge == Challenge::TlsAlpn && settings.listen.iter().all(asks_all) {
        return bad(
            "tls-alpn-01 does not work where clients must have certificates, because the authority shows none: also give \
             --listen http://:80, for a proof by http-01",
        );
    }
    settings.acme.challenge = challenge;
}

/// The StateDirectory= of the service (systemd), the system's folder for root, or the user's folder.
fn default_storage() -> Option<PathBuf> {
    let variable = |name: &str| environment::variable_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let service = environment::variable("STATE_DIRECTORY").and_then(|list| list.split(':').next().map(PathBuf::from));
    if let Some(service) = service.filter(|path| path.is_absolute()) {
        return Some(service.join("acme"));
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/oribi/acme"));
    }
    let state = variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("oribi/acme"))
}

#[cfg(test)]
mod tests {
    use crate::{Config, Origin, Settings};
    use oribi_acme::Challenge;

    fn settings(given: &[(&str, &str)]) -> Result<Settings, String> {
        let mut config = Config::with(|_| None, 1);
        for (name, value) in given {
            config.set(name, value, Origin::CommandLine).map_err(|error| error.to_string())?;
        }
        config.finish().map_err(|error| error.to_string())
    }

    fn listens(given: &[(&str, &str)]) -> String {
        let settings = settings(given).expect("fits");
        settings.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn whoever_orders_certificates_listens_where_proof_is_asked_for() {
        let agreed = ("acme-agree-terms", "on");
        assert_eq!(listens(&[("acme", "a.org"), agreed]), "http://*:80 https://*:443");
        assert_eq!(
            listens(&[("acme", "a.org"), agreed, ("listen", "http://:8080"), ("listen", "https://:8443")]),
            "http://*:8080 https://*:8443"
        );
        for (given, why) in [
            (&[("acme", "a.org")][..], "agree to their terms"),
            (&[("acme", "a.org"), agreed, ("port", "5000"), ("acme-challenge", "http-01")], "http://:80"),
            (&[("acme", "a.org"), agreed, ("listen", "http://:80")], "no address offers it"),
            (&[("acme", "a.org"), agreed, ("listen", "https://:443"), ("acme-challenge", "http-01")], "needs port 80"),
            (
                &[("acme", "a.org"), agreed, ("listen", "https://:443?verify_mode=force_peer&ca=/c.pem")],
                "the authority shows none",
            ),
            (&[("acme-challenge", "dns-01")], "expected http-01, tls-alpn-01 or auto"),
            (&[("acme", "a.org"), agreed, ("listen", "https://:443?cert=a"), ("listen", "http://:80")], "no address offers it"),
            (&[("acme", "a.org"), ("acme", "a.org,b.org"), agreed], "two certificates"),
            (&[("acme", "*.a.org")], "DNS"),
            (&[("acme-directory", "http://a.org/dir")], "https://"),
            (&[("acme-email", "nobody")], "an address"),
        ] {
            let message = settings(given).expect_err(why);
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn proof_is_given_where_the_server_listens() {
        let (http, https) = (("listen", "http://:80"), ("listen", "https://:443"));
        for (given, addresses, challenge) in [
            (&[][..], "http://*:80 https://*:443", Challenge::Http),
            (&[http, https], "http://*:80 https://*:443", Challenge::Http),
            (&[https], "https://*:443", Challenge::TlsAlpn),
            (&[("acme-challenge", "tls-alpn-01")], "https://*:443", Challenge::TlsAlpn),
            (&[("acme-challenge", "auto")], "http://*:80 https://*:443", Challenge::Http),
            (&[http, https, ("acme-challenge", "tls-alpn-01")], "http://*:80 https://*:443", Challenge::TlsAlpn),
            (&[https, ("ssl-verify-client", "optional"), ("ssl-ca", "/c.pem")], "https://*:443", Challenge::TlsAlpn),
        ] {
            let given = [&[("acme", "a.org"), ("acme-agree-terms", "on")][..], given].concat();
            assert_eq!(listens(&given), addresses, "{given:?}");
            assert_eq!(settings(&given).map(|settings| settings.acme.challenge), Ok(challenge), "{given:?}");
        }
    }

    #[test]
    fn what_is_ordered_is_offered_beside_what_is_given() {
        let given = [
            ("acme", "a.org,www.a.org"),
            ("acme", "b.org"),
            ("acme-agree-terms", "on"),
            ("acme-storage", "/s"),
            ("acme-directory", "https://ca.example/dir"),
            ("ssl-cert", "/c.pem"),
        ];
        let settings = settings(&given).expect("fits");
        let offer = settings.offer_of(&settings.listen[1]).expect("it is encrypted");
        let files: Vec<_> = offer
            .files
            .iter()
            .map(|files| {
                (
                    files.certificate.path().map(|path| path.display().to_string()).unwrap_or_default(),
                    files.key == files.certificate,
                )
            })
            .collect();
        let file = |name: &str| (format!("/s/ca.example_dir/{name}.pem"), true);
        assert_eq!(files, [("/c.pem".to_owned(), true), file("a.org"), file("b.org")]);
        assert!(settings.offer_of(&settings.listen[0]).is_none());
    }
}
