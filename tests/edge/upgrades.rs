//! The program itself is replaced, and no client notices.

use crate::connection::Connection;
use crate::language::Language;
use crate::load::{Load, Plan, Question};
use crate::server::{children, title, wait_for};
use crate::turn;
use rustix::process::Signal;

crate::in_language!(perl, Perl, upgrades_close_no_connection);
crate::in_language!(ruby, Ruby, upgrades_close_no_connection);

const KEPT: usize = 32;

/// One of eight requests takes so long that the upgrade finds it inside of a worker.
fn mixed(number: u64) -> Question {
    if number.is_multiple_of(8) { Question::nap(number, 0.05) } else { Question::fast(number) }
}

fn upgrades_close_no_connection(language: Language) {
    let _turn = turn::beside_others();
    // Each language over another I/O model.
    let io = if language == Language::Perl { "io_uring" } else { "epoll" };
    let mut site = language.start(&["--workers", "2", "--edges", "2", "--io", io]);
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
        before = Some(wait_for("only the new master is left", || match children(site.server.pid())[..] {
            [only] if Some(only) != before && title(only).starts_with("oribi: master") => Some(only),
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
