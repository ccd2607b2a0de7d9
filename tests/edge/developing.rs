//! The view of a developer: changed files are loaded, and an error is shown until it is mended.

use crate::connection::Connection;
use crate::language::{Language, edge};
use crate::server::{Folder, Server, wait_until};
use crate::turn;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

crate::in_every_language!(a_change_is_loaded_and_an_error_is_shown);
mod perl_by_hand {
    #[test]
    fn a_touch_loads_the_app_and_an_error_is_not_shown() {
        super::a_touch_loads_the_app_and_an_error_is_not_shown(super::Language::Perl);
    }
}
mod ruby_by_hand {
    #[test]
    fn a_touch_loads_the_app_and_an_error_is_not_shown() {
        super::a_touch_loads_the_app_and_an_error_is_not_shown(super::Language::Ruby);
    }
}

/// An app that answers `word`.
fn answering(language: Language, word: &str) -> String {
    match language {
        Language::Perl => format!("sub {{ return [200, ['Content-Type' => 'text/plain'], ['{word}']] }};\n"),
        Language::Ruby => format!("run(->(_) {{ [200, {{ 'Content-Type' => 'text/plain' }}, ['{word}']] }})\n"),
        Language::Lua => format!("return function() return 200, {{}}, '{word}' end\n"),
    }
}

/// An app that cannot be loaded.
fn broken(language: Language) -> &'static str {
    match language {
        Language::Perl => "die \"no <b> today\\n\";\n",
        Language::Ruby => "raise 'no <b> today'\n",
        Language::Lua => "error 'no <b> today'\n",
    }
}

/// The path of the app of `language` in `folder`.
fn place(language: Language, folder: &Folder) -> PathBuf {
    folder.file(language.app().file_name().and_then(|name| name.to_str()).expect("it has one"))
}

fn start(app: &Path, arguments: &[&str]) -> (Server, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
    command.arg(app).args(["--listen", "127.0.0.1:0", "--workers", "1", "--edge", &edge()]).args(arguments);
    let mut server = Server::run(&mut command);
    let address = server.address();
    (server, address)
}

/// The status and the content of the answer.
fn get(address: SocketAddr) -> (u16, String) {
    let mut connection = Connection::open(address);
    connection.ask("/");
    // A worker without an edge may have gone meanwhile.
    connection
        .response(false)
        .map_or((0, String::new()), |response| (response.status, String::from_utf8_lossy(&response.content).into_owned()))
}

fn a_change_is_loaded_and_an_error_is_shown(language: Language) {
    let _turn = turn::beside_others();
    let folder = Folder::new();
    let app = place(language, &folder);
    let write = |text: &str| std::fs::write(&app, text).expect("the folder is writable");
    // It need not begin well.
    write(broken(language));
    let (server, address) = start(&app, &["--reload", "-E", "development"]);
    let shown = || {
        let (status, content) = get(address);
        status == 500 && content.contains("no &lt;b&gt; today")
    };
    wait_until("the first error is shown", shown);
    for word in ["one", "two"] {
        write(&answering(language, word));
        wait_until(word, || get(address) == (200, word.to_owned()));
    }
    std::fs::write(folder.file(".app.swp"), "x").expect("the folder is writable");
    write(broken(language));
    wait_until("the error is shown", || get(address).0 == 500);
    write(&answering(language, "three"));
    wait_until("three", || get(address) == (200, "three".to_owned()));
    assert!(server.log().contains("no <b> today"), "the terminal shows it, too: {}", server.log());
    assert!(!server.log().contains(".app.swp"), "{}", server.log());
}

fn a_touch_loads_the_app_and_an_error_is_not_shown(language: Language) {
    let _turn = turn::beside_others();
    let folder = Folder::new();
    let app = place(language, &folder);
    std::fs::create_dir(folder.file("tmp")).expect("the folder is writable");
    let write = |text: &str| std::fs::write(&app, text).expect("the folder is writable");
    let touch = || std::fs::write(folder.file("tmp/restart.txt"), "").expect("the folder is writable");
    write(&answering(language, "one"));
    let (mut server, address) = start(&app, &[]);
    wait_until("one", || get(address) == (200, "one".to_owned()));
    write(broken(language));
    touch();
    server.wait_for_log("the app could not be reloaded");
    assert_eq!(get(address), (200, "one".to_owned()), "{}", server.log());
    write(&answering(language, "two"));
    touch();
    wait_until("two", || get(address) == (200, "two".to_owned()));
}
