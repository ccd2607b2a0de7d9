//! Tests how requests are taken and lent, and when a worker takes no more.

use super::*;
use oribi_host::Gateway;
use oribi_message::{KnownVariable, Role, Trailers, Variable};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::thread;

fn file(bytes: &[u8]) -> File {
    let file = File::from(memfd_create("content", MemfdFlags::CLOEXEC).expect("memory is to be had"));
    file.write_all_at(bytes, 0).expect("memory is to be had");
    file
}

fn text_of(content: Content<'_>) -> Option<Vec<u8>> {
    match content {
        Content::None => None,
        Content::Memory(bytes) => Some(bytes.to_vec()),
        Content::File { file, size } => {
            let mut bytes = vec![0; size as usize];
            let file = File::from(file.try_clone_to_owned().expect("a descriptor"));
            file.read_exact_at(&mut bytes, 0).expect("it has that many bytes");
            Some(bytes)
        }
    }
}

#[test]
fn a_request_is_lent_as_it_was_submitted_and_in_its_order() {
    let mut site = Site::new();
    site.ask_with("/one", Content::Memory(b"content"));
    site.ask("/two");
    assert_eq!(site.intake.waiting_requests(), 2);
    let one = site.lend();
    let request = one.request(&[]);
    assert_eq!((request.head.method(), request.head.path()), (&b"GET"[..], &b"/one"[..]));
    assert_eq!(request.head.field(KnownField::Host), Some(&b"a"[..]));
    assert_eq!((request.remote.address, request.server.address), (&b"192.0.2.1"[..], &b"example.org"[..]));
    assert_eq!(text_of(request.content), Some(b"content".to_vec()));
    let two = site.lend();
    assert_eq!(two.request(&[]).head.path(), b"/two");
    assert!(one.id() != two.id() && site.intake.answering() == 2);
    assert!(site.rests());
}

#[test]
fn trailers_are_lent_with_their_request_and_not_with_the_next() {
    let mut site = Site::new();
    let (text, layout) = (b"GET/", HeadLayout::default());
    let (head, endpoint) = (RequestHead::new(text, &layout), Endpoint { address: b"", port: b"0" });
    let (content, remote, server) = (Content::Memory(b"content"), endpoint, endpoint);
    let (https, forwarded_port, underscores, gateway) = (false, false, false, None);
    let sent = Trailers::of([(&b"x"[..], &b"y"[..]), (b"empty", b""), (b"x", b"z")]);
    for trailers in [sent.as_deref(), None] {
        submit_request(
            &mut site.edge,
            &Request {
                head,
                content,
                trailers,
                remote,
                server,
                forwarded_port,
                chosen_name: false,
                https,
                underscores,
                gateway,
            },
        );
        let lent = site.lend();
        assert_eq!(lent.request(&[]).trailers, trailers);
        assert_eq!(text_of(lent.request(&[]).content), Some(b"content".to_vec()));
        site.intake.give_back(lent);
    }
}

#[test]
fn content_in_a_file_is_asked_for() {
    let mut site = Site::new();
    let content = file(b"a long content");
    let (size, data) = (14, file(b"what to filter"));
    site.ask_with("/", Content::File { file: content.as_fd(), size });
    let Site { edge, intake, .. } = &mut site;
    thread::scope(|scope| {
        scope.spawn(|| send_descriptor(edge, DescriptorRequest::Content, content.as_fd()));
        let Ok(Next::Exchange(lent)) = intake.next_exchange_now() else { panic!("a request is there") };
        assert_eq!(text_of(lent.request(&[]).content), Some(b"a long content".to_vec()));
        intake.give_back(lent);
    });

    // A web server may also send data to filter.
    let (text, layout) = (b"FCGI_ROLE", HeadLayout::default());
    let variables = [Variable { name: Span::new(0, 9), value: Span::new(9, 9), known: KnownVariable::lookup(b"FCGI_ROLE") }];
    let head = RequestHead::new(text, &layout);
    let endpoint = Endpoint { address: b"", port: b"0" };
    let gateway = Gateway::new(Role::Filter, text, &variables, Content::File { file: data.as_fd(), size });
    let content = Content::None;
    let (remote, server) = (endpoint, endpoint);
    let gateway = Some(gateway);
    let (trailers, forwarded_port) = (None, false);
    let request = Request {
        head,
        content,
        trailers,
        remote,
        server,
        forwarded_port,
        chosen_name: false,
        https: true,
        underscores: false,
        gateway,
    };
    submit_request(edge, &request);
    thread::scope(|scope| {
        scope.spawn(|| send_descriptor(edge, DescriptorRequest::Data, data.as_fd()));
        let Ok(Next::Exchange(lent)) = intake.next_exchange_now() else { panic!("a request is there") };
        let gateway = lent.request(&[]).gateway.expect("it came from a web server");
        assert_eq!((gateway.role, text_of(gateway.data)), (Role::Filter, Some(b"what to filter".to_vec())));
    });
}

#[test]
fn a_worker_that_may_have_no_more_descriptors_says_so_at_once() {
    let name = "intake::tests::requests::a_worker_that_may_have_no_more_descriptors_says_so_at_once";
    if oribi_test_support::run_with_few_descriptors(name) {
        return;
    }
    let mut site = Site::new();
    let content = file(b"a long content");
    let ticket = site.ask_with("/", Content::File { file: content.as_fd(), size: 14 });
    let all = oribi_test_support::take_all_descriptors();
    let Site { edge, intake, .. } = &mut site;
    thread::scope(|scope| {
        scope.spawn(|| send_descriptor(edge, DescriptorRequest::Content, content.as_fd()));
        assert!(matches!(intake.next_exchange_now(), Ok(Next::Nothing(None))));
    });
    drop(all);
    assert_eq!(site.hear_of(ticket), [Said::Whole(503, b"Service Unavailable\n".to_vec(), 20)]);
}

#[test]
fn a_request_whose_client_goes_while_its_content_is_asked_for_is_nobodys() {
    let mut site = Site::new();
    let content = file(b"");
    let ticket = site.ask_with("/", Content::File { file: content.as_fd(), size: 14 });
    let Site { edge, intake, .. } = &mut site;
    thread::scope(|scope| {
        scope.spawn(|| {
            while edge.holder(ticket).is_none() {
                thread::yield_now();
            }
            edge.withdraw(ticket);
        });
        assert!(matches!(intake.next_exchange_now(), Ok(Next::Nothing(None))));
    });
    assert!(intake.opened.is_empty());
    site.ask("/next");
    assert_eq!(site.lend().request(&[]).head.path(), b"/next");
}

#[test]
fn fields_are_removed_before_an_app_sees_them() {
    let mut site = Site::new();
    site.ask("/");
    let mut lent = site.lend();
    lent.remove_fields(|_| true);
    assert_eq!(lent.head().fields().count(), 1, "known fields stay");
}

#[test]
fn as_many_requests_are_unanswered_as_there_are_areas() {
    let mut site = Site::new();
    let tickets: Vec<Ticket> = (0..4).map(|number| site.ask(&format!("/{number}"))).collect();
    let taken: Vec<ExchangeId> = (0..3).map(|_| site.take()).collect();
    assert!(site.rests());
    site.intake.respond(taken[1], OK, &[b"late"]).expect("its client waits");
    assert_eq!(site.hear_of(tickets[1]), [Said::Whole(200, b"late".to_vec(), 4)]);
    let fourth = site.take();
    for (ticket, exchange) in [(tickets[3], fourth), (tickets[0], taken[0]), (tickets[2], taken[2])] {
        site.intake.respond(exchange, OK, &[]).expect("its client waits");
        assert_eq!(site.hear_of(ticket), [Said::Whole(200, Vec::new(), 0)]);
    }
    assert_eq!(site.intake.answering(), 0);
}

#[test]
fn a_worker_that_stops_takes_nothing_more_and_answers_what_it_has() {
    let mut site = Site::new();
    let ticket = site.ask("/one");
    let one = site.take();
    site.ask("/two");
    site.intake.stop(false);
    assert!(site.intake.stops() && !site.intake.finished());
    assert!(matches!(site.intake.next_exchange_now(), Ok(Next::Nothing(Some(_)))), "it looks for the end of the edge");
    site.intake.respond(one, OK, &[b"one"]).expect("its client waits");
    assert_eq!(site.hear_of(ticket), [Said::Whole(200, b"one".to_vec(), 3)]);
    assert!(site.intake.finished());
    assert!(matches!(site.intake.next_exchange_now(), Ok(Next::Command)));
    assert_eq!(site.edge.depth(), 1, "another worker can take it");
}

#[test]
fn a_worker_that_is_the_last_one_takes_what_comes_until_its_edge_has_ended() {
    let mut site = Site::new();
    let tickets = [site.ask("/one"), site.ask("/two")];
    site.intake.stop(true);
    assert!(site.intake.stops());
    for ticket in tickets {
        let exchange = site.take();
        site.intake.respond(exchange, OK, &[]).expect("its client waits");
        assert_eq!(site.hear_of(ticket), [Said::Whole(200, Vec::new(), 0)]);
    }
    assert!(matches!(site.intake.next_exchange_now(), Ok(Next::Nothing(Some(_)))), "it looks again by itself");
    let ticket = site.ask("/three");
    let exchange = site.take();
    site.intake.respond(exchange, OK, &[]).expect("its client waits");
    assert_eq!(site.hear_of(ticket), [Said::Whole(200, Vec::new(), 0)]);
    site.edge.leave();
    assert!(!site.intake.finished());
    assert!(matches!(site.intake.next_exchange_now(), Ok(Next::Command)));
    assert!(site.intake.finished());
}

#[test]
fn several_edges_are_served_in_turn() {
    let (mut site, memory) = (Site::new(), Memory::new(SHAPE).expect("memory is to be had"));
    let mut other = Edge::new(&memory).expect("memory is to be had");
    let worker = Worker::attach_free(&memory).expect("a place is free");
    site.event_sources.listen_to_pool(worker.descriptor(), worker.line()).expect("epoll works");
    site.intake.pools.push(worker);
    for _ in 0..2 {
        site.ask("/one");
        submit(&mut other, "/other", Content::None);
    }
    let paths: Vec<Vec<u8>> = (0..4)
        .map(|_| {
            let lent = site.lend();
            let path = lent.head().path().to_vec();
            let id = lent.id();
            site.intake.give_back(lent);
            site.intake.respond(id, OK, &[]).expect("its client waits");
            path
        })
        .collect();
    assert_eq!(paths, [&b"/one"[..], b"/other", b"/one", b"/other"]);
    assert_eq!(site.receive().len(), 2);
}

#[test]
fn an_app_gets_its_clients_socket() {
    let mut site = Site::new();
    site.ask("/");
    let exchange = site.take();
    let (client, server) = std::os::unix::net::UnixStream::pair().expect("sockets are to be had");
    let server = OwnedFd::from(server);
    let Site { edge, intake, .. } = &mut site;
    let taken = thread::scope(|scope| {
        scope.spawn(|| send_descriptor(edge, DescriptorRequest::Socket, server.as_fd()));
        intake.take_socket(exchange).expect("the edge passes it on")
    });
    rustix::io::write(&taken, b"by hand").expect("the client is there");
    let mut seen = [0; 7];
    rustix::io::read(&client, &mut seen).expect("the app is there");
    assert_eq!(&seen, b"by hand");
    intake.abandon(exchange);
    assert_eq!(intake.take_socket(exchange).map_err(|error| error.kind()).err(), Some(std::io::ErrorKind::NotConnected));
}
