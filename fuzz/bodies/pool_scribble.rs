//! An edge and two workers of a pool act as the bytes of the fuzzer say. Meanwhile a stranger overwrites the memory that one of
//! the workers may write.

use oribi_pool::{DescriptorRequest, Edge, Event, Memory, NotWritten, RequestState, Shape, Taken, Ticket, Withdrawal, Worker};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

const SHAPE: Shape = Shape { slots: 4, request_bytes: 64, workers: 2, areas: 2, area_bytes: 512 };

/// The index of the worker whose memory the stranger overwrites. The memory of the first worker is never overwritten.
const STRANGER: usize = 1;

/// Takes numbers from the bytes of the fuzzer. When these are used up, numbers are zero.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn below(&mut self, count: usize) -> usize {
        usize::from(u16::from_ne_bytes([self.byte(), self.byte()])) % count
    }
}

/// A request that a worker has taken, and its answer so far.
struct Hand {
    taken: Taken,
    text: Vec<u8>,
    said: Vec<u8>,
}

/// A process that may take requests.
struct Player {
    worker: Worker,
    hands: Vec<Hand>,
}

#[derive(Default)]
struct Asked {
    said: Vec<u8>,
    wished: usize,
}

/// Counts of events, by which tests check that something happened at all.
#[derive(Debug, Default)]
pub struct ScribbleCounts {
    /// Responses that were complete.
    pub finished: usize,
    /// Requests whose workers were lost.
    pub lost: usize,
    /// Workers whose memory made no sense.
    pub broken: usize,
}

struct Play<'a> {
    source: Source<'a>,
    memory: Memory,
    file: File,
    edge: Edge,
    players: Vec<Player>,
    /// Requests that have not ended.
    open: HashMap<Ticket, Asked>,
    withdrawn: HashSet<Ticket>,
    /// The answers of the first worker, which follows the rules, by the text of the request.
    answered: HashMap<Vec<u8>, Vec<u8>>,
    texts: HashMap<Ticket, Vec<u8>>,
    asked: u32,
    /// Whether the stranger writes to the answers of its worker, and whether it writes to the claims.
    answers: bool,
    claims: bool,
    seen: ScribbleCounts,
}

/// Acts as `data` says.
pub fn check(data: &[u8]) -> ScribbleCounts {
    let mut source = Source(data);
    let options = source.byte();
    let memory = Memory::new(SHAPE).expect("memory");
    let file = File::from(memory.as_fd().try_clone_to_owned().expect("a descriptor"));
    let edge = Edge::new(&memory).expect("an edge");
    let players = (0..2).map(|number| player(&memory, number)).collect();
    let mut play = Play {
        source,
        memory,
        file,
        edge,
        players,
        open: HashMap::new(),
        withdrawn: HashSet::new(),
        answered: HashMap::new(),
        texts: HashMap::new(),
        asked: 0,
        answers: options & 1 != 0,
        claims: options & 2 != 0,
        seen: ScribbleCounts::default(),
    };
    while !play.source.0.is_empty() {
        play.act();
    }
    play.end();
    play.seen
}

fn player(memory: &Memory, number: u32) -> Player {
    Player { worker: Worker::attach(memory, number).expect("a free place"), hands: Vec::new() }
}

impl Play<'_> {
    fn act(&mut self) {
        let number = usize::from(self.source.byte() & 1);
        match self.source.byte() % 20 {
            0..=2 => self.submit(),
            3..=4 => self.take(number),
            5..=6 => self.write(number),
            7..=8 => self.finish(number),
            9 => self.collect(),
            10 => self.hold(),
            11 => self.withdraw(),
            12 => self.audit(),
            13 => self.sleep(number),
            14 => self.die(number),
            _ => self.scribble(),
        }
    }

    fn submit(&mut self) {
        let Some(mut reserved) = self.edge.reserve() else { return };
        if self.source.byte() == 0 {
            return self.edge.cancel(reserved);
        }
        self.asked += 1;
        let text = format!("request {}", self.asked).into_bytes();
        self.edge.room(&mut reserved)[..text.len()].copy_from_slice(&text);
        let ticket = self.edge.submit(reserved, text.len());
        assert!(self.open.insert(ticket, Asked::default()).is_none(), "every ticket is new");
        self.texts.insert(ticket, text);
    }

    fn take(&mut self, number: usize) {
        let player = &mut self.players[number];
        if let Some(taken) = player.worker.take() {
            let text = player.worker.request(&taken).to_vec();
            player.hands.push(Hand { taken, text, said: Vec::new() });
        }
    }

    fn write(&mut self, number: usize) {
        let (kind, length) = (self.source.byte() % 8, self.source.below(700));
        let Player { worker, hands } = &mut self.players[number];
        let Some(hand) = hands.last_mut() else { return };
        let bytes = &hand.text.repeat(length.div_ceil(hand.text.len().max(1)))[..];
        let bytes = &bytes[..length.min(bytes.len())];
        let outcome = match kind {
            0 => worker.head(&mut hand.taken, bytes),
            1 => worker.interim(&mut hand.taken, bytes),
            2 => worker.message(&mut hand.taken, bytes),
            3 => worker.request_descriptor(&mut hand.taken, DescriptorRequest::Content),
            4 => worker.file(&mut hand.taken, self.file.as_fd(), 0, 8),
            5 if length > 500 => worker.deadline(&mut hand.taken, Some(Duration::from_millis(length as u64))),
            5 if length > 400 => worker.deadline(&mut hand.taken, None),
            _ => {
                let taken = worker.content(&mut hand.taken, bytes);
                hand.said.extend_from_slice(&bytes[..taken]);
                Ok(())
            }
        };
        match outcome {
            Ok(()) if matches!(kind, 0..=2) => hand.said.extend_from_slice(bytes),
            Ok(()) | Err(NotWritten::Full) => {}
            Err(NotWritten::Never(_)) => assert!(kind == 4 || length > 400, "{kind} {length}"),
        }
        worker.flush(&hand.taken);
        let _ = worker.orders(&hand.taken);
        worker.receive().expect("nobody floods a worker");
        let _ = worker.take_descriptor(&hand.taken).expect("nobody floods a worker");
    }

    fn finish(&mut self, number: usize) {
        let Player { worker, hands } = &mut self.players[number];
        let Some(hand) = hands.pop() else { return };
        let Hand { taken, text, mut said } = hand;
        match self.source.byte() {
            0 if number == STRANGER => return worker.abandon(taken),
            way if way % 2 == 0 => match worker.respond(taken, &text, &[&text, b"end"]) {
                Ok(()) => said.extend([&text, &text, &b"end"[..]].concat()),
                Err(taken) => worker.finish(taken),
            },
            _ => worker.finish(taken),
        }
        if number != STRANGER {
            self.answered.insert(text, said);
        }
    }

    /// Reads everything that can be read.
    fn collect(&mut self) {
        let mut bytes = Vec::new();
        self.edge.awake();
        self.edge.gather();
        while let Some(event) = self.edge.next(&mut bytes) {
            self.note(event, &bytes);
        }
        self.edge.wake_workers();
    }

    fn note(&mut self, event: Event, bytes: &[u8]) {
        let ticket = match event {
            Event::Head(ticket)
            | Event::Interim(ticket)
            | Event::Message(ticket)
            | Event::Commands(ticket)
            | Event::Content(ticket)
            | Event::Trailers(ticket) => {
                assert!(bytes.len() <= SHAPE.area_bytes as usize);
                self.asked(ticket).said.extend_from_slice(bytes);
                return;
            }
            Event::File(ticket, file, _) => {
                assert!(self.answers || file.is_some(), "it was sent");
                self.asked(ticket);
                return;
            }
            Event::DescriptorRequest(ticket, _) => {
                self.asked(ticket).wished += 1;
                let _ = self.edge.send_descriptor(ticket, self.file.as_fd());
                return;
            }
            Event::Broken(number) => {
                assert!(self.answers && number as usize == STRANGER, "worker {number} follows the rules");
                self.seen.broken += 1;
                return;
            }
            Event::Deadline(ticket, time) => {
                assert!(self.answers || time.is_none_or(|time| (501..700).contains(&time.as_millis())));
                self.asked(ticket);
                return;
            }
            Event::Whole(ticket, head) => {
                assert!(head <= bytes.len() && bytes.len() <= SHAPE.area_bytes as usize);
                self.asked(ticket).said.extend_from_slice(bytes);
                ticket
            }
            Event::Finished(ticket) | Event::Abandoned(ticket) | Event::Lost(ticket) => ticket,
        };
        let asked = self.open.remove(&ticket).expect("a request ends once");
        self.seen.finished += usize::from(matches!(event, Event::Finished(_) | Event::Whole(..)));
        self.seen.lost += usize::from(matches!(event, Event::Lost(_)));
        let text = self.texts.remove(&ticket).expect("every request has a text");
        match self.answered.remove(&text) {
            // A stranger that writes to the claims may have deceived both.
            _ if self.claims => {}
            Some(said) => {
                assert!(matches!(event, Event::Finished(_) | Event::Whole(..)), "{event:?} of what was answered by the rules");
                assert_eq!(asked.said, said);
            }
            None => assert!(self.players[0].hands.iter().all(|hand| hand.text != text), "it is being answered"),
        }
    }

    fn asked(&mut self, ticket: Ticket) -> &mut Asked {
        self.open.get_mut(&ticket).expect("what is said belongs to a request that is open")
    }

    fn hold(&mut self) {
        let Some(ticket) = self.any() else { return };
        if self.source.byte() & 1 == 0 {
            let _ = self.edge.pause(ticket);
        } else {
            self.edge.resume(ticket);
        }
    }

    fn withdraw(&mut self) {
        let Some(ticket) = self.any() else { return };
        match self.source.byte() % 4 {
            0 => return self.edge.interrupt(ticket),
            2 => return self.edge.warn(ticket),
            _ => {}
        }
        if self.edge.withdraw(ticket) != Withdrawal::Ended {
            self.open.remove(&ticket);
            self.withdrawn.insert(ticket);
        }
    }

    fn any(&mut self) -> Option<Ticket> {
        let mut tickets: Vec<(&Vec<u8>, Ticket)> = self.open.keys().map(|ticket| (&self.texts[ticket], *ticket)).collect();
        tickets.sort_by_key(|ticket| ticket.0);
        let tickets: Vec<Ticket> = tickets.into_iter().map(|ticket| ticket.1).collect();
        (!tickets.is_empty()).then(|| tickets[self.source.below(tickets.len())])
    }

    fn audit(&mut self) {
        self.collect();
        self.edge.audit();
        self.look();
    }

    /// Checks the view of a reader of the memory. Unless the stranger writes to the claims, the reader sees each open request
    /// once, with its bytes.
    fn look(&mut self) {
        let seen = self.memory.inspect().expect("memory can be read");
        let mut texts = Vec::new();
        for pooled in &seen {
            if let RequestState::Taken { worker, .. } = pooled.state {
                assert!(worker < SHAPE.workers);
            }
            let bytes = self.memory.look_at(pooled, usize::MAX).expect("memory can be read").expect("nothing moves meanwhile");
            assert!(bytes.len() <= SHAPE.request_bytes as usize);
            texts.push(bytes);
        }
        assert!(seen.len() <= SHAPE.slots as usize);
        if !self.claims {
            assert!(self.open.keys().all(|ticket| texts.iter().filter(|text| **text == self.texts[ticket]).count() == 1));
        }
    }

    fn sleep(&mut self, number: usize) {
        let Player { worker, hands } = &mut self.players[number];
        match hands.last() {
            Some(hand) => drop(worker.prepare_to_wait_for_room(&hand.taken, 64)),
            None => {
                if let Some(taken) = worker.prepare_to_sleep(false) {
                    let text = worker.request(&taken).to_vec();
                    hands.push(Hand { taken, text, said: Vec::new() });
                }
            }
        }
        if self.source.byte() & 1 == 0 {
            self.players[number].worker.awake();
        }
        let _ = self.edge.prepare_to_sleep();
        self.edge.wake_another();
    }

    /// A worker dies, and another one takes its place.
    fn die(&mut self, number: usize) {
        self.players[number].hands.clear();
        self.edge.report_death(number as u32);
        self.collect();
        self.players[number] = player(&self.memory, number as u32);
    }

    fn scribble(&mut self) {
        let part = match (self.answers, self.claims) {
            (true, true) if self.source.byte() & 1 == 0 => self.memory.answers(STRANGER as u32),
            (true, false) => self.memory.answers(STRANGER as u32),
            (_, true) => self.memory.claims(),
            (false, false) => return,
        };
        let place = self.place_in(&part);
        let value = match self.source.byte() % 4 {
            0 => self.source.number(),
            1 => u64::from(self.source.byte()),
            change => {
                // A value that is already there, the same or nearly.
                let from = if change == 2 { place } else { self.place_in(&part) };
                let mut word = [0; 8];
                self.file.read_exact_at(&mut word, from).expect("it lies in the file");
                u64::from_ne_bytes(word).wrapping_add(u64::from(self.source.byte())).wrapping_sub(1)
            }
        };
        self.file.write_all_at(&value.to_ne_bytes(), place).expect("it lies in the file");
        self.look();
    }

    /// Returns the offset of a word in the first bytes of `part`: the rest of a part is mostly unused.
    fn place_in(&mut self, part: &Range<usize>) -> u64 {
        const USED: usize = 180;
        (part.start + self.source.below(USED.min(part.len() / 8)) * 8) as u64
    }

    /// Checks that, in every state, a worker that follows the rules can answer all remaining requests, and that nothing is
    /// lost.
    fn end(&mut self) {
        self.players.truncate(STRANGER);
        self.edge.report_death(STRANGER as u32);
        for ticket in self.open.keys().copied().collect::<Vec<_>>() {
            self.edge.resume(ticket);
        }
        for _ in 0..4 {
            self.audit();
            while let Some(hand) = self.players[0].hands.pop() {
                self.players[0].worker.finish(hand.taken);
                self.answered.insert(hand.text, hand.said);
            }
            for _ in 0..2 * SHAPE.slots {
                self.take(0);
                self.source = Source(&[1]);
                self.finish(0);
                self.collect();
            }
        }
        assert!(self.open.is_empty(), "{} requests are stranded", self.open.len());
        let free: Vec<_> = std::iter::from_fn(|| self.edge.reserve()).collect();
        assert_eq!(free.len(), SHAPE.slots as usize, "all slots are free again");
        assert_eq!(self.edge.depth(), 0);
    }
}
