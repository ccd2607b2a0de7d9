//! Counters for clients of HTTP/2: streams, resets by either side, and the faults that have ended a connection.

use crate::counters::{Client, SHAPES, Site};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:method GET`, `:scheme http`, `:path /` and `:authority a` (RFC 7541, appendix A).
const GET: &[u8] = b"\x82\x86\x84\x41\x01a";
/// The same fields, and one whose name has capital letters.
const MALFORMED: &[u8] = b"\x82\x86\x84\x41\x01a\x40\x01A\x01b";

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = (content.len() as u32).to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

impl Client {
    /// Begins to speak HTTP/2, with these settings.
    fn open(&mut self, settings: &[u8]) {
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        self.send(&frame(SETTINGS, 0, 0, settings));
    }

    /// Sends bytes, even if the server has already closed the connection.
    fn send_anyhow(&mut self, bytes: &[u8]) {
        let _ = std::io::Write::write_all(&mut self.stream, bytes);
    }
}

#[test]
fn streams_are_counted_and_who_has_reset_them() {
    for edge in SHAPES {
        let mut site = Site::start(&["--edge", edge, "--workers", "1", "--http2-streams", "2"]);
        let before = site.counters();
        let mut client = site.client();
        client.open(&[]);
        // Two whose content does not come, and one too many.
        (1..=5).step_by(2).for_each(|id| client.send(&frame(HEADERS, END_HEADERS, id, GET)));
        let counted = [("http2_connections", 1), ("http2_streams", 2), ("http2_resets_server", 1), ("limit_http2_streams", 1)];
        site.expect(&before, counted);
        [1, 3].iter().for_each(|id| client.send(&frame(RST_STREAM, 0, *id, &[0, 0, 0, 8])));
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 7, MALFORMED));
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 9, GET));
        let expected = [
            ("http2_streams", 4),
            ("http2_resets_client", 2),
            ("http2_resets_server", 2),
            ("http2_stalled", 0),
            ("limit_http2_streams", 1),
            ("protocol_http2", 3),
            ("protocol_http11", 0),
            ("responses_2xx", 1),
        ];
        site.expect(&before, expected);
    }
}

#[test]
fn connections_that_are_ended_are_counted_by_the_fault() {
    let nuisances = frame(PRIORITY, 0, 1, &[0; 5]).repeat(10_500);
    let resets: Vec<u8> = (0..150)
        .flat_map(|number| {
            let id = number * 2 + 1;
            [frame(HEADERS, END_HEADERS, id, GET), frame(RST_STREAM, 0, id, &[0, 0, 0, 8])].concat()
        })
        .collect();
    let fields = [frame(HEADERS, 0, 1, GET), frame(CONTINUATION, 0, 1, b"").repeat(100)].concat();
    for edge in SHAPES {
        let mut site = Site::start(&["--edge", edge, "--workers", "1"]);
        let before = site.counters();
        let faults = [&nuisances[..], &resets, &fields, &fields, &frame(DATA, 0, 0, b"nobody's")];
        let clients: Vec<Client> = faults
            .into_iter()
            .map(|fault| {
                let mut client = site.client();
                client.open(&[]);
                client.send_anyhow(fault);
                client
            })
            .collect();
        let expected = [
            ("http2_connections", 5),
            ("http2_ended_nuisances", 1),
            ("http2_ended_resets", 1),
            ("http2_ended_fields", 2),
            ("http2_ended_other", 1),
            // The allowance is a hundred, and one more is too many.
            ("http2_resets_client", 101),
        ];
        site.expect(&before, expected);
        drop(clients);
    }
}

#[test]
fn a_stream_that_gets_no_room_is_counted() {
    for edge in SHAPES {
        let mut site = Site::start(&["--edge", edge, "--workers", "1", "--write-timeout", "300ms"]);
        let before = site.counters();
        let mut client = site.client();
        // SETTINGS_INITIAL_WINDOW_SIZE of 0.
        client.open(&[0, 4, 0, 0, 0, 0]);
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, GET));
        let expected = [("http2_stalled", 1), ("http2_resets_server", 1), ("limit_write_timeout", 1), ("http2_streams", 1)];
        site.expect(&before, expected);
    }
}
