//! Messages about certificates that cannot be used.

use super::Certificates;
use crate::material::{CertificateFiles, Material, Pair};
use crate::pem_text::Pem;
use crate::server::{Options, Server, Speaker};
use crate::tickets::Secret;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n-----END PRIVATE KEY-----\n";

fn refusal(certificate: &str, key: &str) -> String {
    let pair = Pair {
        certificate: "a.crt".to_owned(),
        key: "a.key".to_owned(),
        certificate_bytes: certificate.as_bytes().to_vec(),
        key_bytes: key.as_bytes().to_vec(),
        status: String::new(),
        status_bytes: Vec::new(),
    };
    Certificates::of(&Material { identities: vec![pair], authorities: None }).expect_err("it is no good")
}

#[test]
fn what_is_wrong_is_said() {
    for (certificate, part) in [
        ("", "a.crt: there is no certificate in this file"),
        (KEY, "a.crt: there is no certificate in this file"),
        ("-----BEGIN CERTIFICATE-----\nMIIB\n", "a.crt: a line that says END is missing"),
        ("-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n", "a.crt: it is not a PEM file"),
        ("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", "a.crt: it cannot be understood"),
    ] {
        let told = refusal(certificate, KEY);
        assert!(told.contains(part), "{told}");
    }
    assert!(Certificates::of(&Material::default()).is_err());
}

/// A certificate whose key does not matter here.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
    MIIBizCCATGgAwIBAgIUF1mRxCZ0m9cmI5Q6EG95tfjCPwMwCgYIKoZIzj0EAwIw\n\
    DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMzAxOTU3NTdaGA8yMTI2MTEwNjE5NTc1\n\
    N1owDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJeJ\n\
    MkXfvX9EfFd9a3IYBAQIA1qZ/3iBxMyWiY6TU81ezxDEWSW8rk9y8l14AmWYnEwO\n\
    bsxaSH3qrUTcOsC09QujaTBnMB0GA1UdDgQWBBT2gA+sj2gRCEoST7rw78ezkVlz\n\
    STAfBgNVHSMEGDAWgBT2gA+sj2gRCEoST7rw78ezkVlzSTAPBgNVHRMBAf8EBTAD\n\
    AQH/MBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAKBggqhkjOPQQDAgNIADBFAiBQU23p\n\
    DTrtSnPetFLvfX6Ah30I0CY9fs69y1jaUQAzywIhANEcAfL4j8iFpoUI3Sz9A+8c\n\
    s78yiNoB1EogYW1R+RWR\n\
    -----END CERTIFICATE-----\n";

#[test]
fn a_key_that_needs_a_passphrase_is_said_to_be_encrypted() {
    let traditional = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0A1B\n\n\
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n-----END EC PRIVATE KEY-----\n";
    let newer = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (key, part) in [
        (traditional, "cannot use the key a.key: it is encrypted, and the server cannot ask for its passphrase"),
        (newer, "cannot use the key a.key: it is encrypted, and the server cannot ask for its passphrase"),
        ("", "cannot use the key a.key: there is no private key in this file"),
        ("-----BEGIN PRIVATE KEY-----\n!!!\n-----END PRIVATE KEY-----\n", "cannot use the key a.key: it is not a PEM file"),
    ] {
        let told = refusal(CERTIFICATE, key);
        assert!(told.contains(part) && !told.contains("MIGH"), "{told}");
    }
}

#[test]
fn what_was_read_can_be_passed_on() {
    let pair = |name: &str| Pair {
        certificate: format!("{name}.crt"),
        key: format!("{name}.key"),
        certificate_bytes: name.repeat(300).into_bytes(),
        key_bytes: Vec::new(),
        status: String::new(),
        status_bytes: Vec::new(),
    };
    let material = Material { identities: vec![pair("a"), pair("b")], authorities: Some(("c".to_owned(), vec![1; 300])) };
    let bytes = material.to_bytes();
    assert_eq!(Material::from_bytes(&bytes).as_ref(), Some(&material));
    for less in 1..bytes.len() {
        let part = Material::from_bytes(&bytes[..less]);
        assert!(part.is_none_or(|part| part.identities.len() < 2), "{less}");
    }
    assert!(!format!("{material:?}").contains("aaaa"), "contents are not shown");
}

/// Makes a certificate in files of these names.
fn make(folder: &Path, name: &str) -> CertificateFiles {
    let [certificate, key] = ["crt", "key"].map(|end| folder.join(format!("{name}.{end}")));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-nodes", "-days", "30", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.arg("-subj").arg(format!("/CN={name}")).arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    let output = openssl.output().expect("openssl is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    CertificateFiles { certificate: Pem::File(certificate), key: Pem::File(key), status: None }
}

#[test]
fn files_with_the_same_content_are_not_parsed_again() {
    let folder = tempfile::tempdir().expect("a directory");
    let [one, two, three] = ["one", "two", "three"].map(|name| make(folder.path(), name));
    let read = |files: &[&CertificateFiles]| {
        Material::read(&files.iter().copied().cloned().collect::<Vec<_>>()).expect("they are there")
    };
    let known = read(&[&one, &two]);
    let before = Certificates::of(&known).expect("they are good");
    let is_same = |after: &Certificates, place: usize, of: usize| Arc::ptr_eq(&after.all[place], &before.all[of]);
    let again = before.renewed(&known, &read(&[&one, &two])).expect("they are good");
    assert!(is_same(&again, 0, 0) && is_same(&again, 1, 1));
    make(folder.path(), "one");
    let later = before.renewed(&known, &read(&[&two, &three, &one])).expect("they are good");
    assert!(is_same(&later, 0, 1), "its place does not matter");
    assert!(!is_same(&later, 2, 0), "this one was renewed");
    assert_eq!(later.all.len(), 3);
}

#[test]
fn lanes_keep_their_rules_until_a_file_has_other_content() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = make(folder.path(), "one");
    let read = || Material::read(std::slice::from_ref(&files)).expect("they are there");
    let secret = Secret::new().expect("random numbers");
    let server = Arc::new(Server::new(read(), Options::default(), secret).expect("it is good"));
    let mut lane = Speaker::new(Arc::clone(&server), true).expect("the rules agree");
    let before = lane.present().0;
    let renew = || server.exchange(server.check(read()).expect("they are good"));
    renew();
    assert!(Arc::ptr_eq(&lane.present().0, &before));
    make(folder.path(), "one");
    renew();
    assert!(!Arc::ptr_eq(&lane.present().0, &before));
}
