//! Certificates for the tests, made by openssl.

use crate::pair::CertifiedIdentity;
use oribi_tls::{CertificateFiles, Material, Pem};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Files with certificates.
pub struct Certificates {
    directory: TempDir,
}

impl Certificates {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory is to be had") }
    }

    /// Makes a certificate for these names, and returns the files with it and its key.
    pub fn make(&self, file: &str, names: &[&str], algorithm: &[&str]) -> CertificateFiles {
        let (certificate, key) =
            (self.directory.path().join(format!("{file}.crt")), self.directory.path().join(format!("{file}.key")));
        let names: Vec<String> = names.iter().map(|name| format!("DNS:{name}")).collect();
        run(self.directory.path(), |openssl| {
            openssl.args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=test", "-newkey"]).args(algorithm);
            openssl.arg("-addext").arg(format!("subjectAltName={}", names.join(",")));
            openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
        });
        CertificateFiles { certificate: certificate.into(), key: key.into(), status: None }
    }
}

/// The text of the file.
pub fn content(pem: &Pem) -> String {
    std::fs::read_to_string(pem.path().expect("it is a file")).expect("it was just made")
}

/// An authority for certificates of clients.
pub struct Authority {
    directory: TempDir,
}

/// The configuration of `openssl ca`.
const CONFIGURATION: &str = "[ca]\ndefault_ca = authority\n[authority]\ndatabase = index\nserial = serial\nnew_certs_dir = .\n\
    certificate = ca.crt\nprivate_key = ca.key\ndefault_md = sha256\npolicy = any\nunique_subject = no\nx509_extensions = client\n[client]\nbasicConstraints = CA:FALSE\n\
    [any]\norganizationName = optional\ncommonName = optional\n";

impl Authority {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory is to be had");
        for (name, text) in [("index", ""), ("serial", "0A\n"), ("ca.cnf", CONFIGURATION)] {
            std::fs::write(directory.path().join(name), text).expect("the directory is ours");
        }
        run(directory.path(), |openssl| {
            openssl.args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=authority", "-newkey"]).args(ECDSA);
            openssl.args(["-keyout", "ca.key", "-out", "ca.crt"]);
        });
        Self { directory }
    }

    /// The certificate of the authority itself.
    pub fn certificate(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// A certificate for a client, valid up to `end`.
    pub fn client(&self, subject: &str, end: &str) -> CertifiedIdentity {
        run(self.directory.path(), |openssl| {
            openssl.args(["req", "-nodes", "-utf8", "-subj", subject, "-newkey"]).args(ECDSA);
            openssl.args(["-keyout", "client.key", "-out", "client.csr"]);
        });
        run(self.directory.path(), |openssl| {
            openssl.args([
                "ca",
                "-batch",
                "-config",
                "ca.cnf",
                "-utf8",
                "-preserveDN",
                "-startdate",
                "20000101000000Z",
                "-enddate",
                end,
            ]);
            openssl.args(["-notext", "-in", "client.csr", "-out", "client.crt"]);
        });
        let read = |name: &str| std::fs::read(self.directory.path().join(name)).expect("it was just made");
        let certificate = CertificateDer::from_pem_slice(&read("client.crt")).expect("it is one");
        (vec![certificate], PrivateKeyDer::from_pem_slice(&read("client.key")).expect("it is one"))
    }
}

pub const ECDSA: &[&str] = &["ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
pub const RSA: &[&str] = &["rsa:2048"];

fn run(directory: &Path, arguments: impl FnOnce(&mut Command)) {
    let mut openssl = Command::new("openssl");
    arguments(&mut openssl);
    let output = openssl.current_dir(directory).output().expect("openssl is installed (setup/packages.test)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The files of one certificate, for tests that need no particular one.
pub fn any() -> Material {
    let certificates = Certificates::new();
    let files = certificates.make("any", &["localhost"], ECDSA);
    Material::read(&[files]).expect("they were just made")
}
