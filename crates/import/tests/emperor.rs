//! Emperors of uWSGI: each vassal becomes an app with the address that it had.

use oribi_import::{Format, Found, Imported, Kind, command, command_with, import, import_with};

const EMPEROR: &str = "[uwsgi]\nemperor = /etc/uwsgi/vassals\nemperor = /srv/*/uwsgi.ini\nemperor = pg://host=a\n\
     vassal-set = harakiri=20\nvassals-include = /etc/uwsgi/all.ini\nemperor-tyrant = true\nemperor-zork = 1\n";

fn found(pattern: &str, path: &str, text: &str) -> Found {
    Found { pattern: pattern.to_owned(), path: path.to_owned(), text: Ok(text.to_owned()) }
}

fn vassals() -> Vec<Found> {
    vec![
        found(
            "/etc/uwsgi/vassals/*.ini",
            "/etc/uwsgi/vassals/shop.ini",
            "[uwsgi]\nsocket = /run/%n.sock\npsgi = app.psgi\nprocesses = 4\nadd-header = X-A: 1\nroute = ^/old/ \
             redirect:https://old.example.com/\nmax-requests = 500\nlogto = /var/log/shop.log\n",
        ),
        found(
            "/etc/uwsgi/vassals/*.json",
            "/etc/uwsgi/vassals/wiki.json",
            "{\"uwsgi\": {\"http-socket\": \"127.0.0.1:9090\", \"rack\": \"config.ru\", \"chdir\": \"/srv/wiki\", \"uid\": \"wiki\"}}",
        ),
        found(
            "/etc/uwsgi/vassals/*.xml",
            "/etc/uwsgi/vassals/py.xml",
            "<uwsgi><socket>/run/py.sock</socket><wsgi>a</wsgi></uwsgi>",
        ),
        found("/srv/*/uwsgi.ini", "/srv/blog/uwsgi.ini", "[uwsgi]\npsgi = /srv/blog/blog.psgi\n"),
        Found { pattern: "/srv/*/uwsgi.ini".to_owned(), path: "/srv/bad/uwsgi.ini".to_owned(), text: Err("no".to_owned()) },
        found("/etc/uwsgi/all.ini", "/etc/uwsgi/all.ini", "[uwsgi]\nenv = STAGE=live\n"),
    ]
}

fn imported() -> Imported {
    import_with(Format::Uwsgi, "/etc/uwsgi/emperor.ini", EMPEROR, &vassals()).expect("it can be read")
}

#[test]
fn an_emperor_names_the_files_that_belong_to_it() {
    let alone = import(Format::Uwsgi, "emperor.ini", EMPEROR).expect("it can be read");
    for pattern in ["/etc/uwsgi/vassals/*.ini", "/etc/uwsgi/vassals/*.yml", "/srv/*/uwsgi.ini", "/etc/uwsgi/all.ini"] {
        assert!(alone.wanted.iter().any(|wanted| wanted == pattern), "{pattern}: {:?}", alone.wanted);
    }
    assert!(alone.parts.is_empty());
    assert!(alone.notes.iter().any(|note| note.kind == Kind::Lost && note.text.contains("import each of them")));
    let words: Vec<String> = ["uwsgi", "--emperor", "/etc/uwsgi/vassals"].map(str::to_owned).to_vec();
    let of_command = command(&words).expect("it can be read");
    assert!(of_command.wanted.contains(&"/etc/uwsgi/vassals/*.ini".to_owned()));
    let whole = command_with(&words, &vassals()).expect("it can be read");
    assert!(whole.toml.contains("[app.shop]"), "{}", whole.toml);
}

#[test]
fn each_vassal_has_its_address_and_its_options() {
    let imported = imported();
    for part in [
        "auto-apply = true\n",
        "address = \"fcgi+unix:/run/shop.sock\"\n",
        "address = \"127.0.0.1:9090\"\n",
        "[app.shop]\nfile = \"/etc/uwsgi/vassals/app.psgi\"\ndirectory = \"/etc/uwsgi/vassals\"\nenvironment = { STAGE = \
         \"live\" }\nworkers = 4\nmax-requests = 500\nrequest-timeout = 20\n",
        "[app.wiki]\nfile = \"/srv/wiki/config.ru\"\n",
        "user = \"wiki\"\n",
        "match = { path = \"~^/old/\", destination = \"unix:/run/shop.sock\" }\n",
        "match = { destination = \"unix:/run/shop.sock\" }\napp = \"shop\"\nresponse-fields = { add = { X-A = \"1\" } }\n",
        "match = { destination = \"127.0.0.1:9090\" }\napp = \"wiki\"\n",
    ] {
        assert!(imported.toml.contains(part), "{part}\n{}", imported.toml);
    }
    assert!(!imported.toml.contains("py.sock\"\n"), "{}", imported.toml);
}

#[test]
fn all_that_a_vassal_loses_is_noted_with_its_place() {
    let imported = imported();
    for (key, text) in [
        ("/etc/uwsgi/vassals/shop.ini:8: logto", "error-log = /var/log/shop.log: one server has one"),
        ("/etc/uwsgi/vassals/py.xml", "it has no app"),
        ("/srv/blog/uwsgi.ini", "no address of its own"),
        ("/srv/bad/uwsgi.ini", "cannot be read: no"),
        ("emperor", "vassals of pg"),
        ("emperor-tyrant", "user and group"),
        ("emperor-zork", "include"),
    ] {
        let noted = |note: &&oribi_import::Note| note.kind == Kind::Lost && note.key == key && note.text.contains(text);
        assert!(imported.notes.iter().any(|note| noted(&note)), "{key}: {text}\n{:#?}", imported.notes);
    }
}

#[test]
fn a_vassal_is_an_included_file() {
    let imported = imported();
    let names: Vec<&str> = imported.parts.iter().map(|part| &*part.name).collect();
    assert_eq!(names, ["", "blog.app.toml", "shop.app.toml", "wiki.app.toml"]);
    assert!(imported.parts[0].toml.contains("\ninclude = \"*.app.toml\"\n"), "{}", imported.parts[0].toml);
    assert!(imported.parts[0].toml.contains("# - /srv/bad/uwsgi.ini: "), "{}", imported.parts[0].toml);
    assert!(!imported.parts[0].toml.contains("\n[app."));
    let files: Vec<(&str, &[u8])> = imported.parts.iter().map(|part| (&*part.name, part.toml.as_bytes())).collect();
    let split = oribi_config_file::parse(&files, &|_| None).expect("the reader accepts it");
    let whole = oribi_config_file::parse(&[("", imported.toml.as_bytes())], &|_| None).expect("and the whole");
    let names = |reading: &oribi_config_file::Reading| {
        let mut names: Vec<String> = reading.config.apps.iter().map(|app| app.name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!((names(&split), split.config.routes.len()), (names(&whole), whole.config.routes.len()));
}

#[test]
fn a_vassal_that_starts_with_its_first_request_sleeps() {
    let source = "[uwsgi]\nemperor = /v\nemperor-on-demand-extension = .socket\nemperor-on-demand-directory = /run/v\n";
    let files = [
        found("/v/*.ini", "/v/a.ini", "[uwsgi]\npsgi = a.psgi\nworkers = 3\nidle = 30\n"),
        found("/v/*.ini", "/v/b.ini", "[uwsgi]\npsgi = b.psgi\n"),
        found("/v/*.ini.socket", "/v/a.ini.socket", "/run/a.sock\n"),
    ];
    let imported = import_with(Format::Uwsgi, "emperor.ini", source, &files).expect("it can be read");
    for part in
        ["unix:/run/a.sock\"\n", "unix:/run/v/b.socket\"\n", "workers = \"0:3\"\nscale-down-idle = 30\n", "workers = \"0:1\"\n"]
    {
        assert!(imported.toml.contains(part), "{part}\n{}", imported.toml);
    }
    let alone = import(Format::Uwsgi, "a.ini", "[uwsgi]\npsgi = a.psgi\nvassal-set = a=b\n").expect("it can be read");
    assert!(alone.notes.iter().any(|note| note.key == "vassal-set" && note.kind == Kind::Lost));
}
