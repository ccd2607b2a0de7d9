//! All mistakes of a file are reported at their places.

use std::path::Path;

/// An environment with secrets that no message may contain.
fn environment(name: &str) -> Option<String> {
    match name {
        "TIMEOUT" => Some("swordfish".to_owned()),
        _ => None,
    }
}

#[test]
fn every_mistake_of_a_file_is_reported_at_its_place() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = std::fs::read(folder.join("mistakes.toml")).expect("the file is there");
    let findings = oribi_config_file::parse(&[("oribi.toml", &text)], &environment).expect_err("mistakes").to_string();
    for secret in ["hunter2", "swordfish"] {
        assert!(!findings.contains(secret), "{findings}");
    }
    let golden = folder.join("mistakes.txt");
    if std::env::var_os("ORIBI_WRITE_DOCS").is_some() {
        std::fs::write(&golden, &findings).expect("the file can be written");
    }
    assert_eq!(findings, std::fs::read_to_string(&golden).expect("the file is there"));
}
