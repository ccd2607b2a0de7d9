//! The meaning of a file without mistakes, and what each rule accepts and rejects.

use oribi_config::Config;
use oribi_config_file::{Action, ConfigFile, Item, Reading, Severity, parse, read_with};
use std::path::Path;

fn environment(name: &str) -> Option<String> {
    match name {
        "SECRET" => Some("swordfish".to_owned()),
        "PORT" => Some("8081".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

/// Reads a text as `oribi.toml`.
fn read(text: &str) -> Result<Reading, oribi_config_file::Findings> {
    parse(&[("oribi.toml", text.as_bytes())], &environment)
}

fn config(text: &str) -> ConfigFile {
    read(text).unwrap_or_else(|findings| panic!("{text}\n{findings}")).config
}

/// The findings about a text: places and messages.
fn findings(text: &str) -> Vec<String> {
    let findings = read(text).map_or_else(|findings| findings, |reading| reading.warnings);
    let line = |finding: &oribi_config_file::Finding| {
        let warning = if finding.severity == Severity::Warning { "warning: " } else { "" };
        format!("{}:{} {warning}{}", finding.place.line, finding.place.column, finding.message)
    };
    findings.list.iter().map(line).collect()
}

/// The first finding about a text, which has a mistake.
fn mistake(text: &str) -> String {
    assert!(read(text).is_err(), "{text} has a mistake");
    findings(text).swap_remove(0)
}

/// Options as `name=value`.
fn pairs<'i>(items: impl IntoIterator<Item = &'i Item>) -> Vec<String> {
    let pairs = |item: &'i Item| item.values.iter().map(move |value| format!("{}={value}", item.name));
    items.into_iter().flat_map(pairs).collect()
}

#[test]
fn a_whole_file_is_read_with_the_files_that_it_includes() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    write("oribi.toml", include_str!("golden/full.toml"));
    write("apps/b.toml", "[app.second]\nfile = \"b/config.ru\"\n[[route]]\nmatch.host = \"b\"\napp = \"second\"\n");
    write("apps/a.toml", "[app.first]\nfile = \"/srv/a.lua\"\n[[route]]\nmatch.host = \"a\"\napp = \"first\"\n");
    write("more.toml", "");
    let path = folder.path().join("oribi.toml");
    let Reading { config, warnings } = read_with(&path, &environment).unwrap_or_else(|findings| panic!("{findings}"));

    assert_eq!(
        pairs(&config.server),
        [
            "edges=2",
            "access-log=/var/log/oribi/access.log",
            "request-timeout=20",
            "max-body-size=1m",
            "umask=022",
            "ssl-ciphers=ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256",
            "trusted-proxies=10.0.0.0/8",
            "trusted-proxies=unix",
            "keepalive=on",
            "trace-sample=0.5",
        ]
    );
    assert_eq!(
        pairs(config.listens.iter().map(|listen| &listen.address)),
        [
            "listen=:8080",
            "listen=https://[::1]:8443?cert=/etc/a%26b.pem&cert=/etc/c.pem&min_version=1.3&proxy_protocol=on",
            "listen=fcgi+unix:/run/shop.sock?mode=660",
        ]
    );
    let names: Vec<&str> = config.apps.iter().map(|app| app.name.as_str()).collect();
    assert_eq!(names, ["shop", "first", "second"]);
    let files: Vec<_> = config.apps.iter().filter_map(|app| Some(app.file.as_ref()?.path.clone())).collect();
    let expected = [folder.path().join("shop/app.psgi"), "/srv/a.lua".into(), folder.path().join("apps/b/config.ru")];
    assert_eq!(files, expected);
    assert!(config.apps.iter().all(|app| app.is_sound && app.faulty.is_empty()));
    let shop = &config.apps[0];
    assert_eq!(shop.directory.as_ref().map(|directory| directory.path.clone()), Some(folder.path().join("shop")));
    assert_eq!(shop.language.as_ref().map(|text| text.value.as_str()), Some("perl"));
    assert_eq!(pairs(&shop.environment), ["PLACK_ENV=production", "SECRET=swordfish", "DEBUG=on", "LEVEL=3"]);
    assert_eq!(shop.place.to_string(), format!("{}:28:6", path.display()));
    assert_eq!(config.apps[1].place.to_string(), format!("{}/apps/a.toml:1:6", folder.path().display()));
    assert!(!format!("{config:?}").contains("swordfish"), "{config:?}");

    let [api, old, gone, rest, first, second] = &config.routes[..] else { panic!("{:?}", config.routes) };
    let conditions = &api.conditions;
    let texts = |patterns: &[oribi_config_file::Pattern]| -> Vec<String> {
        let text = |pattern: &oribi_config_file::Pattern| {
            format!("{}{}", if pattern.negated { "not " } else { "" }, pattern.text.value)
        };
        patterns.iter().map(text).collect()
    };
    assert_eq!(texts(&conditions.host), ["example.com", "*.example.org"]);
    assert_eq!(texts(&conditions.path), ["/api/*", "not /api/private/*"]);
    assert_eq!((conditions.field[0].0.as_str(), texts(&conditions.field[0].1)), ("X-A", vec!["b".to_owned()]));
    assert_eq!((conditions.query[0].0.as_str(), texts(&conditions.query[0].1)), ("v", vec!["1".to_owned()]));
    let short = [&conditions.method, &conditions.source, &conditions.destination, &conditions.scheme];
    let short = short.map(|patterns| texts(patterns).concat());
    assert_eq!(short, ["GET", "10.0.0.0/8", "*:443", "https"]);
    assert_eq!(api.name.as_ref().map(|name| name.value.as_str()), Some("api"));
    assert!(matches!(&api.action, Action::App { name, mount: Some(mount) } if name.value == "shop" && mount.value == "/api"));
    assert!(matches!(&old.action, Action::Redirect { to, status: 301 } if to.value == "https://example.com/new"));
    let Action::Respond { status: 404, content: Some(content), content_type: Some(media) } = &gone.action else {
        panic!("{gone:?}");
    };
    assert_eq!((content.value.as_str(), media.value.as_str()), ("not here\n", "text/plain"));
    let Action::Files { root, candidates, fallback: Some(fallback), index: Some(index), listing: None, types } = &rest.action
    else {
        panic!("{rest:?}")
    };
    assert_eq!(candidates.iter().map(|text| text.value.as_str()).collect::<Vec<_>>(), ["$uri", "$uri.html", "/index.html"]);
    assert_eq!(*root, folder.path().join("public"));
    assert!(types.admit("text/css; charset=utf-8") && !types.admit("application/pdf"));
    assert!(matches!(&**fallback, Action::App { name, mount: None } if name.value == "shop"));
    assert_eq!(pairs([index]), ["index=index.html,index.htm"]);
    for (route, app) in [(first, "first"), (second, "second")] {
        assert!(matches!(&route.action, Action::App { name, mount: None } if name.value == app));
    }
    // `files` takes all requests, so that the routes of the included files get none.
    let warned: Vec<String> = warnings.list.iter().map(|finding| finding.place.to_string()).collect();
    assert_eq!(warned, ["a", "b"].map(|name| format!("{}/apps/{name}.toml:3:1", folder.path().display())));
}

#[test]
fn the_options_of_an_app_override_those_of_the_server() {
    let config = config(
        "[server]\nedges = 2\nharakiri = 20\nworkers = 3\ntls-cert = '/c'\nsendfile-root = '/a'\n\
         [app.shop]\nfile = 'a'\nrequest-timeout = 30\nsendfile-root = ['/b', '/c']\n",
    );
    assert_eq!(pairs(config.options_of_server()), ["edges=2", "tls-cert=/c"]);
    let options = pairs(config.options_of(&config.apps[0]));
    assert_eq!(options, ["workers=3", "request-timeout=30", "sendfile-root=/b", "sendfile-root=/c"]);

    let mut collected = Config::with(|_| None, 1);
    for item in config.options_of(&config.apps[0]) {
        for value in &item.values {
            collected.set(&item.name, value, item.place.origin()).expect("the value was checked");
        }
    }
    let resolved = collected.resolve();
    // The folders need not exist to be read here.
    assert!(resolved.is_err_and(|error| error.to_string().contains("there is no such directory")));
}

#[test]
fn check_shows_the_line_of_an_option() {
    let config = config("[server]\n\nbacklog = 7\n");
    let mut collected = Config::with(|_| None, 1);
    let item = &config.server[0];
    collected.set(&item.name, &item.values[0], item.place.origin()).expect("it fits");
    let resolved = collected.resolve().expect("it fits");
    let (_, line) = resolved.explain().find(|(_, line)| line.name == "backlog").expect("it is there");
    assert_eq!((line.value.as_str(), line.origin.to_string().as_str()), ("7", "file oribi.toml:3"));
}

#[test]
fn an_option_stands_in_the_tables_of_its_scope_only() {
    for setting in oribi_config::table() {
        let in_table = |table: &str| {
            let text = format!("{table}\n{} = []\n", setting.name);
            // An empty array is a list without values, or a mistake of its own: the place is allowed, at any rate.
            !findings(&text).iter().any(|finding| finding.contains("belongs in"))
        };
        let (server, listen, app) = (in_table("[server]"), in_table("[[listen]]"), in_table("[app.a]"));
        let expected = match setting.scope {
            oribi_config::Scope::Server => (true, false, false),
            oribi_config::Scope::Listener => (true, true, false),
            oribi_config::Scope::App => (true, false, true),
        };
        assert_eq!((server, listen, app), expected, "{}", setting.name);
    }
    assert_eq!(mistake("[app.shop]\nfile = 'a'\nedges = 2\n"), "3:1 `edges` belongs in [server], not in [app.shop]");
    assert_eq!(
        mistake("[[listen]]\naddress = ':1'\nworkers = 2\n"),
        "3:1 `workers` belongs in [app.NAME] or [server], not in [[listen]]"
    );
}

#[test]
fn every_option_has_its_aliases_and_its_values() {
    for (line, expected) in [
        ("max_reqs_per_child = 5", "max_reqs_per_child=5"),
        ("disable-keepalive = false", "disable-keepalive=off"),
        ("socket-mode = '660'", "socket-mode=660"),
        ("socket-mode = 0o660", "socket-mode=660"),
        ("backlog = 0x10", "backlog=16"),
        ("backlog = 1_000", "backlog=1000"),
        ("keepalive-timeout = 1.5", "keepalive-timeout=1.5"),
        ("histogram-buckets = ['1ms', '1s']", "histogram-buckets=1ms,1s"),
        ("listen = ':80'", "listen=:80"),
        ("index = []", "index="),
    ] {
        let text = format!("[server]\n{line}\n");
        match expected {
            "index=" => assert!(mistake(&text).contains("expected names of files"), "{text}"),
            expected => assert_eq!(pairs(&config(&text).server), [expected], "{text}"),
        }
    }
    for (line, expected) in [
        ("backlog = 1979-05-27", "`backlog` is text, a number or a boolean, not a date or time"),
        ("backlog = { a = 1 }", "`backlog` is text, a number or a boolean, not a table"),
        ("listen = [[':80']]", "`listen` is text, a number, or an array of them, not an array"),
        ("index = ['a', {}]", "`index` is text, a number, or an array of them, not a table"),
        ("backlog = [1, 2]", "`backlog` has one value, not an array"),
        ("backlog = -1", "bad value `-1` for backlog: expected a whole number"),
        ("backlog = 999999999999999999999999999999999999999999", "bad value `9999"),
        ("backlog = inf", "bad value `inf` for backlog: expected a whole number"),
        ("workers = true", "bad value `true` for workers: expected a whole number"),
        ("max-workers = 2\nworkers = 3", "`workers` sets the same option as `max-workers` at oribi.toml:2:1"),
        (
            "keepalive = true\ndisable-keepalive = true",
            "`disable-keepalive` sets the same option as `keepalive` at oribi.toml:2:1",
        ),
    ] {
        let found = mistake(&format!("[server]\n{line}\n"));
        assert!(found.contains(expected), "{line}: {found}");
    }
    let (first, second) = ("[server]\nhost = '::1'\n", "[[listen]]\naddress = ':1'\n");
    assert_eq!(
        mistake(&format!("{first}{second}")),
        "2:1 `host` would have no effect beside [[listen]]: write it in an address"
    );
    assert_eq!(pairs(&config(first).server), ["host=::1"]);
}

#[test]
fn the_options_of_an_address_become_a_part_of_it() {
    for (lines, expected) in [
        ("address = '5000'", "5000"),
        ("address = ' :5000 '", ":5000"),
        ("address = ':${PORT}'", ":8081"),
        ("address = '5000'\nssl = true", "https://*:5000"),
        ("address = 'a.b:443:ssl'\nproxy_protocol = 'v2'", "https://a.b:443?proxy_protocol=v2"),
        ("address = ':443'\nssl = 'auto'\nssl-key = '/k'\nssl-cert = '/c'", "https://*:443?cert=/c&key=/k"),
        (
            "address = 'https://:1?cert=/a'\nssl-ca = '/b'\nssl-verify = 'optional'",
            "https://*:1?cert=/a&ca=/b&verify_mode=optional",
        ),
        ("address = ':80'\nssl = false", "http://*:80"),
        ("address = ':80'\nprotocol = 'http'", "http://*:80"),
        ("address = ':9000'\nprotocol = 'fastcgi'", "fcgi://*:9000"),
        ("address = 'fcgi://:9000'\nprotocol = 'fastcgi'", "fcgi://*:9000"),
        ("address = 'x.sock:mode=600'\nprotocol = 'http'", "http+unix:x.sock?mode=600"),
        ("address = '/x?mode=600&proxy_protocol=v1'\nprotocol = 'http'", "http+unix:/x?mode=600&proxy_protocol=v1"),
        ("address = '/x?proxy_protocol=v1'\nchmod-socket = 0o600", "unix:/x?mode=600&proxy_protocol=v1"),
    ] {
        let config = config(&format!("[[listen]]\n{lines}\n"));
        let address = &config.listens[0].address;
        assert_eq!(pairs([address]), [format!("listen={expected}")], "{lines}");
        Config::with(|_| None, 1).set("listen", expected, address.place.origin()).expect(expected);
    }
    for (lines, expected) in [
        ("ssl = true", "1:1 [[listen]] needs an address"),
        ("address = 80", "2:11 `address` is a string, not a number"),
        ("address = 'http://:80'\nssl-cert = '/c'", "3:1 `ssl-cert` contradicts http:// in the address"),
        ("address = 'https://:80'\nssl = false", "3:1 `ssl` contradicts the address"),
        ("address = ':80'\nssl = false\nssl-cert = '/c'", "3:1 `ssl` contradicts the address or the other options"),
        ("address = 'fcgi://:80'\nssl = true", "3:1 `ssl` needs HTTP"),
        ("address = 'fcgi://:80'\nprotocol = 'http'", "3:1 `protocol` contradicts the scheme"),
        ("address = ':80'\nsocket-mode = 600", "3:1 `socket-mode` needs the path of a Unix socket"),
        ("address = '/x?mode=600'\nsocket-mode = 600", "3:1 `socket-mode` is already in the address"),
        ("address = '/x'\nssl = true", "3:1 `ssl` needs a TCP address"),
        ("address = 'https://:1?ca=a'\nssl-ca = 'b'", "expected ca= only once"),
        ("address = ':80'\nssl-key = '/k'", "expected ?cert=FILE&key=FILE"),
        ("address = ':80'\nssl-verify-client = 'perhaps'", "3:21 bad value `perhaps` for ssl-verify-client"),
    ] {
        let found = mistake(&format!("[[listen]]\n{lines}\n"));
        assert!(found.contains(expected), "{lines}: {found}");
    }
    let twice =
        |first: &str, second: &str| findings(&format!("[[listen]]\naddress = '{first}'\n[[listen]]\naddress = '{second}'\n"));
    assert_eq!(twice(":80", "https://*:80"), ["4:11 the same address is already at oribi.toml:2:11"]);
    assert_eq!(twice("/a", "unix:/a?mode=600").len(), 1);
    assert_eq!(twice(":80", "127.0.0.1:80"), [""; 0]);
    assert_eq!(twice(":0", ":0"), [""; 0]);
    assert_eq!(config("").listens, []);
}

#[test]
fn variables_are_replaced_and_never_quoted() {
    let app = |rest: &str| format!("[app.a]\nfile = 'a${{EMPTY}}'\n{rest}\n");
    let environment = |value: &str| pairs(&config(&app(&format!("environment.X = '{value}'"))).apps[0].environment);
    for (value, expected) in
        [("${SECRET}!", "swordfish!"), ("$${SECRET}", "${SECRET}"), ("${NONE:-x}", "x"), ("${EMPTY:-x}", "x"), ("a$b", "a$b")]
    {
        assert_eq!(environment(value), [format!("X={expected}")], "{value}");
    }
    assert_eq!(
        findings(&app("environment.X = \"a ${NONE} ${SECRET} ${ALSO_NONE}\"")),
        ["3:20 the environment variable NONE is not set", "3:38 the environment variable ALSO_NONE is not set"]
    );
    // An escape hides the place inside of the string, and the string itself is the place.
    assert_eq!(mistake(&app("environment.X = \"\\u0024{NONE}\"")), "3:17 the environment variable NONE is not set");
    for (text, part) in [
        ("[server]\nbacklog = '${SECRET}'", "2:11 bad value from the environment for backlog: expected a whole number"),
        ("[server]\ntrusted-proxies = '10.0.0.0/${SECRET}'", "2:19 bad value from the environment for trusted-proxies: see `"),
        ("[server]\nindex = ['a/', '${SECRET}']", "bad value from the environment for index: expected names of files"),
        ("[[listen]]\naddress = 'https://:1?${SECRET}=1'", "bad value from the environment for listen: see `"),
        ("[[route]]\napp = '${SECRET}'", "2:7 there is no app `***`"),
        ("[[route]]\nmatch.scheme = '${SECRET}'\nrespond = {}", "bad value `***` for scheme"),
        ("[[route]]\nredirect.to = '${SECRET}'", "bad value `***` for to"),
        ("[[route]]\napp = 'a'\nmount = '${SECRET}'", "bad value `***` for mount"),
        ("[[route]]\nrespond.type = '${SECRET}'", "bad value `***` for type"),
        ("include = '${SECRET}**'", "bad value `***` for include"),
        ("[app.a]\nfile = 'a'\nlanguage = '${SECRET} x'", "bad value `***` for language"),
    ] {
        let all = read(text).expect_err("a mistake");
        assert!(!all.to_string().contains("swordfish"), "{all}");
        assert!(findings(text).iter().any(|line| line.contains(part)), "{text}: {all}");
    }
}

#[test]
fn only_mistakes_of_the_syntax_outside_of_values_hide_others_of_their_file() {
    let files: [(&str, &[u8]); 4] = [
        (
            "oribi.toml",
            b"[server]\nedges = 2\nedges = many\n[app.a]\npassword = \"hunter2\nwrong = 1\n[[route]]\napp = 'nobody'\n",
        ),
        ("a.toml", b"[app.b]\nfil = 'x'\n"),
        ("b.toml", b"[app.c\nfil = 'x'\n"),
        ("c.toml", b"[app.c]\nfile = '\xff'\n"),
    ];
    let findings = parse(&files, &environment).expect_err("mistakes");
    let places: Vec<String> = findings.list.iter().map(|finding| format!("{} {}", finding.place, finding.message)).collect();
    assert!(places.iter().any(|line| line.starts_with("oribi.toml:3:9 TOML: ")), "{places:?}");
    assert!(places.iter().any(|line| line.starts_with("oribi.toml:5:") && line.contains("TOML: ")), "{places:?}");
    assert!(places.contains(&"a.toml:2:1 unknown option `fil` in [app.b]".to_owned()), "{places:?}");
    assert_eq!(places.last().map(String::as_str), Some("c.toml:2:9 a byte that is not UTF-8"));
    assert!(places.contains(&"oribi.toml:6:1 unknown option `wrong` in [app.a]".to_owned()), "{places:?}");
    let mut of_header = places.iter().filter(|line| line.starts_with("b.toml"));
    assert!(of_header.all(|line| line.starts_with("b.toml:1:") && line.contains("TOML: ")), "{places:?}");
    // It may be an app of the files that cannot be read.
    assert!(!findings.to_string().contains("nobody"), "{findings}");
    assert!(!findings.to_string().contains("hunter2"), "{findings}");
}

#[test]
fn included_files_have_apps_and_routes_and_include_no_others() {
    let main = "[app.a]\nfile = 'a'\n[[route]]\napp = 'b'\n";
    let part = "include = 'x'\n[server]\nedges = 1\n[[listen]]\n[app.a]\nfile = 'a'\n[app.b]\nfile = 'b'\n";
    let findings = parse(&[("oribi.toml", main.as_bytes()), ("b.toml", part.as_bytes())], &environment).expect_err("mistakes");
    let lines: Vec<String> = findings.list.iter().map(|finding| format!("{} {}", finding.place, finding.message)).collect();
    let only = "an included file has [app.NAME] and [[route]] only";
    assert_eq!(
        lines,
        [
            "oribi.toml:1:6 no route leads to app `a`: it gets no requests".to_owned(),
            "b.toml:1:1 an included file may not include others: `include` belongs in oribi.toml".to_owned(),
            format!("b.toml:2:2 `server` belongs in oribi.toml; {only}"),
            format!("b.toml:4:3 `listen` belongs in oribi.toml; {only}"),
            "b.toml:5:6 app `a` is already at oribi.toml:1:6".to_owned(),
            "b.toml:5:6 no route leads to app `a`: it gets no requests".to_owned(),
        ]
    );
}

#[test]
fn includes_are_read_once_and_never_the_file_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("oribi.toml");
    let read = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        let findings = read_with(&path, &environment).map_or_else(|findings| findings, |reading| reading.warnings);
        let line = |finding: &oribi_config_file::Finding| format!("{} {}", finding.place.line, finding.message);
        findings.list.iter().map(line).collect::<Vec<_>>()
    };
    std::fs::write(folder.path().join("a.txt"), "[app.a]\nfile = 'a'\n").expect("a file");
    assert_eq!(read("include = ['a.txt', 'a.*', './a.txt']"), [""; 0]);
    assert_eq!(read("include = ['*.toml']"), ["1 the file includes itself"]);
    assert_eq!(read("include = 'nowhere/*.toml'"), ["1 `nowhere/*.toml` names no file"]);
    assert_eq!(read("include = ['b.toml']"), ["1 `b.toml` names no file"]);
    assert_eq!(read("include = ['**/a', '', 7]").len(), 3);
    assert_eq!(read("include = [\"\\u0000\"]").len(), 1);
    let missing = read_with(Path::new("/nowhere/oribi.toml"), &environment).expect_err("a mistake").to_string();
    assert_eq!(missing, "/nowhere/oribi.toml: cannot read the file: No such file or directory (os error 2)\n");
}

#[test]
fn an_app_has_a_name_and_a_file() {
    for name in ["a", "A-1_b.c", &"x".repeat(64)] {
        assert_eq!(config(&format!("[app.\"{name}\"]\nfile = 'a'\n")).apps[0].name, name);
    }
    for name in ["", "a b", "a/b", "\u{e9}", &"x".repeat(65)] {
        assert!(mistake(&format!("[app.\"{name}\"]\nfile = 'a'\n")).contains("for an app: expected letters"), "{name}");
    }
    for (lines, expected) in [
        ("", "1:6 app `a` has no file: add file = \"PATH\", or proxy = \"URL\""),
        ("file = ''", "2:8 `file` is the path of a file or folder"),
        ("file = \"a\\u0000\"", "2:8 `file` is the path of a file or folder"),
        ("file = 'a'\nlanguage = 'a b'", "3:12 bad value `a b` for language"),
        ("file = 'a'\nenvironment = 'A=1'", "3:15 `environment` is a table, not a string"),
        ("file = 'a'\nenvironment = { 'A=B' = '1' }", "3:17 bad name `A=B` for a variable"),
        ("file = 'a'\nenvironment = { A = \"\\u0000\" }", "3:21 the variable `A` contains a zero byte"),
        ("file = 'a'\naddress = ':80'", "3:1 `address` belongs in [[listen]], not in [app.a]"),
        ("fil = 'a'", "2:1 unknown option `fil` in [app.a]"),
    ] {
        let found = findings(&format!("[app.a]\n{lines}\n"));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{lines}: {found:?}");
    }
    assert_eq!(mistake("app = 5"), "1:7 an app needs a name");
    assert_eq!(mistake("[app]\na = 5"), "2:5 `a` is a table, not a number");
}

#[test]
fn a_route_has_one_action_and_conditions() {
    for lines in [
        "respond = {}",
        "respond = { status = 204 }",
        "redirect = { to = '/new' }",
        "redirect = { to = '$uri?$args' }",
        "rewrite = '/new$uri'\nrespond = {}",
        "match.path = '~^/(?P<id>[0-9]+)'\nrewrite = '/$1$${id}'\nrespond = {}",
        "match.path = '/a'\nrewrite = '/new?a=$args'",
        "files.root = 'x'",
        "files = { root = 'x', listing = true }",
        "files = { root = 'x', types = ['image/*', '!image/gif', 'TEXT/css'] }",
        "files = { root = 'x', fallback = { respond = { status = 410 } } }",
        "files = { root = 'x', fallback = { files = { root = 'y', fallback = { redirect.to = '/' } } } }",
        "match = { path = '*', host = ['[::1]', '!*.a'], source = ['10.0.0.0/8', '::/0', '!10.1.1.1'] }\nrespond = {}",
        "match.destination = ['[::1]:80', '!*:443', '10.0.0.0/8:8000-8099', 'unix']\nrespond = {}",
        "match.method = ['M-SEARCH', '!GET']\nrespond = {}",
        "match = { field = { 'X-A' = ['a', '!b'], y = 1.5 }, query = { 'a b' = '1' } }\nrespond = {}",
    ] {
        config(&format!("[[route]]\n{lines}\n"));
    }
    let redirect = config("[[route]]\nredirect = { to = '/new' }\n");
    assert!(matches!(redirect.routes[0].action, Action::Redirect { status: 302, .. }));
    let respond = config("[[route]]\nrespond = {}\n");
    assert!(matches!(respond.routes[0].action, Action::Respond { status: 200, content: None, content_type: None }));
    for (lines, expected) in [
        ("", "1:1 the route has no action"),
        ("respond = {}\nfiles = { root = 'x' }", "3:1 a route has one action, and `respond` is already at oribi.toml:2:1"),
        ("respond = {}\nmount = '/x'", "3:1 `mount` is for a route with `app`"),
        ("respond = {}\nname = \"a\\nb\"", "3:8 `name` is a text of one line"),
        ("respond = {}\nmatch = 5", "3:9 `match` is a table, not a number"),
        ("respond = {}\nmatch.path = 'a'", "3:14 bad value `a` for path"),
        ("respond = {}\nmatch.path = '/a?b'", "3:14 bad value `/a?b` for path"),
        ("respond = {}\nmatch.path = true", "3:14 `path` is a string or an array of strings, not a boolean"),
        ("respond = {}\nmatch.path = []", "3:14 `path` has no pattern"),
        ("respond = {}\nmatch.path = ['/a', '!b']", "3:21 bad value `b` for path"),
        ("respond = {}\nmatch.method = 'G T'", "3:16 bad value `G T` for method"),
        ("respond = {}\nmatch.scheme = 'htps'", "3:16 bad value `htps` for scheme: expected http or https"),
        ("respond = {}\nmatch.source = 'localhost'", "3:16 bad value `localhost` for source"),
        ("respond = {}\nmatch.destination = ':0'", "3:21 bad value `:0` for destination: expected an address or a network"),
        ("files = { root = 'x', types = 'text' }", "2:31 bad value `text` for types: expected a media type"),
        ("files = { root = 'x', types = [] }", "2:31 `types` has no pattern"),
        ("respond = {}\nmatch.field = { 'a b' = 'c' }", "3:17 bad name `a b` for a field"),
        ("respond = {}\nmatch.field = { Cookie = \"hunter2\\n\" }", "3:26 bad value `***` for Cookie"),
        ("respond = {}\nmatch.query = { '' = 'c' }", "3:17 bad name `` for a parameter"),
        ("respond.status = 199", "2:18 `status` is a status code from 200 to 599"),
        ("respond.status = '200'", "2:18 `status` is a number, not a string"),
        ("respond.type = 'text'", "2:16 bad value `text` for type"),
        ("respond = { status = 304, content = '' }", "2:27 a response with 304 has no content"),
        ("rewrite = 'new'\nrespond = {}", "2:11 bad value `new` for rewrite: expected a path"),
        ("rewrite = '/a#b'\nrespond = {}", "2:11 bad value `/a#b` for rewrite"),
        ("rewrite = '/$nope'\nrespond = {}", "2:11 bad variable `$nope` for rewrite: unknown variable; there are $uri"),
        ("rewrite = '/$1'\nrespond = {}", "2:11 bad variable `$1` for rewrite: no regular expression"),
        ("match.path = '!~(a)'\nrewrite = '/$1'\nrespond = {}", "3:11 bad variable `$1`"),
        ("rewrite = '/x'", "2:1 a route with `rewrite` and no action needs `match`"),
        ("match.path = '/a'\nrewrite = '/x'\nlimit = { open = 1 }", "4:1 `limit` is for a route with an action"),
        ("match.path = '/a'\nrewrite = '/x'\nmount = '/a'", "4:1 `mount` is for a route with `app`"),
        ("files = { root = 'x', fallback = {} }", "2:23 `fallback` has one action: app, files, redirect or respond"),
        ("files = { root = 'x', fallback = { respnd = {} } }", "2:36 unknown key `respnd` in fallback"),
        ("redirect = {}", "2:1 `redirect` needs to = \"URL\""),
        ("redirect = { to = 'https:///x' }", "2:19 bad value `https:///x` for to"),
        ("redirect = { to = '/x', status = 300 }", "2:34 `status` is 301, 302, 303, 307 or 308"),
        ("redirect = { to = '/x', code = 301 }", "2:25 unknown key `code` in redirect"),
        ("files = {}", "2:1 `files` needs root = \"DIR\""),
        ("files = { root = 'x', index = 'a/b' }", "2:31 bad value `a/b` for index"),
        ("app = 'nobody'", "2:7 there is no app `nobody`"),
        ("files = { root = 'x', fallback = 'nobody' }", "2:34 there is no app `nobody`"),
        ("respond = {}\nmacth = {}", "3:1 unknown key `macth` in [[route]]"),
    ] {
        let found = findings(&format!("[[route]]\n{lines}\n"));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{lines}: {found:?}");
        assert!(read(&format!("[[route]]\n{lines}\n")).is_err(), "{lines}");
    }
    assert_eq!(mistake("[route]\nrespond = {}\n"), "1:1 `route` is an array of tables: [[route]], not a table");
    for mount in ["api", "/", "/api/", "/a?b", "/a b"] {
        let found = findings(&format!("[app.a]\nfile = 'a'\n[[route]]\napp = 'a'\nmount = '{mount}'\n"));
        assert!(found[0].contains("for mount: expected a path"), "{mount}: {found:?}");
    }
}

#[test]
fn routes_without_requests_and_apps_without_routes_are_warned_about() {
    let two = "[app.a]\nfile = 'a'\n[app.b]\nfile = 'b'\n";
    let one = "[app.a]\nfile = 'a'\n[[route]]\nmatch.path = '/x'\nrespond = {}\n";
    for (text, expected) in [
        (one.to_owned(), vec![]),
        (two.to_owned(), vec!["1:6 warning: no route leads to app `a`", "3:6 warning: no route leads to app `b`"]),
        (format!("{two}[[route]]\nfiles = {{ root = 'x', fallback = 'a' }}\n"), vec!["3:6 warning: no route leads to app `b`"]),
    ] {
        let found = findings(&text);
        let fits = found.len() == expected.len() && found.iter().zip(&expected).all(|(found, start)| found.starts_with(start));
        assert!(fits && read(&text).is_ok(), "{text}: {found:?}");
    }
    let last = "[[route]]\nmatch.path = '/x'\nrespond = {}\n";
    for (all, unreachable) in [
        ("respond = {}", true),
        ("match = {}\nrespond = {}", true),
        ("match.path = '/*'\nrespond = {}", true),
        ("match = { path = ['/a', '*'], host = '*' }\nrespond = {}", true),
        ("match.path = ['/*', '!/a']\nrespond = {}", false),
        ("match.path = '!/a'\nrespond = {}", false),
        ("match = { path = '/*', method = 'GET' }\nrespond = {}", false),
        ("match.field.a = '*'\nrespond = {}", false),
        ("match.host = 'a'\nrespond = {}", false),
    ] {
        let found = findings(&format!("[[route]]\n{all}\n{last}"));
        let warned =
            found.iter().any(|line| line.contains("warning: no request gets to this route: the one at oribi.toml:1:1"));
        assert_eq!((warned, found.len()), (unreachable, usize::from(unreachable)), "{all}: {found:?}");
    }
}

#[test]
fn a_file_has_bounds() {
    let megabyte = "#".repeat(1 << 20);
    assert!(read(&megabyte).is_ok());
    assert_eq!(mistake(&format!("{megabyte}#")), "0:0 the file has more than 1048576 bytes: split it by `include`");
    let apps = |number: usize| -> String { (0..number).map(|number| format!("app.a{number}.file='a'\n")).collect() };
    assert!(read(&apps(1000)).is_ok());
    assert_eq!(mistake(&apps(1001)), "1:5 warning: no route leads to app `a0`: it gets no requests");
    assert!(read(&apps(1001)).is_err());
    let routes = |number: usize| "[[route]]\nmatch.path='/'\nrespond={}\n".repeat(number);
    assert!(read(&routes(4096)).is_ok());
    assert_eq!(mistake(&routes(4097)), "12289:1 more than 4096 routes");
    let deep = format!("a = {}{}", "[".repeat(200_000), "]".repeat(200_000));
    assert!(read(&deep).is_err());
    let many: String = (0..3000).map(|number| format!("x{number} = 1\n")).collect();
    let findings = read(&many).expect_err("mistakes");
    assert_eq!((findings.list.len(), findings.more), (1000, 2000));
    assert!(findings.to_string().ends_with("2000 more mistakes and warnings are not listed\n"));
}

#[test]
fn a_route_has_the_filters_of_defaults_unless_it_has_its_own() {
    let text = "[app.a]\nfile = 'a'\n[defaults]\ncors = { origins = '*' }\nresponse-fields = { set = { A = 'b' } }\n";
    let routes = "[[route]]\nmatch.path = '/x'\napp = 'a'\n[[route]]\napp = 'a'\ncors = false\nresponse-fields = {}\n";
    let merged = config(&format!("{text}{routes}"));
    let [first, second] = &merged.routes[..] else { panic!("two routes") };
    assert!(first.filters == merged.defaults && matches!(first.filters.cors, Some(Some(_))));
    assert_eq!(second.filters.cors, Some(None));
    assert!(second.filters.response_fields.as_ref().is_some_and(oribi_filter::ResponseFields::is_empty));
    let secret = format!("{text}[[route]]\napp = 'a'\nrequest-fields = {{ set = {{ X = '${{SECRET}}' }} }}\n");
    assert!(!format!("{:?}", config(&secret)).contains("swordfish"), "no value of the environment");
}

#[test]
fn an_app_has_the_options_of_its_language() {
    let reading = config(
        "[app.a]\nfile = 'x/a.lua'\ninclude = ['lib', '/usr/lib']\nstate_memory = '16m'\nstates = 7\nlua = 5.4\nhooks = 'h.lua'\n\
         [app.b]\nfile = 'b.psgi'\nmodule = 'Strict'\nperl = 'perl5.36'\n\
         [app.c]\nfile = 'c.ru'\nrequire = ['a', 'b']\nconfig = '-'\nruby = 'bin/ruby'\n",
    );
    let options = |app: usize| pairs(&reading.apps[app].language_options);
    assert_eq!(options(0), ["include=lib", "include=/usr/lib", "state-memory=16m", "states=7", "lua=5.4", "hooks=h.lua"]);
    assert_eq!(options(1), ["module=Strict", "perl=perl5.36"]);
    assert_eq!(options(2), ["require=a", "require=b", "config=-", "ruby=bin/ruby"]);
    for (lines, expected) in [
        ("module = 'A'\nrequire = 'b'", "4:1 `require` is for apps in ruby, and this one is in perl"),
        ("language = 'lua'\nmodule = 'A'", "4:1 `module` is for apps in perl, and this one is in lua"),
        ("states = ['1']", "3:10 `states` is text, a number or a boolean, not an array"),
        ("hooks = 1", "3:9 `hooks` is text, not a number"),
        ("module = ['A', 1]", "3:16 `module` is text, or an array of texts, not a number"),
        ("document-root = 'on'", "3:17 `document-root` is true or false, not a string"),
        ("require = ''", "3:11 `require` has an empty value"),
        ("modul = 'A'", "3:1 unknown option `modul` in [app.a]"),
    ] {
        let message = mistake(&format!("[app.a]\nfile = 'a'\n{lines}\n"));
        assert!(message.starts_with(expected), "{lines}: {message}");
    }
    assert_eq!(mistake("[server]\nstates = 1\n"), "2:1 `states` belongs in [app.NAME], not in [server]");
    let message = mistake("[app.a]\nproxy = 'http://a'\nmodule = 'A'\n");
    assert_eq!(message, "3:1 `module` is for apps with a file; a proxy has no language");
}
