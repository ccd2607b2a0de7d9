//! The JSON schema is one, and a real validator accepts and rejects files by it.

use std::io::Write;
use std::process::{Command, Stdio};

/// Reads `{"schema": ..., "files": [TOML, ...]}`, and prints for each file whether it fits.
const VALIDATOR: &str = "
import json, sys, tomllib
import jsonschema
given = json.load(sys.stdin)
jsonschema.Draft202012Validator.check_schema(given['schema'])
validator = jsonschema.Draft202012Validator(given['schema'])
for text in given['files']:
    print('fits' if validator.is_valid(tomllib.loads(text)) else 'differs')
";

/// Whether each of these files fits the schema.
fn fits(files: &[&str]) -> Vec<bool> {
    let schema: serde_json::Value = serde_json::from_str(&oribi_config_file::schema()).expect("the schema is JSON");
    let input = serde_json::json!({ "schema": schema, "files": files }).to_string();
    let mut validator = Command::new("/usr/bin/python3")
        .args(["-c", VALIDATOR])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python is there (make setup-test)");
    validator.stdin.take().expect("it is a pipe").write_all(input.as_bytes()).expect("the validator reads");
    let output = validator.wait_with_output().expect("the validator ends");
    assert!(output.status.success(), "the validator failed: it is in Debian's python3-jsonschema");
    String::from_utf8_lossy(&output.stdout).lines().map(|line| line == "fits").collect()
}

#[test]
fn files_fit_the_schema_as_they_fit_the_reader() {
    const GOOD: &[&str] = &[
        include_str!("golden/full.toml"),
        "",
        "include = 'x'\n[app.a]\nfile = 'a'\nharakiri = 3\n",
        "[server]\nlisten = [':80']\nworkers = 'auto'\nkeepalive = false\nindex = 'a,b'\n",
        "[[route]]\nrespond = {}\n",
    ];
    const BAD: &[&str] = &[
        include_str!("golden/mistakes.toml"),
        "servr = 1\n",
        "[server]\nworkrs = 1\n",
        "[app.a]\nfile = 'a'\nedges = 2\n",
        "[app.a]\nworkers = 2\n",
        "[app.'a b']\nfile = 'a'\n",
        "[[listen]]\nssl = true\n",
        "[[listen]]\naddress = ':80'\nedges = 1\n",
        "[server]\nbacklog = [1, 2]\n",
        "[[route]]\nname = 'x'\n",
        "[[route]]\nrespond = {}\nfiles = { root = 'x' }\n",
        "[[route]]\nrespond = {}\nmount = '/x'\n",
        "[[route]]\nrewrite = '/x'\n",
        "[[route]]\nmatch.path = '/a'\nrewrite = 'x'\n",
        "[[route]]\nredirect = { to = '/x', status = 200 }\n",
        "[[route]]\nrespond = {}\nmatch = { paths = '/x' }\n",
        "[[route]]\nrespond = {}\nmatch = { path = [] }\n",
    ];
    for (files, expected) in [(GOOD, true), (BAD, false)] {
        let found = fits(files);
        assert_eq!(found.len(), files.len());
        for (file, fits) in files.iter().zip(found) {
            assert_eq!(fits, expected, "{file}");
            let read = oribi_config_file::parse(&[("oribi.toml", file.as_bytes())], &|_| Some("x".to_owned()));
            assert_eq!(read.is_ok(), expected, "{file}");
        }
    }
}

#[test]
fn the_schema_has_every_option_in_its_tables() {
    let schema: serde_json::Value = serde_json::from_str(&oribi_config_file::schema()).expect("the schema is JSON");
    let tables = ["/properties/server", "/properties/listen/items", "/properties/app/patternProperties/^[A-Za-z0-9._-]{1,64}$"];
    for setting in oribi_config::table() {
        let there = tables.map(|table| {
            let properties = schema.pointer(table).expect(table).get("properties").expect("properties");
            properties.get(setting.name).is_some()
        });
        let expected = match setting.scope {
            oribi_config::Scope::Server => [true, false, false],
            oribi_config::Scope::Listener => [true, true, false],
            oribi_config::Scope::App => [true, false, true],
        };
        assert_eq!(there, expected, "{}", setting.name);
    }
}

#[test]
fn editors_get_a_description_of_each_filter_that_needs_one() {
    let schema: serde_json::Value = serde_json::from_str(&oribi_config_file::schema()).expect("the schema is JSON");
    for key in ["auth", "cache", "compress", "limit", "rewrite", "files"] {
        let description = schema.pointer(&format!("/properties/route/items/properties/{key}/description"));
        assert!(description.is_some_and(|text| text.as_str().is_some_and(|text| !text.is_empty())), "{key}");
    }
}
