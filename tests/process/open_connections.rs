//! The states of open connections, and the bytes that their clients hold, as metrics show them.

use crate::counters::{Client, SHAPES, Site};
use crate::scrape::{MetricsAddress, Scrape};
use crate::server::{Folder, send, wait_until};
use rustix::process::Signal;

/// Waits until the metrics report these numbers of connections, in each state and with HTTP/2.
fn expect(place: &MetricsAddress, what: &str, states: [(&str, f64); 5], http2: f64) {
    wait_until(what, || {
        let scrape = Scrape::of(place);
        let is =
            |(state, number): &(&str, f64)| scrape.get(&format!("oribi_connections_by_state{{state=\"{state}\"}}")) == *number;
        let by_protocol = |name: &str| scrape.get(&format!("oribi_connections_by_protocol{{protocol=\"{name}\"}}"));
        let all: f64 = states.iter().map(|(_, number)| number).sum();
        states.iter().all(is) && by_protocol("http2") == http2 && by_protocol("http1") == all - http2
    });
}

const NOTHING: [(&str, f64); 5] = [("reading", 0.0), ("answering", 0.0), ("sending", 0.0), ("idle", 0.0), ("lingering", 0.0)];

#[test]
fn each_connection_is_counted_where_it_is() {
    for edge in SHAPES {
        let folder = Folder::new();
        std::fs::File::create(folder.file("large")).and_then(|file| file.set_len(64 << 20)).expect("the folder is ours");
        let files = format!("/f={}", folder.0.display());
        let more = [
            "--edge",
            edge,
            "--workers",
            "2",
            "--header-timeout",
            "5m",
            "--linger-timeout",
            "5m",
            "--static",
            &files,
            "--metrics",
            "0",
        ];
        let mut site = Site::start(&more);
        let place = MetricsAddress::said_in(&site.server.log());
        let mut idle: Vec<Client> = (0..5).map(|_| site.client()).collect();
        idle.iter_mut().for_each(Client::get);
        let said = |site: &mut Site, bytes: &[u8]| {
            let mut client = site.client();
            client.send(bytes);
            client
        };
        let mut others = vec![
            said(&mut site, b""),
            said(&mut site, b"GET / HT"),
            said(&mut site, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"),
            // It takes nothing.
            said(&mut site, b"GET /f/large HTTP/1.1\r\nHost: a\r\n\r\n"),
            // It does not close the connection.
            said(&mut site, b"no request at all\r\n\r\n"),
            said(&mut site, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"),
        ];
        let mut states = NOTHING;
        [3.0, 0.0, 1.0, 6.0, 1.0].into_iter().zip(&mut states).for_each(|(number, state)| state.1 = number);
        expect(&place, "all states", states, 1.0);
        if edge == "on" {
            // Requests without an answer.
            let workers = site.server.wait_for_workers(2);
            workers.iter().for_each(|worker| send(*worker, Signal::STOP));
            idle[..2].iter_mut().for_each(|client| client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
            (states[1].1, states[3].1) = (2.0, 4.0);
            expect(&place, "requests that wait", states, 1.0);
            workers.iter().for_each(|worker| send(*worker, Signal::CONT));
            idle[..2].iter_mut().for_each(|client| client.expect("200", "hello"));
            (states[1].1, states[3].1) = (0.0, 6.0);
            expect(&place, "they are answered", states, 1.0);
        }
        others.truncate(3);
        idle.truncate(2);
        (states[2].1, states[3].1, states[4].1) = (0.0, 2.0, 0.0);
        expect(&place, "others have gone", states, 0.0);
        // A process that is killed takes them along.
        site.server.acceptors().into_iter().for_each(|process| send(process, Signal::KILL));
        expect(&place, "nobody is left", NOTHING, 0.0);
        let mut last = site.client();
        last.get();
        let mut states = NOTHING;
        states[3].1 = 1.0;
        expect(&place, "a new one", states, 0.0);
    }
}

/// The memory and the files that clients hold go with them, also if the process that has their connections is killed.
#[test]
fn the_bytes_that_clients_hold_are_counted_until_they_leave() {
    for edge in SHAPES {
        let mut site = Site::start(&["--edge", edge, "--workers", "1", "--body-buffer-size", "20000", "--metrics", "0"]);
        let place = MetricsAddress::said_in(&site.server.log());
        let expect = |what: &str, memory: f64, files: f64| {
            wait_until(what, || {
                let scrape = Scrape::of(&place);
                let held = scrape.get("oribi_held_bytes{of=\"bodies\",in=\"memory\"}");
                // An input buffer may be larger than the bytes in it.
                held >= memory && (held == 0.0) == (memory == 0.0) && scrape.get("oribi_held_files") == files
            });
        };
        let mut uploads: Vec<Client> = [10_000, 200_000]
            .into_iter()
            .map(|size| {
                let mut client = site.client();
                client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n").as_bytes());
                client.send(&vec![b'x'; size - 1]);
                client
            })
            .collect();
        expect("both are there", 9_999.0, 1.0);
        uploads.pop();
        expect("the one in a file has gone", 9_999.0, 0.0);
        uploads.pop();
        expect("nothing is left", 0.0, 0.0);
        let mut last = site.client();
        last.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf");
        expect("another one", 4.0, 0.0);
        site.server.acceptors().into_iter().for_each(|process| send(process, Signal::KILL));
        expect("nobody is left", 0.0, 0.0);
    }
}
