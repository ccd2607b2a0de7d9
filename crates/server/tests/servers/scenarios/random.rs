//! Compares the answers to random clients with a model. However the input is cut into pieces and however fast the client reads,
//! each byte of each answer must be the one that the model expects.

use super::harness::*;
use super::response::*;
use oribi_host::{BodyWriter, Reply, Request};
use oribi_io::Client;
use oribi_server::config::Settings;
use std::fs::File;
use std::io::Write;

const CASES: u64 = 1500;

/// Marsaglia's xorshift64: small, with the same numbers on all machines.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // Any odd multiple spreads small seeds over all bits; zero would stay zero.
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    /// Returns a random size: mostly a small one, sometimes one near the sizes at which the server behaves differently.
    fn size(&mut self) -> usize {
        match self.below(10) {
            0..=5 => self.below(40),
            6 => self.below(3000),
            7 => 4090 + self.below(12),
            8 => (16 << 10) - 120 + self.below(240),
            _ => self.below(60_000),
        }
    }
}

/// The first letter of a request's target selects the action of the app, and the number after it the size of the response.
fn app(request: &Request<'_>, reply: Reply<'_>) {
    let target = std::str::from_utf8(request.head.target()).expect("these tests send text");
    let size: usize = target[2..].parse().expect("a number");
    let mut body = pattern(size);
    body.extend_from_slice(&content(request));
    match target.as_bytes()[1] {
        b'a' => reply.send(ok(), &[&body]).expect("the client is there"),
        b'p' => {
            let parts: Vec<&[u8]> = body.chunks(body.len() / 7 + 1).collect();
            reply.send(ok(), &parts).expect("the client is there");
        }
        b'f' => {
            let mut file: File = tempfile::tempfile().expect("a file");
            file.write_all(b"in front").and_then(|()| file.write_all(&body)).expect("there is room");
            reply.send_file(ok(), file, 8, body.len() as u64).expect("the client is there");
        }
        b's' => {
            let mut writer: BodyWriter<'_> = reply.start(ok()).expect("the client is there");
            body.chunks(body.len() / 5 + 1).for_each(|piece| writer.write(piece).expect("the client is there"));
            writer.finish().expect("the client is there");
        }
        _ => drop(reply),
    }
}

/// Returns a random request, the content of the expected answer, and its status.
fn request(random: &mut Random) -> (Vec<u8>, Vec<u8>, u16) {
    let kind = [b'a', b'p', b'f', b's', b'd'][random.below(5)] as char;
    let size = random.size();
    let target = format!("/{kind}{size}");
    let (bytes, content) = match random.below(4) {
        0 | 1 => (get(&target), Vec::new()),
        2 => {
            let content = pattern(random.size());
            (post(&target, &content), content)
        }
        _ => {
            let content = pattern(random.size());
            (post_chunked(&target, &content, 1 + random.size()), content)
        }
    };
    match kind {
        'd' => (bytes, b"Internal Server Error\n".to_vec(), 500),
        _ => (bytes, [pattern(size), content].concat(), 200),
    }
}

#[derive(Default)]
struct Conversation {
    to_send: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    expected: Vec<(u16, Vec<u8>)>,
}

fn converse(seed: u64, server: &mut Server) {
    let mut random = Random::new(seed);
    let clients: Vec<Client> = (0..1 + random.below(3)).map(|_| server.connect()).collect();
    let mut talks: Vec<Conversation> = clients.iter().map(|_| Conversation::default()).collect();
    for talk in &mut talks {
        for _ in 0..1 + random.below(6) {
            let (bytes, body, status) = request(&mut random);
            talk.to_send.extend(bytes);
            talk.expected.push((status, body));
        }
    }
    let slow = random.below(3) == 0;
    loop {
        let mut quiet = true;
        for (client, talk) in clients.iter().zip(&mut talks) {
            let left = talk.to_send.len() - talk.sent;
            let count = left.min(1 + if random.below(2) == 0 { random.below(60) } else { random.below(20_000) });
            quiet &= count == 0;
            client.send(&talk.to_send[talk.sent..talk.sent + count]);
            talk.sent += count;
            if slow && left > 0 {
                client.set_window(random.size() * 2);
            } else {
                client.set_window(usize::MAX);
            }
        }
        // Not always to the end, so that events arrive in the middle of the server's work.
        match random.below(3) {
            0 => drop(server.run_one()),
            _ => server.run(),
        }
        for (client, talk) in clients.iter().zip(&mut talks) {
            talk.received.extend(client.received());
        }
        if quiet {
            break;
        }
    }
    server.run();
    for (client, talk) in clients.iter().zip(&mut talks) {
        talk.received.extend(client.received());
        assert!(!client.closed(), "seed {seed}");
        client.end();
        let mut rest = &talk.received[..];
        for (number, (status, body)) in talk.expected.iter().enumerate() {
            let Some((response, length)) = read_one(rest, false) else { panic!("seed {seed}: answer {number} is not whole") };
            assert_eq!(response.status, *status, "seed {seed}, answer {number}");
            assert!(response.body == *body, "seed {seed}: content of answer {number}");
            rest = &rest[length..];
        }
        assert!(rest.is_empty(), "seed {seed}: more than was asked for");
    }
    server.run();
    assert_eq!(server.connections(), 0, "seed {seed}");
}

#[test]
fn every_byte_is_answered() {
    let first: u64 = std::env::var("ORIBI_SEED").map_or(0, |seed| seed.parse().expect("ORIBI_SEED is a number"));
    println!("ORIBI_SEED={first}, {CASES} cases");
    let mut settings = Settings::default();
    settings.limits.content_memory_bytes = 20_000;
    settings.limits.pipelined_per_turn = 3;
    let mut server = Server::new(settings.clone(), app);
    for seed in first..first + CASES {
        if seed % 50 == 0 {
            // The simulation visits all clients that it ever had.
            server = Server::new(settings.clone(), app);
        }
        converse(seed, &mut server);
    }
}
