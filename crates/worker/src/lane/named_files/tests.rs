use super::*;
use crate::lane::Lane;
use oribi_config::{ListenAddress, Settings};
use oribi_engine::Engine;
use oribi_host::{After, Host, Reply, Request};
use oribi_io::{Sim, World};
use oribi_listen::open;
use oribi_stats::scoreboard::WorkerSlot;
use std::os::fd::AsFd;

type Script = fn(&dyn Outlet, ExchangeId, &[FieldPair<'_>]);

/// A host that answers with its script, with the query of the request as the name of a file.
struct Naming(Script);

impl Host for Naming {
    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
        let (outlet, exchange) = reply.detach();
        assert!(!request.head.fields().any(|(_, name, _)| NamedFiles::steers_app(name)));
        (self.0)(outlet, exchange, &[(b"X-Sendfile", request.head.query()), (b"Set-Cookie", b"a=1")]);
        After::default()
    }
}

/// Returns the responses to GET requests with these fields, for the file `name` in a directory with one file.
fn answers(script: Script, requests: &[(&str, &str)]) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory is to be had");
    std::fs::write(directory.path().join("file"), "Hello World").expect("it is writable");
    let listen = vec![ListenAddress::tcp("127.0.0.1", 0)];
    let mut settings = Settings { listen, ..Settings::default() };
    settings.files.sendfile_roots.push(directory.path().to_owned());
    let listeners = open(&settings).expect("loopback is there");
    let (wake, _writer) = std::io::pipe().expect("a pipe is to be had");
    let (world, slot) = (World::new(), WorkerSlot::unshared());
    let engine = Engine::new(Sim::new(&world), &settings, &listeners, wake.as_fd(), None).expect("nothing can refuse");
    let lane = Lane::new(engine, &slot).with_settings(&settings).expect("it is there");
    let client = world.connect();
    let mut host = Naming(script);
    requests
        .iter()
        .map(|(name, fields)| {
            let path = directory.path().join(name);
            client.send(format!("GET /?{} HTTP/1.1\r\nHost: x\r\n{fields}\r\n", path.display()).as_bytes());
            let exchange = lane.source().next_exchange().expect("this backend cannot fail").expect("a request is there");
            lane.answer(exchange, &listeners, &mut host);
            assert_eq!(lane.source().answering(), 0, "it is answered");
            String::from_utf8(client.received()).expect("text")
        })
        .collect()
}

const WAYS: [Script; 6] = [
    |outlet, exchange, fields| {
        outlet.respond(exchange, ResponseHead { status: 200, fields }, &[b"not wanted"]).expect("it is sent");
    },
    |outlet, exchange, fields| {
        outlet.start(exchange, ResponseHead { status: 200, fields }).expect("it is sent");
        assert_eq!(outlet.write(exchange, b""), Ok(()));
        assert_eq!(outlet.write(exchange, b"not wanted"), Err(ReplyError::Gone));
        assert_eq!(outlet.write(exchange, b"not wanted"), Err(ReplyError::Gone));
        assert_eq!(outlet.finish(exchange), Err(ReplyError::Gone));
    },
    |outlet, exchange, fields| {
        outlet.start(exchange, ResponseHead { status: 200, fields }).expect("it is sent");
        outlet.finish(exchange).expect("it is over");
    },
    |outlet, exchange, fields| {
        outlet.start(exchange, ResponseHead { status: 200, fields }).expect("it is sent");
        outlet.abandon(exchange);
    },
    |outlet, exchange, fields| {
        let file = tempfile::tempfile().expect("a file is to be had");
        outlet.respond_file(exchange, ResponseHead { status: 200, fields }, file, 0, 0).expect("it is sent");
    },
    |outlet, exchange, fields| {
        let length: [FieldPair<'_>; 1] = [(b"Content-Length", b"3")];
        outlet.respond(exchange, ResponseHead { status: 206, fields: &[fields, &length].concat() }, &[]).expect("it is sent");
    },
];

#[test]
fn whichever_way_a_response_begins_the_file_takes_its_place() {
    for (way, script) in WAYS.iter().enumerate() {
        let requests =
            [("file", ""), ("file", "Range: bytes=6-\r\n"), ("none", ""), ("file", "X-Sendfile-Type: X-Sendfile\r\n")];
        let answers = answers(*script, &requests);
        for (answer, (status, end)) in
            answers.iter().zip([("200", "Hello World"), ("206", "World"), ("404", "</html>\n"), ("200", "Hello World")])
        {
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.ends_with(end), "way {way}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "way {way}: {answer}");
            assert!(!answer.contains("Sendfile") && !answer.contains("not wanted"), "way {way}: {answer}");
            assert_eq!(answer.contains("Set-Cookie: a=1"), status != "404", "way {way}: {answer}");
        }
    }
}

#[test]
fn conditions_hold_for_the_file() {
    for (fields, status) in [
        ("If-None-Match: *\r\n", "304"),
        ("If-Match: \"a\"\r\n", "412"),
        ("Range: bytes=11-\r\n", "416"),
        ("Range: x\r\n", "200"),
    ] {
        let answers = answers(WAYS[0], &[("file", fields)]);
        assert!(answers[0].starts_with(&format!("HTTP/1.1 {status} ")), "{fields}: {}", answers[0]);
    }
}

#[test]
fn what_is_kept_of_requests_goes_with_them() {
    let directory = tempfile::tempdir().expect("a directory is to be had");
    let settings =
        oribi_files::Settings { sendfile_roots: vec![directory.path().to_owned()], ..oribi_files::Settings::default() };
    let file_responses = FileResponses::new(NamedFiles::open(&settings).expect("it is there").expect("there is one"));
    for id in 0..10 * MANY as u64 {
        file_responses.keep(ExchangeId(id), FileRequest { method: b"HEAD".to_vec(), lines: Vec::new() }, |id| id.0 % 4 == 0);
        assert!(file_responses.requests.borrow().len() <= MANY * 6, "those that are over are forgotten");
    }
    let kept = file_responses.requests.borrow().keys().filter(|id| **id % 4 == 0).count();
    assert_eq!(kept, 10 * MANY / 4, "and no others");
    for id in 0..10 * MANY as u64 {
        file_responses.end(ExchangeId(id));
    }
    assert!(file_responses.requests.borrow().is_empty());
}
