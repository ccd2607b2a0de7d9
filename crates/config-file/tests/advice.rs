//! The advice of messages, for keys and values of other servers and for likely slips.

use oribi_config_file::parse;

/// The findings about a text, as `oribi check` prints them.
fn findings(text: &str) -> String {
    let environment = |name: &str| (name == "HOME").then(|| "/root".to_owned());
    let read = parse(&[("oribi.toml", text.as_bytes())], &environment);
    read.map_or_else(|findings| findings, |reading| reading.warnings).to_string()
}

#[test]
fn likely_slips_get_advice() {
    let range = "write workers = NUMBER, or workers = \"MIN:MAX\" for a number that follows the load";
    for (text, advice) in [
        ("[app.a]\nfile = 'a'\nworkers = 1:4", "write \"1:4\""),
        ("[server]\nworkers = 0:1024 # at night", "write \"0:1024\""),
        ("[app.a]\nfile = 'a'\nmin-workers = 2", range),
        ("[app.a]\nfile = 'a'\nprocesses = { max = 4, spare = 2 }", range),
        ("[server]\nspare = 2", range),
        ("[server]\ncheaper = 2", range),
        ("[[route]]\nfiles = { root = 'a', autoindex = true }", "did you mean `listing`?"),
        ("[[route]]\napp = 'a'\ncache = { ttl = '10s' }", "did you mean `default-age`?"),
        ("[[route]]\nmatch.path = '/a'\nrewrite = '/x${n}y'", "write $${n} for a value of the request"),
        ("[[route]]\nmatch.path = '/a'\nrewrite = '/x${1}'", "write $${1} for a value of the request"),
        ("[[route]]\nredirect = { to = '/x${a b}' }", "write $${NAME} for a value of the request"),
        ("[[route]]\napp = 'a'\ncache = 7", "`cache` is true, false or a table, not a number"),
        ("[[route]]\napp = 'a'\ncompress = 'gzip'", "`compress` is true, false or a table, not a string"),
        ("[[route]]\nmatch.path = '/a'", "the route has no action: app, files, redirect, respond or rewrite"),
        ("[[route]]\napp = 'a'\nauth = { path = '/x' }", "`path` needs app = \"NAME\", the app that is asked"),
        ("[[route]]\napp = 'a'\nauth = { app = 'a', realm = 'x' }", "`realm` needs htpasswd = \"FILE\", and no app"),
        ("[[route]]\npath = '/a'\napp = 'a'", "write match.path = ..."),
        ("[[route]]\nroot = 'a'", "`root` belongs in `files`, not in [[route]] itself"),
        ("[[route]]\nmatch = '/a'\napp = 'a'", "write match = { path = \"/PATH/*\" }"),
        ("[[route]]\nfiles = 'public'", "write files = { root = \"DIR\" }"),
        ("[[route]]\nredirect = 'https://a'", "write redirect = { to = \"URL\" }"),
        ("[[route]]\nrespond = 404", "write respond = { status = 404, content = \"TEXT\" }"),
        ("[app.a]\nfile = 'a'\nenv = { A = 'b' }", "write environment = { NAME = \"VALUE\" } for variables"),
        ("[app.a]\nfile = 'a'\nenvironment = 'A=b'", "write environment = { NAME = \"VALUE\" }"),
        ("[app]\nfile = 'a'", "write [app.NAME]"),
        ("[[app]]\nfile = 'a'", "write [app.NAME]"),
        ("port = 8080", "`port` belongs in a table"),
    ] {
        let found = findings(text);
        assert!(found.contains(advice), "{text}\n{found}");
    }
}

#[test]
fn an_app_without_a_name_is_one_mistake() {
    for header in ["[app]", "[[app]]"] {
        let found = findings(&format!("{header}\nfile = 'a'\nworkers = 2\n[[route]]\napp = 'a'\n"));
        assert_eq!(found.matches("oribi.toml:").count(), found.matches("an app needs a name").count(), "{found}");
    }
}

#[test]
fn advice_is_only_for_those_who_need_it() {
    for text in [
        "[server]\nacces-log = '${NONE}'",
        "[[route]]\nrespond.content = '${NONE}'",
        "[server]\nworkers = 1 2",
        "[server]\nstart = 1:2:3",
        "[server]\npin-key = 12:34",
    ] {
        let found = findings(text);
        assert!(!found.contains("write "), "{text}\n{found}");
    }
}

#[test]
fn excerpts_show_the_keys_of_auth_but_no_secret() {
    let found = findings("[[route]]\napp = 'a'\nauth = { app = 'a', path = 'x', fields = ['X-User'] }");
    assert!(found.contains("\n  auth = { app = 'a', path = 'x', fields = ['X-User'] }\n"), "{found}");
    for value in [
        "{ htpasswd = 'alice:hunter2', weak = 1 }",
        "{ alice = 'hunter2', weak = 1 }",
        "{ users = { alice = 'hunter2' }, weak = 1 }",
        "{ realm = { password = 'hunter2' }, weak = 1 }",
        "[{ alice = 'hunter2' }]",
        "'hunter2'",
        "7, 'hunter2'",
    ] {
        for table in ["[[route]]\napp = 'a'", "[defaults]", "[route]", "[app.a]\nfile = 'a'", "[server]"] {
            let found = findings(&format!("{table}\nauth = {value}"));
            assert!(!found.is_empty() && !found.contains("hunter2"), "{found}");
        }
    }
}
