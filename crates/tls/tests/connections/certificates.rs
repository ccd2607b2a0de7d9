//! Certificates for the tests, made by openssl.

use oribi_tls::{CertificateFiles, Material};
use std::path::Path;
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

    /// Makes a certificate for these names, and returns where it and its key are.
    pub fn make(&self, file: &str, names: &[&str], algorithm: &[&str]) -> CertificateFiles {
        let (certificate, key) =
            (self.directory.path().join(format!("{file}.crt")), self.directory.path().join(format!("{file}.key")));
        let names: Vec<String> = names.iter().map(|name| format!("DNS:{name}")).collect();
        run(self.directory.path(), |openssl| {
            openssl.args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=test", "-newkey"]).args(algorithm);
            openssl.arg("-addext").arg(format!("subjectAltName={}", names.join(",")));
            openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
        });
        CertificateFiles { certificate, key }
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

/// What one certificate offers, for tests that need no particular one.
pub fn any() -> Material {
    let certificates = Certificates::new();
    let files = certificates.make("any", &["localhost"], ECDSA);
    Material::read(&[files]).expect("they were just made")
}
