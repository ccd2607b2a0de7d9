//! The user's settings for certificates by ACME.

use oribi_tls::Identity;
use std::fmt;
use std::path::PathBuf;

/// Let's Encrypt's directory.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The longest name (RFC 1035, section 2.3.4) and the longest label of one, in bytes.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// The names of one certificate, in lower case. The first one names its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// Parses names separated by commas.
    ///
    /// # Errors
    /// Says which name is wrong, and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut names: Vec<String> = Vec::new();
        for name in text.split(',') {
            let name = name.trim().to_ascii_lowercase();
            check(&name)?;
            if names.contains(&name) {
                return Err(format!("{name} is there twice"));
            }
            names.push(name);
        }
        Ok(Self(names))
    }

    /// The first name.
    #[must_use]
    pub fn first(&self) -> &str {
        &self.0[0]
    }

    pub(crate) fn all(&self) -> &[String] {
        &self.0
    }

    /// Whether `others` are the same names, in any order.
    pub(crate) fn are(&self, others: &[String]) -> bool {
        self.0.len() == others.len() && self.0.iter().all(|name| others.contains(name))
    }
}

impl fmt::Display for Names {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(","))
    }
}

fn check(name: &str) -> Result<(), String> {
    let is_good = |label: &str| {
        let known = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        (1..=LONGEST_LABEL).contains(&label.len()) && known && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.starts_with("*.") {
        return Err(
            "a certificate for *.DOMAIN needs a proof by DNS, which Oribi does not support; name the hosts, or order it with \
             another program and give it by --ssl-cert"
                .to_owned(),
        );
    }
    if name.parse::<std::net::Ipv4Addr>().is_ok() || name.len() > LONGEST_NAME || !name.split('.').all(is_good) {
        return Err(
            "expected a domain such as www.example.org, or several with commas between them, for one certificate; other than \
             ASCII names in the form of DNS, xn--..."
                .to_owned(),
        );
    }
    Ok(())
}

/// The way in which the server proves that it controls a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Challenge {
    /// By the response to a request without TLS, at port 80 (RFC 8555, section 8.3).
    #[default]
    Http,
    /// By a certificate in a handshake, at port 443 (RFC 8737).
    TlsAlpn,
}

impl Challenge {
    /// Its name in the protocol and in the option.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http-01",
            Self::TlsAlpn => "tls-alpn-01",
        }
    }
}

/// The certificates to order, the authority, and the folder for both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The names of each certificate.
    pub certificates: Vec<Names>,
    /// The URL of the authority's directory.
    pub directory: String,
    /// The contact address for the authority; `None` if it gets none.
    pub email: Option<String>,
    /// The folder for keys and certificates.
    pub storage: PathBuf,
    /// A PEM file with the authorities that may sign the certificate of the directory's server; `None` for the system's.
    pub authorities: Option<PathBuf>,
    /// Whether the user agrees to the authority's terms.
    pub agreed: bool,
    /// The type of the challenges to answer.
    pub challenge: Challenge,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            certificates: Vec::new(),
            directory: LETS_ENCRYPT.to_owned(),
            email: None,
            storage: PathBuf::new(),
            authorities: None,
            agreed: false,
            challenge: Challenge::default(),
        }
    }
}

impl Settings {
    /// Returns the folder for the account with this authority. Each authority has its own folder, because its keys and
    /// certificates are of no use with another authority.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || ".-".contains(letter) { letter } else { '_' };
        let name = self.directory.strip_prefix("https://").unwrap_or(&self.directory);
        let name: String = name.trim_start_matches('.').chars().map(plain).collect();
        self.storage.join(name)
    }

    /// Returns the certificates that are not issued yet, with their files: the file is missing, cannot be read or parsed, or
    /// contains a self-signed placeholder.
    pub fn not_there(&self) -> impl Iterator<Item = (&Names, PathBuf)> {
        let is_missing = |file: &PathBuf| {
            let found = std::fs::read(file).ok().and_then(|content| Identity::of(&file.display().to_string(), &content).ok());
            found.is_none_or(|identity| identity.is_self_signed)
        };
        self.certificates.iter().map(|names| (names, self.file(names))).filter(move |(_, file)| is_missing(file))
    }

    /// Returns the path of the file for proofs, which is empty unless the authority asks for a proof.
    pub(crate) fn proof(&self) -> PathBuf {
        self.folder().join("proof")
    }

    /// Returns the path of the file with the certificate for these names and the key of the certificate.
    #[must_use]
    pub fn file(&self, names: &Names) -> PathBuf {
        self.folder().join(format!("{}.pem", names.first()))
    }

    /// Returns the path of the file with the unfinished order of a certificate for these names, and with its new key.
    pub(crate) fn order_file(&self, names: &Names) -> PathBuf {
        self.folder().join(format!("{}.order", names.first()))
    }

    /// Returns the path of the file with the time of the next attempt to order a certificate for these names.
    pub(crate) fn pause_file(&self, names: &Names) -> PathBuf {
        self.folder().join(format!("{}.pause", names.first()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_hosts() {
        let names = Names::parse("WWW.example.org, example.org").expect("they are good");
        assert_eq!(names.to_string(), "www.example.org,example.org");
        assert!(names.are(&["example.org".to_owned(), "www.example.org".to_owned()]));
        assert!(!names.are(&["example.org".to_owned()]));
        for bad in [
            "",
            "a b",
            "a..b",
            ".a",
            "a.",
            "-a.org",
            "a-.org",
            "../../etc",
            "a/b",
            "bücher.de",
            "127.0.0.1",
            "a,a",
            "*.a.org",
            "[::1]",
        ] {
            assert!(Names::parse(bad).is_err(), "{bad}");
        }
        assert!(Names::parse(&"a".repeat(64)).is_err() && Names::parse(&"a.".repeat(127)).is_err());
        assert!(Names::parse("*.example.org").expect_err("a wildcard").contains("DNS"));
    }

    #[test]
    fn each_authority_has_a_folder() {
        let mut settings = Settings {
            certificates: Vec::new(),
            directory: LETS_ENCRYPT.to_owned(),
            email: None,
            storage: PathBuf::from("/s"),
            authorities: None,
            agreed: true,
            challenge: Challenge::Http,
        };
        assert_eq!(settings.folder(), PathBuf::from("/s/acme-v02.api.letsencrypt.org_directory"));
        settings.directory = "https://../[::1]:14000/dir?x".to_owned();
        assert_eq!(settings.folder(), PathBuf::from("/s/____1__14000_dir_x"));
    }
}
