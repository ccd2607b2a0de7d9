use super::*;
use std::time::Duration;

fn read(text: &str) -> SeedConfiguration {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.lua");
    fs::write(&file, text).expect("written");
    let mut configuration = SeedConfiguration::read(&file);
    let place = format!("{}: ", file.display());
    for note in &mut configuration.notes {
        *note = note.replace(&place, "").replace(&file.display().to_string(), "config.lua");
    }
    configuration
}

fn server<'a>(configuration: &'a SeedConfiguration, name: &str) -> Vec<&'a str> {
    configuration.server.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_str()).collect()
}

#[test]
fn a_file_that_says_nothing_means_the_defaults_of_luafcgid() {
    let configuration = read("");
    assert_eq!(configuration.notes, [""; 0]);
    let expected = [
        ("workers", "1"),
        ("listen", "fcgi://*:9000"),
        ("threads", "3"),
        ("max-body-size", "1048576"),
        ("error-log", "luafcgid.log"),
    ];
    let said: Vec<_> = configuration.server.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(said, expected);
    let lua = &configuration.lua;
    assert_eq!((lua.states, lua.clones, lua.retries, lua.sweep), (5, 3, 2, Duration::from_secs(1)));
    assert!(lua.show_errors && lua.buffering && !configuration.daemonize);
    assert_eq!((lua.handler.as_str(), lua.status.as_str(), lua.content_type.as_str()), ("main", "200 OK", "text/html"));
    assert_eq!(lua.fields, [("X-Powered-By".to_owned(), "Lua".to_owned())]);
    assert_eq!((lua.time_limit, lua.state_requests), (Some(Duration::from_secs(60)), None));
    assert_eq!((lua.package_path.as_ref(), lua.package_cpath.as_ref()), (None, None));
    assert_eq!(lua.source, ScriptSource::Gateway { root: None });
}

#[test]
fn every_key_has_its_meaning() {
    let configuration = read(
        r#"#!/usr/bin/env luafcgid
        local cores = 4
        listen = "/var/tmp/luafcgid.sock"
        backlog = 64
        workers = cores * 2
        states = workers * 2
        clones = states
        sweep = 5000
        retries = 1
        showerrors = false
        if os.getenv("HOME") ~= "nowhere" then buffering = false end
        daemonize = true
        headersize = 0
        bodysize = 0
        headers = "X-Powered-By: Lua\r\nX-Frame-Options: DENY\r\n"
        handler = "handler"
        httpstatus = "202 Accepted"
        contenttype = "text/plain"
        maxpost = 2^20 * 8
        logfile = "/var/log/luafcgid.log"
        watchdog = 0
        maxcount = 1000
        package.path = "/srv/lib/?.lua;" .. package.path
        function my_own() end
        "#,
    );
    assert_eq!(configuration.notes, [""; 0]);
    assert_eq!(server(&configuration, "listen"), ["fcgi+unix:/var/tmp/luafcgid.sock"]);
    assert_eq!(server(&configuration, "backlog"), ["64"]);
    assert_eq!(server(&configuration, "threads"), ["8"]);
    assert_eq!(server(&configuration, "workers"), ["1"]);
    assert_eq!(server(&configuration, "max-body-size"), ["8388608"]);
    assert_eq!(server(&configuration, "error-log"), ["/var/log/luafcgid.log"]);
    let lua = &configuration.lua;
    assert_eq!((lua.states, lua.clones, lua.retries, lua.sweep), (16, 16, 1, Duration::from_secs(5)));
    assert!(!lua.show_errors && !lua.buffering && configuration.daemonize);
    assert_eq!(
        (lua.handler.as_str(), lua.status.as_str(), lua.content_type.as_str()),
        ("handler", "202 Accepted", "text/plain")
    );
    assert_eq!(lua.fields.len(), 2);
    assert_eq!((lua.time_limit, lua.state_requests), (None, Some(1000)));
    assert!(lua.package_path.as_ref().is_some_and(|path| path.starts_with("/srv/lib/?.lua;")));
    assert_eq!(lua.package_cpath, None);
}

#[test]
fn several_addresses_are_a_list() {
    let configuration = read(r#"listen = { ":9000", "http://127.0.0.1:8080" }"#);
    assert_eq!(server(&configuration, "listen"), ["fcgi://*:9000", "http://127.0.0.1:8080"]);
    assert_eq!(server(&read("backlog = -1"), "backlog"), [""; 0]);
}

#[test]
fn a_missing_or_broken_file_leaves_the_defaults_and_a_note() {
    let missing = SeedConfiguration::read(Path::new("/nowhere/config.lua"));
    assert_eq!(missing.notes.len(), 1);
    assert!(missing.notes[0].starts_with("/nowhere/config.lua: cannot read it: No such file"), "{}", missing.notes[0]);
    for (text, part) in [
        ("states = 50\nworkers =", "config.lua:2:"),
        ("states = 50\nerror('no way')", "no way"),
        ("states = 50\nerror({})", "built-in defaults"),
        ("\x1bLua", "built-in defaults"),
    ] {
        let broken = read(text);
        assert_eq!(broken.notes.len(), 1, "{text}: {:?}", broken.notes);
        assert!(broken.notes[0].contains(part) && !broken.notes[0].contains('\n'), "{text}: {}", broken.notes[0]);
        assert_eq!(broken.lua.states, 5, "{text}");
        assert_eq!(server(&broken, "listen"), ["fcgi://*:9000"]);
    }
}

#[test]
fn what_does_not_fit_is_named_and_the_default_used() {
    let configuration = read(
        r#"states = 0
        clones = "many"
        workers = 2.5
        buffering = "yes"
        headers = "no colon"
        httpstatus = "fine"
        listen = {}
        maxpost = -1
        sates = 10
        "#,
    );
    let expected = [
        "bad value (table) for listen: expected",
        "bad value 2.5 for workers: expected a whole number from 1 on",
        "bad value 0 for states: expected a whole number from 1 on",
        "bad value \"many\" for clones: expected",
        "bad value \"yes\" for buffering: expected true or false",
        "bad value \"no colon\" for headers: expected lines",
        "bad value \"fine\" for httpstatus: expected a status",
        "bad value -1 for maxpost: expected",
        "the name sates means nothing here",
    ];
    assert_eq!(configuration.notes.len(), expected.len(), "{:?}", configuration.notes);
    for (note, part) in configuration.notes.iter().zip(expected) {
        assert!(note.contains(part), "{note}: {part}");
    }
    assert_eq!((configuration.lua.states, configuration.lua.clones), (5, 3));
    assert_eq!(server(&configuration, "threads"), ["3"]);
}

#[test]
fn numbers_in_texts_are_numbers() {
    let configuration = read(r#"states = "40"; workers = "8""#);
    assert_eq!((configuration.lua.states, server(&configuration, "threads")), (40, vec!["8"]));
}

#[test]
fn scripts_can_ask_for_every_simple_value() {
    let configuration = read(r#"states = 7; database = "shop"; debug_mode = true; hooks = {}"#);
    let value = |name: &str| configuration.lua.configuration.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    assert_eq!(value("states"), Some(&ConfigValue::Integer(7)));
    assert_eq!(value("workers"), Some(&ConfigValue::Integer(3)));
    assert_eq!(value("database"), Some(&ConfigValue::Text(b"shop".to_vec())));
    assert_eq!(value("debug_mode"), Some(&ConfigValue::Boolean(true)));
    assert_eq!(value("hooks"), None);
}

#[test]
fn hooks_are_taken_from_the_file_and_a_broken_one_is_not_left_out() {
    let configuration = read("local n = 0; hooks = { load = function() end, startup = function() n = n + 1 end }");
    assert_eq!(configuration.notes, [""; 0]);
    assert!(configuration.lua.hooks.load.is_some());
    let hooks = configuration.hooks.expect("hooks");
    assert!(hooks.process.startup.is_some() && hooks.process.shutdown.is_none());
    for (text, part) in [
        ("hooks = 7", "must be a table"),
        ("local n = 0; hooks = { load = function() return n end }", "the local variable n"),
        ("hooks = 'none.lua'", "none.lua: cannot read it"),
    ] {
        let why = read(text).hooks.expect_err(text);
        assert!(why.contains(part), "{why}");
    }
}
