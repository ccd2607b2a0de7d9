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

#[test]
fn a_line_that_is_no_toml_hides_no_other_mistake() {
    let text = "[server]\nworkers = many\nacces-log = 'x'\n[app.a]\nfile = a.lua\nedges = 2\n[[route]]\nmatch.path = '/a'\napp = a\n[[route]]\napp = 'b'\n";
    let findings = |text: &str| -> Vec<String> {
        let findings = oribi_config_file::parse(&[("oribi.toml", text.as_bytes())], &environment).expect_err("mistakes");
        findings.list.iter().map(|finding| format!("{} {}", finding.place, finding.message)).collect()
    };
    let found = findings(text);
    let places: Vec<&str> = found.iter().filter_map(|line| line.strip_prefix("oribi.toml:")?.split(' ').next()).collect();
    assert_eq!(places, ["2:11", "3:1", "5:8", "6:1", "9:7", "11:7"], "{found:#?}");
    assert!([0, 2, 4].iter().all(|index| found[*index].contains(" TOML: ")), "{found:#?}");
    assert!(found[5].ends_with("there is no app `b`"), "{found:#?}");
    // Apps that a line may have named are not missing.
    let found = findings("app.a = x\n[[route]]\napp = 'b'\n");
    assert_eq!(found.len(), 1, "{found:#?}");
}

#[test]
fn a_mistake_that_each_app_has_is_listed_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("oribi.toml");
    std::fs::write(&path, "[app.a]\nfile = 'a'\n").expect("it is ours");
    let (config, mut review) = oribi_config_file::examine(&path, &environment, &mut |_, _| {});
    for _ in 0..2000 {
        review.mistake(&config.apps[0].place, "of the server", None);
    }
    assert!(!review.is_long());
    review.mistake(&config.apps[0].place, "of the last app", None);
    let found = review.finish().expect_err("mistakes");
    let messages: Vec<&str> = found.list.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!((messages, found.more), (vec!["of the server", "of the last app"], 0));
}
