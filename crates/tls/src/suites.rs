//! Suites: their names, and the choice of those that a server accepts.

use rustls::CipherSuite::{self, *};
use rustls::SupportedCipherSuite;
use rustls::crypto::ring::ALL_CIPHER_SUITES;
use std::fmt;

/// A suite, its name in OpenSSL, its registered name, and the bits of its key.
type Row = (CipherSuite, &'static str, &'static str, &'static str);

/// All suites, those of TLS 1.3 first.
#[rustfmt::skip]
const TABLE: [Row; 9] = [
    (TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384", "TLS13_AES_256_GCM_SHA384", "256"),
    (TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256", "128"),
    (TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256", "TLS13_CHACHA20_POLY1305_SHA256", "256"),
    (TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "256"),
    (TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "128"),
    (TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "256"),
    (TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "256"),
    (TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "128"),
    (TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "256"),
];

/// A suite's name in OpenSSL, and the bits of its key.
pub(crate) fn name_and_bits(suite: CipherSuite) -> (&'static str, &'static str) {
    TABLE.iter().find(|row| row.0 == suite).map_or(("", ""), |row| (row.1, row.3))
}

/// A choice of suites. If the choice contains no suite of a version of TLS, all suites of that version are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suites(Vec<CipherSuite>);

impl Suites {
    /// Parses names separated by `:`, `,` or spaces, in any case: those of OpenSSL, or the registered ones.
    ///
    /// # Errors
    /// Says which name is unknown, and which names are known.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut suites = Vec::new();
        for name in text.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
            let is = |known: &str| known.eq_ignore_ascii_case(name);
            let row = TABLE.iter().find(|row| is(row.1) || is(row.2)).ok_or_else(|| {
                let known = TABLE.map(|row| row.1).join(", ");
                format!("there is no suite `{}`; expected names with : between them, of these: {known}", name.escape_debug())
            })?;
            if !suites.contains(&row.0) {
                suites.push(row.0);
            }
        }
        if suites.is_empty() { Err("expected names of suites with : between them".to_owned()) } else { Ok(Self(suites)) }
    }

    /// The suites that a server accepts.
    pub(crate) fn chosen(&self) -> Vec<SupportedCipherSuite> {
        let is_new = |suite: &CipherSuite| {
            ALL_CIPHER_SUITES.iter().any(|known| known.suite() == *suite && matches!(known, SupportedCipherSuite::Tls13(_)))
        };
        let names_any = |new: bool| self.0.iter().any(|suite| is_new(suite) == new);
        let (names_new, names_old) = (names_any(true), names_any(false));
        let takes = |suite: &&SupportedCipherSuite| {
            let named = if is_new(&suite.suite()) { names_new } else { names_old };
            !named || self.0.contains(&suite.suite())
        };
        ALL_CIPHER_SUITES.iter().filter(takes).copied().collect()
    }
}

impl fmt::Display for Suites {
    /// Formats the value so that [`Suites::parse`] can parse it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, suite) in self.0.iter().enumerate() {
            let between = if place == 0 { "" } else { ":" };
            write!(formatter, "{between}{}", name_and_bits(*suite).0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_has_a_name() {
        assert_eq!(TABLE.len(), ALL_CIPHER_SUITES.len());
        for suite in ALL_CIPHER_SUITES {
            let (name, bits) = name_and_bits(suite.suite());
            assert!(!name.is_empty() && !bits.is_empty(), "{suite:?}");
            assert_eq!(Suites::parse(name).expect(name).0, [suite.suite()]);
        }
    }

    #[test]
    fn names_choose_among_the_suites_of_their_version() {
        let chosen =
            |text: &str| Suites::parse(text).expect(text).chosen().iter().map(SupportedCipherSuite::suite).collect::<Vec<_>>();
        let (old, new) = (TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS13_AES_128_GCM_SHA256);
        assert_eq!(Suites::default().chosen().len(), 9);
        let some = chosen("ecdhe-rsa-aes128-gcm-sha256");
        assert!(some.len() == 4 && some.contains(&old) && some.contains(&new), "{some:?}");
        assert_eq!(chosen("TLS13_AES_128_GCM_SHA256").len(), 7);
        let both = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256";
        assert!(chosen(both).len() == 2 && chosen(both).contains(&old));
        let shown = Suites::parse(both).expect("known").to_string();
        assert_eq!(shown, "ECDHE-RSA-AES128-GCM-SHA256:TLS_AES_128_GCM_SHA256");
    }

    #[test]
    fn what_is_unknown_is_refused() {
        let why = Suites::parse("ECDHE-RSA-AES128-GCM-SHA256:!aNULL").expect_err("unknown");
        assert!(why.contains("`!aNULL`") && why.contains("ECDHE-ECDSA-CHACHA20-POLY1305"), "{why}");
        assert!(Suites::parse("HIGH").is_err() && Suites::parse("").is_err() && Suites::parse(" : ").is_err());
    }
}
