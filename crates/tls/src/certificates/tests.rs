//! Messages about certificates that cannot be used.

use super::Certificates;
use crate::material::{Material, Pair};

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
