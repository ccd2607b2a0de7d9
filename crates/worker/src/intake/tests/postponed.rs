//! Tests postponed answers, and heads that are larger than an area.

use super::*;

/// Returns a worker with eight areas, of which seven may be postponed.
fn site() -> Site {
    Site::of(Shape { areas: 8, ..SHAPE })
}

#[test]
fn postponed_answers_leave_room_for_others() {
    let mut site = site();
    let followed: Vec<(Ticket, ExchangeId)> = (0..7)
        .map(|_| {
            let (ticket, exchange) = (site.ask("/events"), site.take());
            site.intake.start(exchange, OK).expect("its client waits");
            site.intake.write(exchange, b"first").expect("its client waits");
            (ticket, exchange)
        })
        .collect();
    assert_eq!(site.receive().len(), 14);
    // One more is refused, before and after its answer has begun.
    let (ticket, exchange) = (site.ask("/later"), site.take());
    assert!(matches!(&site.hear_of(ticket)[..], [Said::Whole(503, ..)]));
    assert!(site.intake.start(exchange, OK).is_err(), "its app learns it");
    let ticket = site.ask("/events");
    let lent = site.lend();
    let exchange = lent.id();
    site.intake.start(exchange, OK).expect("its client waits");
    site.intake.give_back(lent);
    assert_eq!(site.hear_of(ticket), [Said::Head(200, None), Said::Abandoned]);
    assert!(site.intake.write(exchange, b"x").is_err(), "its app learns it");
    // The others continue, and ordinary requests are answered.
    for _ in 0..20 {
        let ticket = site.ask("/");
        let lent = site.lend();
        site.intake.respond(lent.id(), OK, &[b"at once"]).expect("its client waits");
        site.intake.give_back(lent);
        assert!(matches!(&site.hear_of(ticket)[..], [Said::Whole(200, ..)]));
    }
    for &(ticket, exchange) in &followed {
        site.intake.write(exchange, b"news").expect("its client waits");
        assert_eq!(site.hear_of(ticket), [Said::Content(b"news".to_vec())]);
    }
    // A client that disconnects makes room for another.
    let (gone, _) = followed[3];
    site.edge.withdraw(gone);
    site.edge.wake_workers();
    assert!(site.rests());
    assert_eq!(site.receive(), []);
    let (ticket, exchange) = (site.ask("/events"), site.take());
    site.intake.start(exchange, OK).expect("its client waits");
    site.intake.write(exchange, b"news").expect("its client waits");
    assert_eq!(site.hear_of(ticket), [Said::Head(200, None), Said::Content(b"news".to_vec())]);
}

#[test]
fn a_postponed_answer_ends_with_its_time() {
    let mut site = site();
    let (ticket, exchange) = (site.ask("/events"), site.take());
    site.intake.start(exchange, OK).expect("its client waits");
    site.intake.write(exchange, b"first").expect("its client waits");
    let (other, with_host) = (site.ask("/events"), site.lend());
    site.receive();
    site.edge.interrupt(ticket);
    site.edge.interrupt(other);
    site.edge.wake_workers();
    assert!(site.rests());
    assert_eq!(site.receive(), [(ticket, Said::Abandoned)]);
    assert!(site.intake.write(exchange, b"news").is_err(), "its app learns it");
    site.intake.respond(with_host.id(), OK, &[b"late"]).expect("its host is to be interrupted, and may answer");
}

#[test]
fn a_head_larger_than_an_area_is_passed_on() {
    let mut site = site();
    let value = vec![b'v'; 20_000];
    let head = ResponseHead { status: 200, fields: &[(b"X", &value)] };
    for whole in [true, false] {
        let (ticket, exchange) = (site.ask("/"), site.take());
        if whole {
            site.intake.respond(exchange, head, &[b"content"]).expect("its client waits");
        } else {
            site.intake.start(exchange, head).expect("its client waits");
            site.intake.write(exchange, b"content").expect("its client waits");
            site.intake.finish(exchange).expect("its client waits");
        }
        let mut heard = Vec::new();
        while !heard.contains(&Said::Finished) {
            heard.extend(site.hear_of(ticket));
            assert!(site.rests());
        }
        let content = b"content".to_vec();
        let expected = if whole {
            vec![Said::Head(200, Some(7)), Said::File(content), Said::Finished]
        } else {
            vec![Said::Head(200, None), Said::Content(content), Said::Finished]
        };
        assert_eq!(heard, expected);
        assert!(site.intake.opened.is_empty());
    }
}

#[test]
fn a_concurrent_host_learns_that_clients_have_room_or_have_gone() {
    for reports in [false, true] {
        let mut site = site();
        if reports {
            site.intake.report_client_changes();
        }
        let (ticket, exchange) = (site.ask("/large"), site.take());
        site.intake.start(exchange, OK).expect("its client waits");
        let waiting = site.intake.write(exchange, &[7; 4 * 2048]).expect("its client waits");
        assert!(waiting > site.intake.output_limit() && site.rests() && !site.intake.take_client_change());
        site.receive();
        // The edge has made room.
        let is_command = matches!(site.intake.next_exchange_now().expect("epoll works"), Next::Command);
        assert_eq!((is_command, site.intake.take_client_change()), (reports, reports));
        while site.intake.waiting(exchange).is_ok_and(|waiting| waiting > 0) {
            site.receive();
            let _ = site.intake.next_exchange_now().expect("epoll works");
        }
        let _ = site.intake.take_client_change();
        assert!(site.rests());
        site.edge.withdraw(ticket);
        site.edge.wake_workers();
        let is_command = matches!(site.intake.next_exchange_now().expect("epoll works"), Next::Command);
        assert_eq!((is_command, site.intake.take_client_change()), (reports, reports));
        assert!(site.intake.waiting(exchange).is_err() && site.rests());
    }
}

#[test]
fn requests_wait_for_a_concurrent_host_whose_areas_are_all_in_use() {
    let mut site = site();
    site.intake.report_client_changes();
    let open: Vec<(Ticket, ExchangeId)> = (0..8).map(|_| (site.ask("/"), site.take())).collect();
    let last = site.ask("/last");
    assert!(site.rests() && site.receive().is_empty(), "it is neither taken nor refused");
    site.intake.respond(open[3].1, OK, &[b"done"]).expect("its client waits");
    assert!(matches!(&site.hear_of(open[3].0)[..], [Said::Whole(200, ..)]));
    let exchange = site.take();
    site.intake.respond(exchange, OK, &[b"last"]).expect("its client waits");
    assert!(matches!(&site.hear_of(last)[..], [Said::Whole(200, ..)]));
}
