//! `https`: addresses with certificates, and the certificates that clients show there.

use super::Serving;
use crate::note::Key;

/// The parts of the value in their order, by the names that they have in `https2`.
const PARTS: [&[&str]; 5] = [&["addr"], &["cert", "crt"], &["key"], &["ciphers"], &["clientca", "client_ca"]];

impl Serving<'_> {
    /// `ADDRESS,CERTIFICATE,KEY[,CIPHERS[,CA]]`, or the same with names: `addr=ADDRESS,cert=CERTIFICATE,...`.
    pub(super) fn https(&mut self, value: &str, key: &Key) {
        let mut parts = [""; PARTS.len()];
        let has_names = value.split(',').next().is_some_and(|first| first.contains('='));
        for (index, whole) in value.split(',').map(str::trim).enumerate() {
            let (index, part) = match whole.split_once('=').filter(|_| has_names) {
                Some((name, part)) => (PARTS.iter().position(|names| names.contains(&name.trim())), part.trim()),
                None => (Some(index).filter(|_| !has_names), whole),
            };
            match index.and_then(|index| parts.get_mut(index)) {
                Some(place) => *place = part,
                None if whole.is_empty() => {}
                None => self.draft.lost(key, format!("the part {whole} has no counterpart")),
            }
        }
        let [address, certificate, private, ciphers, authority] = parts;
        let address = match crate::address::of_v4_server(address) {
            Ok(address) => address.text,
            Err(reason) => return self.draft.lost(key, reason),
        };
        let options = &mut self.draft.listen(address, key).options;
        for (option, value) in [("ssl-cert", certificate), ("ssl-key", private)] {
            if !value.is_empty() {
                options.set(option, value, key);
            }
        }
        // uWSGI asks clients for a certificate if it has a CA, and refuses those without one if that begins with `!`.
        if !authority.is_empty() {
            let required = authority.strip_prefix('!');
            options.set("ssl-verify-client", if required.is_some() { "required" } else { "optional" }, key);
            if let Some(file) = Some(required.unwrap_or(authority)).filter(|file| !file.is_empty()) {
                options.set("ssl-ca", file, key);
            }
        }
        let is_suite = |name: &str| {
            name.contains(['-', '_']) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        match ciphers {
            "" => {}
            names if names.split(':').all(is_suite) => options.set("ssl-ciphers", names, key),
            other => {
                let text = format!("ssl-ciphers takes names of suites, not {other}; by default all that are safe are accepted");
                self.draft.lost(key, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use crate::draft::Draft;

    /// The address with its options, and the notes, of an option of uWSGI.
    fn read(option: &str, value: &str) -> (String, Vec<String>) {
        let mut draft = Draft::default();
        let words = [option, value, "--psgi", "a.psgi"].map(str::to_owned);
        command(&words, &[], None, &mut draft).expect("it can be read");
        let listen = draft.listens.first().expect("an address");
        let options = listen.options.list.iter().map(|option| format!(" {}={}", option.name, option.value.plain()));
        let text = options.fold(listen.address.clone(), |text, option| text + &option);
        (text, draft.notes.into_iter().map(|note| note.text).collect())
    }

    #[test]
    fn clients_show_certificates_as_they_did() {
        let files = "127.0.0.1:8443 ssl-cert=c.pem ssl-key=k.pem";
        for (option, value, expected) in [
            ("--https", "127.0.0.1:8443,c.pem,k.pem", ""),
            ("--https", "127.0.0.1:8443,c.pem,k.pem,,!ca.crt", " ssl-verify-client=required ssl-ca=ca.crt"),
            ("--https-socket", "127.0.0.1:8443,c.pem,k.pem,,ca.crt", " ssl-verify-client=optional ssl-ca=ca.crt"),
            (
                "--https2",
                "cert=c.pem,addr=127.0.0.1:8443,key=k.pem,clientca=!ca.crt",
                " ssl-verify-client=required ssl-ca=ca.crt",
            ),
            ("--https", "127.0.0.1:8443,c.pem,k.pem,ECDHE-RSA-AES256-GCM-SHA384", " ssl-ciphers=ECDHE-RSA-AES256-GCM-SHA384"),
        ] {
            assert_eq!(read(option, value), (format!("{files}{expected}"), Vec::new()), "{option} {value}");
        }
    }

    #[test]
    fn parts_without_a_counterpart_are_noted() {
        for (option, value, expected) in [
            ("--https", "127.0.0.1:8443,c.pem,k.pem,HIGH,!ca.crt", "not HIGH;"),
            ("--https", "127.0.0.1:8443,c.pem,k.pem,,ca.crt,more", "the part more"),
            ("--https2", "addr=127.0.0.1:8443,cert=c.pem,key=k.pem,spdy=1,clientca=!ca.crt", "the part spdy=1"),
        ] {
            let (text, notes) = read(option, value);
            assert!(text.ends_with(" ssl-ca=ca.crt"), "{text}");
            assert!(notes.len() == 1 && notes[0].contains(expected), "{value}: {notes:?}");
        }
    }

    #[test]
    fn the_server_behind_an_address_is_noted() {
        let (text, notes) = read("--http", ":8080,127.0.0.1:9");
        assert_eq!(text, "0.0.0.0:8080");
        assert!(notes.len() == 1 && notes[0].contains("127.0.0.1:9"), "{notes:?}");
        assert_eq!(read("--http", ":8080").1, Vec::<String>::new());
    }
}
