//! Tests every form of an answer, with and without room for it.

use super::*;
use oribi_host::{Piece, ReplyError};
use oribi_message::PreparedFields;
use oribi_stats::scoreboard::running::{self, RunningLine};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::thread;

/// The size of content for which an area has no room.
const LARGE: usize = 10_000;

fn large() -> Vec<u8> {
    (0..LARGE).map(|number| number as u8).collect()
}

fn file() -> Arc<File> {
    let mut file = tempfile::tempfile().expect("a file is to be had");
    file.write_all(b"what stands in a file").expect("the disk has room");
    Arc::new(file)
}

#[test]
fn a_whole_response_is_one_frame() {
    let mut site = Site::new();
    let forms: [&[&[u8]]; 3] = [&[], &[b"one"], &[b"one ", b"", b"two"]];
    for parts in forms {
        let ticket = site.ask("/");
        let exchange = site.take();
        site.intake.respond(exchange, OK, parts).expect("its client waits");
        let content = parts.concat();
        let size = content.len() as u64;
        assert_eq!(site.hear_of(ticket), [Said::Whole(200, content, size)]);
        assert_eq!(site.intake.respond(exchange, OK, parts), Err(ReplyError::Gone));
        assert_eq!(site.intake.waiting(exchange), Err(ReplyError::Gone));
    }
}

#[test]
fn a_whole_response_for_which_there_is_no_room_goes_as_a_file_and_keeps_no_area() {
    let mut site = Site::new();
    let large = large();
    let ticket = site.ask("/");
    let exchange = site.take();
    site.intake.respond(exchange, OK, &[&large[..5000], &large[5000..]]).expect("its client waits");
    assert!(site.intake.opened.is_empty());
    assert_eq!(site.hear_of(ticket), [Said::Head(200, Some(LARGE as u64)), Said::File(large), Said::Finished]);
}

#[test]
fn whole_responses_are_frames_as_long_as_an_area_has_room() {
    let mut site = Site::new();
    // Each fills more than a third of an area, and there are three areas.
    for _ in 0..6 {
        site.ask("/");
        let exchange = site.take();
        site.intake.respond(exchange, OK, &[&[7; 700]]).expect("its client waits");
    }
    let heard = site.receive();
    assert!(heard.iter().all(|(_, said)| matches!(said, Said::Whole(200, _, 700))) && heard.len() == 6, "{heard:?}");
}

#[test]
fn prepared_fields_files_and_pieces_are_passed_on() {
    let mut site = Site::new();
    let prepared = PreparedFields::new(&[(b"X", b"y")]).expect("they are valid");
    let file = file();
    let part = Piece::File { file: &file, offset: 5, size: 6 };

    let ticket = site.ask("/");
    let exchange = site.take();
    site.intake.respond_prepared(exchange, &prepared, Piece::Bytes(b"bytes")).expect("its client waits");
    assert_eq!(site.hear_of(ticket), [Said::Whole(200, b"bytes".to_vec(), 5)]);

    let ticket = site.ask("/");
    let exchange = site.take();
    site.intake.respond_prepared(exchange, &prepared, part).expect("its client waits");
    let stands = || Said::File(b"stands".to_vec());
    assert_eq!(site.hear_of(ticket), [Said::Head(200, Some(6)), stands(), Said::Finished]);

    let ticket = site.ask("/");
    let exchange = site.take();
    let head = ResponseHead { status: 206, ..OK };
    site.intake.respond_pieces(exchange, head, &[Piece::Bytes(b"<"), part, Piece::Bytes(b">")]).expect("its client waits");
    let content = |text: &[u8]| Said::Content(text.to_vec());
    assert_eq!(site.hear_of(ticket), [Said::Head(206, Some(8)), content(b"<"), stands(), content(b">"), Said::Finished]);
}

#[test]
fn pieces_for_which_there_is_no_room_follow_when_there_is() {
    let mut site = Site::new();
    let (file, large) = (file(), large());
    let ticket = site.ask("/");
    let exchange = site.take();
    let pieces = [Piece::Bytes(&large), Piece::File { file: &file, offset: 0, size: 4 }, Piece::Bytes(b"end")];
    site.intake.respond_pieces(exchange, OK, &pieces).expect("its client waits");
    assert_eq!((site.intake.waiting(exchange), site.intake.answering()), (Err(ReplyError::Gone), 0));
    site.intake.stop(false);
    assert!(!site.intake.finished(), "it is not passed on completely");
    let (mut heard, mut turns) = (Vec::new(), 0);
    while heard.last() != Some(&Said::Finished) {
        let next = site.intake.next_exchange_now().expect("epoll works");
        assert!(matches!(next, Next::Nothing(_)) || site.intake.finished());
        heard.extend(site.hear_of(ticket));
        turns += 1;
        assert!(turns < 100);
    }
    assert!(turns > 3 && site.intake.finished());
    let mut content = Vec::new();
    for said in heard {
        match said {
            Said::Content(bytes) | Said::File(bytes) => content.extend(bytes),
            Said::Head(..) | Said::Finished => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(content == [&large[..], b"what", b"end"].concat());
}

#[test]
fn a_stream_is_passed_on_as_it_is_written() {
    let mut site = Site::new();
    let ticket = site.ask("/");
    let exchange = site.take();
    assert_eq!(site.intake.answering(), 1);
    site.intake.start(exchange, OK).expect("its client waits");
    assert_eq!(site.hear_of(ticket), [], "the head goes with the first piece");
    assert_eq!(site.intake.write(exchange, b""), Ok(0));
    assert_eq!(site.hear_of(ticket), [Said::Head(200, None)]);
    assert_eq!(site.intake.write(exchange, b"piece"), Ok(0));
    assert_eq!(site.hear_of(ticket), [Said::Content(b"piece".to_vec())]);
    site.intake.finish(exchange).expect("its client waits");
    assert_eq!(site.hear_of(ticket), [Said::Finished]);
    assert_eq!(site.intake.finish(exchange), Err(ReplyError::Gone));
}

#[test]
fn a_stream_ends_where_its_response_has_no_content() {
    let mut site = Site::new();
    for status in [204, 205, 304] {
        let ticket = site.ask("/");
        let exchange = site.take();
        site.intake.start(exchange, ResponseHead { status, ..OK }).expect("its client waits");
        assert_eq!(site.intake.write(exchange, b""), Ok(0));
        assert_eq!(site.intake.write(exchange, b"piece"), Err(ReplyError::Gone));
        assert_eq!(site.hear_of(ticket), [Said::Head(status, None), Said::Finished]);
        assert_eq!(site.intake.finish(exchange), Err(ReplyError::Gone));
    }
}

#[test]
fn an_app_that_writes_more_than_there_is_room_for_waits_until_the_edge_has_read() {
    let mut site = Site::new();
    let large = large();
    let ticket = site.ask("/");
    let exchange = site.take();
    site.intake.start(exchange, OK).expect("its client waits");
    let waiting = site.intake.write(exchange, &large).expect("its client waits");
    assert!(waiting > LARGE - 2048 && waiting > site.intake.output_limit());
    let Site { edge, intake, .. } = &mut site;
    let seen = thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let (mut seen, mut bytes) = (Vec::<u8>::new(), Vec::new());
            while seen.len() < LARGE {
                edge.gather();
                while let Some(event) = edge.next(&mut bytes) {
                    match event {
                        Event::Head(_) => {}
                        Event::Content(of) if of == ticket => seen.extend(&bytes),
                        other => panic!("{other:?}"),
                    }
                }
                edge.wake_workers();
                thread::yield_now();
            }
            seen
        });
        while intake.waiting(exchange).expect("its client waits") > intake.output_limit() {
            intake.turn().expect("epoll works");
        }
        reader.join().expect("it understands everything")
    });
    assert!(seen == large);
    site.intake.finish(exchange).expect("its client waits");
    assert_eq!(site.hear_of(ticket), [Said::Finished]);
}

#[test]
fn an_app_that_waits_learns_that_its_client_has_gone() {
    let mut site = Site::new();
    let ticket = site.ask("/");
    let exchange = site.take();
    site.intake.start(exchange, OK).expect("its client waits");
    site.intake.write(exchange, &large()).expect("its client waits");
    let Site { edge, intake, .. } = &mut site;
    thread::scope(|scope| {
        scope.spawn(move || {
            edge.gather();
            assert!(matches!(edge.next(&mut Vec::new()), Some(Event::Head(_))));
            assert!(edge.pause(ticket));
            edge.withdraw(ticket);
            edge.wake_workers();
        });
        while intake.waiting(exchange).is_ok() {
            intake.turn().expect("epoll works");
        }
    });
    assert_eq!(site.intake.write(exchange, b"more"), Err(ReplyError::Gone));
    assert!(site.intake.opened.is_empty());
    assert_eq!(site.hear_of(ticket), []);
}

#[test]
fn an_exchange_whose_client_has_gone_is_gone_for_its_app() {
    let mut site = Site::new();
    let tickets = [site.ask("/one"), site.ask("/two")];
    let (one, two) = (site.take(), site.take());
    assert_eq!((site.intake.waiting(one), site.intake.waiting(two)), (Ok(0), Ok(0)));
    for ticket in tickets {
        site.edge.withdraw(ticket);
    }
    assert_eq!(site.intake.waiting(one), Err(ReplyError::Gone));
    assert_eq!(site.intake.respond(one, OK, &[b"late"]), Err(ReplyError::Gone));
    // The other exchange is never answered, and does not keep the worker from stopping.
    site.intake.stop(false);
    assert!(matches!(site.intake.next_exchange_now(), Ok(Next::Command)));
    assert!(site.intake.finished());
    assert_eq!(site.receive(), []);
}

#[test]
fn an_exchange_that_is_given_up_says_so() {
    let mut site = Site::new();
    let tickets = [site.ask("/one"), site.ask("/two"), site.ask("/three")];
    let taken = [site.take(), site.take(), site.take()];
    site.intake.abandon(taken[0]);
    assert_eq!(site.hear_of(tickets[0]), [Said::Abandoned]);
    site.intake.start(taken[1], OK).expect("its client waits");
    site.intake.write(taken[1], b"piece").expect("its client waits");
    site.intake.abandon_all();
    let mut heard = site.receive();
    heard.sort_by_key(|(ticket, _)| ticket.slot());
    let piece = Said::Content(b"piece".to_vec());
    let mut expected = vec![
        (tickets[1], Said::Head(200, None)),
        (tickets[1], piece),
        (tickets[1], Said::Abandoned),
        (tickets[2], Said::Abandoned),
    ];
    expected.sort_by_key(|(ticket, _)| ticket.slot());
    assert_eq!(heard, expected);
    assert!(site.intake.opened.is_empty());
}

#[test]
fn messages_informational_responses_and_deadlines_come_before_the_response() {
    let mut site = Site::new();
    let ticket = site.ask("/");
    let exchange = site.take();
    site.intake.inform(exchange, 103, &[(b"Link", b"</a>")]).expect("its client waits");
    assert!(matches!(site.intake.inform(exchange, 101, &[]), Err(ReplyError::Invalid(_))));
    assert!(!site.intake.report(exchange, b"no web server"));
    let later = Duration::from_secs(9);
    site.intake.extend_deadline(exchange, Some(later));
    site.intake.respond(exchange, OK, &[]).expect("its client waits");
    let whole = Said::Whole(200, Vec::new(), 0);
    assert_eq!(site.hear_of(ticket), [Said::Interim(103), Said::Deadline(Some(later)), whole]);
    assert_eq!(site.intake.inform(exchange, 103, &[]), Err(ReplyError::Gone));
}

#[test]
fn an_app_that_breaks_a_rule_has_its_exchange_given_up() {
    let mut site = Site::new();
    let ticket = site.ask("/");
    let exchange = site.take();
    site.intake.start(exchange, OK).expect("its client waits");
    assert!(matches!(site.intake.respond(exchange, OK, &[]), Err(ReplyError::Invalid(_))));
    assert_eq!(site.hear_of(ticket), [Said::Head(200, None), Said::Abandoned]);

    let ticket = site.ask("/");
    let exchange = site.take();
    assert!(matches!(site.intake.finish(exchange), Err(ReplyError::Invalid(_))));
    assert!(matches!(site.intake.write(exchange, b"x"), Err(ReplyError::Invalid(_))));
    assert_eq!(site.hear_of(ticket), [Said::Abandoned]);

    for (status, value, why) in [(200, &b"two\r\nlines"[..], "control byte in a field value"), (199, b"", "not a final status")]
    {
        let ticket = site.ask("/");
        let exchange = site.take();
        let head = ResponseHead { status, fields: &[(b"X", value)] };
        assert_eq!(site.intake.respond(exchange, head, &[]), Err(ReplyError::Invalid(why)));
        assert_eq!(site.hear_of(ticket), [Said::Abandoned]);
    }

    let value = vec![b'v'; oribi_pool::HEAD_BYTES];
    let head = ResponseHead { status: 200, fields: &[(b"X", &value)] };
    for start in [false, true] {
        let ticket = site.ask("/");
        let exchange = site.take();
        let answered = if start { site.intake.start(exchange, head) } else { site.intake.respond(exchange, head, &[b"x"]) };
        assert!(matches!(answered, Err(ReplyError::Invalid(_))), "{answered:?}");
        assert_eq!(site.hear_of(ticket), [Said::Abandoned]);
    }
    assert!(site.intake.opened.is_empty());
}

#[test]
fn an_app_that_goes_on_after_its_answer_is_shown_to_the_supervisor() {
    let lines: &'static [RunningLine] = oribi_io::process::shared_lines(3).expect("memory is to be had").as_chunks().0;
    let runs = || lines[0][0].words[0].load(std::sync::atomic::Ordering::Relaxed) % 2 == 1;
    for streams in [false, true] {
        let mut site = Site::new();
        site.intake = site.intake.watched(lines, None);
        site.ask("/stays");
        let lent = site.lend();
        assert!(!runs(), "the edge still watches");
        if streams {
            site.intake.start(lent.id(), OK).expect("its client waits");
            site.intake.write(lent.id(), b"piece").expect("its client waits");
            assert!(!runs());
            site.intake.finish(lent.id()).expect("its client waits");
        } else {
            site.intake.respond(lent.id(), OK, &[b"whole"]).expect("its client waits");
        }
        assert!(runs());
        assert_eq!(running::text_of(&lines[0]), "GET /stays");
        site.intake.extend_deadline(lent.id(), None);
        assert_eq!((running::own_deadline(&lines[0]), runs()), (running::OwnDeadline::Never, true));
        site.intake.give_back(lent);
        assert!(!runs());
    }
}

#[test]
fn trailers_come_behind_the_content_and_wait_with_it() {
    let mut site = Site::new();
    let ticket = site.ask("/");
    let exchange = site.take();
    site.intake.start(exchange, OK).expect("its client waits");
    site.intake.write(exchange, b"piece").expect("its client waits");
    site.intake.finish_with_trailers(exchange, &[(b"X-Sum", b"1")]).expect("they are valid");
    assert_eq!(site.intake.finish_with_trailers(exchange, &[]), Err(ReplyError::Gone));
    let trailers = || Said::Trailers("X-Sum: 1".to_owned());
    assert_eq!(site.hear_of(ticket), [Said::Head(200, None), Said::Content(b"piece".to_vec()), trailers(), Said::Finished]);

    let ticket = site.ask("/");
    let exchange = site.take();
    site.intake.start(exchange, OK).expect("its client waits");
    site.intake.write(exchange, &large()).expect("its client waits");
    site.intake.finish_with_trailers(exchange, &[(b"X-Sum", b"1")]).expect("they are valid");
    let mut heard = Vec::new();
    while !heard.contains(&Said::Finished) {
        heard.extend(site.hear_of(ticket));
        site.intake.flow();
    }
    let content = heard.iter().flat_map(|said| if let Said::Content(bytes) = said { &bytes[..] } else { b"" }).copied();
    assert_eq!(content.collect::<Vec<u8>>(), large());
    assert_eq!(heard[heard.len() - 2..], [trailers(), Said::Finished]);
}

#[test]
fn trailers_that_cannot_be_have_the_exchange_given_up() {
    let large = vec![b'v'; LARGE];
    let cases: [(&[u8], &[u8], &str); 3] = [
        (b"Content-Length", b"5", "Content-Length cannot be a trailer"),
        (b"X", b"two\r\nlines", "control byte"),
        (b"X", &large, "larger than the memory"),
    ];
    for (name, value, why) in cases {
        let mut site = Site::new();
        let ticket = site.ask("/");
        let exchange = site.take();
        site.intake.start(exchange, OK).expect("its client waits");
        let refused = site.intake.finish_with_trailers(exchange, &[(name, value)]);
        assert!(matches!(refused, Err(ReplyError::Invalid(said)) if said.contains(why)), "{refused:?}");
        assert_eq!(site.hear_of(ticket), [Said::Head(200, None), Said::Abandoned]);
        assert!(site.intake.opened.is_empty());
    }
}
