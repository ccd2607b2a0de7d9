//! The program itself is replaced, and no client notices.

use crate::connection::Connection;
use crate::language::{Language, Launcher, Site};
use crate::load::{Load, Plan, Question};
use crate::server::{children, is_first, wait_for};
use crate::turn;
use rustix::process::Signal;

crate::in_language!(perl, Perl, upgrades_close_no_connection);
crate::in_language!(ruby, Ruby, upgrades_close_no_connection);
crate::in_language!(lua, Lua, upgrades_close_no_connection);

const KEPT: usize = 32;

/// Returns request `number` of a load. One of eight requests takes so long that a worker is answering it during the upgrade.
fn mixed(number: u64) -> Question {
    if number.is_multiple_of(8) { Question::nap(number, 0.05) } else { Question::fast(number) }
}

fn upgrades_close_no_connection(language: Language) {
    let _turn = turn::beside_others();
    // Each language over another I/O model, unless one was asked for: see tests/run.
    let own = match language {
        Language::Perl => "io_uring",
        Language::Ruby => "epoll",
        Language::Lua => "libevent",
    };
    let io = std::env::var("ORIBI_TEST_IO").unwrap_or_else(|_| own.to_owned());
    let mut site = language.start(&["--workers", "2", "--edges", "2", "--io", &io]);
    assert!(site.server.log().contains(&format!("I/O by {io}")), "{}", site.server.log());
    let load = Load::start(site.address, Plan { connections: KEPT, pace: None, requests: None, question: mixed });
    let mut before = None;
    for number in 1..=3 {
        load.wait_for_more(200);
        let mut slow = Connection::open(site.address);
        slow.ask(&format!("/sleep?{number}&0.5"));
        site.wait_inside(number);
        site.server.signal(Signal::USR2);
        let response = slow.answer().0;
        assert_eq!((response.status, response.content), (200, format!("sleep {number}\n").into_bytes()));
        before = Some(wait_for("only the new server is left", || match children(site.server.pid())[..] {
            [only] if Some(only) != before && is_first(only) => Some(only),
            _ => None,
        }));
        slow.ask("/fast?7");
        assert_eq!(slow.answer().0.content, b"fast 7\n", "the connection is the same");
    }
    load.wait_for_more(200);
    load.stop().must_be_perfect("requests while the program is upgraded");
    site.server.signal(Signal::TERM);
    assert_eq!(site.server.wait(), 0, "{}", site.server.log());
}

/// A program that has called Oribi, such as plackup, is not executed again for an upgrade. The log has the reason, and says
/// what to do instead.
fn is_not_upgraded(launcher: Launcher, language: Language) {
    let _turn = turn::beside_others();
    let mut site = Site::start(launcher, language, &[]);
    let load = Load::start(site.address, Plan { connections: 2, pace: None, requests: None, question: mixed });
    load.wait_for_more(20);
    site.server.signal(Signal::USR2);
    site.server.wait_for_log("not upgraded: this server is part of a program that has called it");
    assert!(site.server.log().contains("run the program under start_server"), "{}", site.server.log());
    load.wait_for_more(20);
    load.stop().must_be_perfect("requests of a server that is not upgraded");
    site.server.signal(Signal::TERM);
    assert_eq!(site.server.wait(), 0, "{}", site.server.log());
}

#[test]
fn plackup_says_why_it_is_not_upgraded() {
    is_not_upgraded(Launcher::Plackup, Language::Perl);
}

#[test]
fn rackup_says_why_it_is_not_upgraded() {
    is_not_upgraded(Launcher::Rackup, Language::Ruby);
}
