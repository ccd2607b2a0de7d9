//! Properties of all bytes that a web server, or a client in its place, can send over FastCGI.

use crate::fastcgi_transcript::{Item, What, read};
use crate::records::{Record, pair};
use oribi_message::Role;
use oribi_proto::fcgi::Limits;
use std::collections::VecDeque;

/// Checks input that has any bytes. The first byte of `data` chooses the limits and whether requests are held. The second
/// chooses how the input, which is the rest of `data`, is cut into pieces. The result must be the same for all pieces; [`read`]
/// checks the other properties. If the first byte is 192 or more, the rest describes valid, interleaved requests instead, whose
/// outcome is known.
pub fn check(data: &[u8]) {
    let [choice, cuts, input @ ..] = data else { return };
    if *choice >= 192 {
        return check_requests(input, *cuts);
    }
    let (limits, hold) = (limits_of(*choice), choice % 2 == 1);
    let whole = read([input], &limits, hold);
    assert_eq!(read(input.chunks(1), &limits, hold), whole, "byte by byte");
    assert_eq!(read(pieces(input, *cuts), &limits, hold), whole, "in pieces");
}

/// The usual limits, or limits so small that a short input reaches each.
fn limits_of(choice: u8) -> Limits {
    let small = usize::from(choice);
    match choice {
        0..96 => Limits::default(),
        96.. => Limits {
            connections: u32::from(choice),
            requests: u16::from(choice / 2 % 4),
            params_bytes: small,
            pairs: small % 8,
            target_bytes: small % 32,
            strict_target: small % 2 == 0,
            content_bytes: u64::from(choice % 16),
        },
    }
}

/// Cuts `input` at places that depend only on `cuts`.
fn pieces(mut input: &[u8], cuts: u8) -> impl Iterator<Item = &[u8]> {
    let mut state = u32::from(cuts) + 1;
    core::iter::from_fn(move || {
        if input.is_empty() {
            return None;
        }
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = 1 + (state >> 24) as usize % (1 + usize::from(cuts) / 4);
        let (piece, rest) = input.split_at(size.min(input.len()));
        input = rest;
        Some(piece)
    })
}

/// Takes numbers and texts from the bytes of the fuzzer. When these are used up, numbers are zero and texts are empty.
struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }
}

/// A request and its expected outcome.
struct Planned<'a> {
    id: u16,
    role: Role,
    target: String,
    content: &'a [u8],
    file: &'a [u8],
    aborted: bool,
    records: VecDeque<Record>,
}

impl<'a> Planned<'a> {
    fn new(number: u8, source: &mut Source<'a>) -> Self {
        let choice = source.byte();
        let (role, code) = match choice % 4 {
            0 | 1 => (Role::Responder, 1),
            2 => (Role::Authorizer, 2),
            _ => (Role::Filter, 3),
        };
        let id = u16::from_be_bytes([choice, number]) + 1;
        let target = format!("/{number}");
        let content = if role == Role::Authorizer { &[] } else { source.bytes() };
        let file = if role == Role::Filter { source.bytes() } else { &[] };
        let params = pair(b"REQUEST_URI", target.as_bytes());
        let mut records = VecDeque::new();
        let mut push = |kind: u8, content: &[u8], padding: u8| {
            records.push_back(Record { kind, id, content: content.to_vec(), padding });
        };
        push(1, &[0, code, 1, 0, 0, 0, 0, 0], choice / 16);
        let mut stream = |kind: u8, content: &[u8], source: &mut Source<'_>| {
            for piece in content.chunks(1 + usize::from(source.byte())) {
                push(kind, piece, source.byte());
            }
            push(kind, &[], source.byte() / 8);
        };
        stream(4, &params, source);
        match role {
            Role::Authorizer if choice % 8 == 2 => {}
            _ => stream(5, content, source),
        }
        if role == Role::Filter {
            stream(8, file, source);
        }
        let aborted = choice & 32 != 0;
        if aborted {
            // The request of an authorizer is complete after its variables.
            let most = records.len() - 1 - usize::from(role == Role::Authorizer && choice % 8 != 2);
            let place = 1 + usize::from(source.byte()) % most;
            records.insert(place, Record { kind: 2, id, content: Vec::new(), padding: 0 });
        }
        Self { id, role, target, content, file, aborted, records }
    }

    /// Compares the expected outcome with the real one.
    fn check(&self, items: &[Item]) {
        let happened = items.iter().filter_map(|item| match item {
            Item::Of(id, what) if *id == self.id => Some(what),
            _ => None,
        });
        let (mut content, mut file, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for what in happened {
            match what {
                What::Begin { role, keep } => assert!(*role == self.role && *keep),
                What::Head(head) => assert_eq!(head.target, self.target.as_bytes()),
                What::Stdin(piece) => content.extend(piece),
                What::Data(piece) => file.extend(piece),
                What::StdinEnd => assert_eq!(content, self.content),
                What::DataEnd => assert_eq!(file, self.file),
                What::Complete | What::Abort => ends.push(what.clone()),
                What::Refused(refusal) => panic!("{refusal:?}"),
            }
        }
        if self.aborted {
            assert_eq!(ends, [What::Abort]);
            assert!(self.content.starts_with(&content) && self.file.starts_with(&file));
        } else {
            assert_eq!(ends, [What::Complete]);
            assert!(content == self.content && file == self.file);
        }
    }
}

/// Checks valid requests. Their records are interleaved with each other and with records that belong to none of them.
fn check_requests(data: &[u8], cuts: u8) {
    let mut source = Source(data);
    let count = 1 + source.byte() % 6;
    let mut requests = (0..count).map(|number| Planned::new(number, &mut source)).collect::<Vec<_>>();
    let mut queues = requests.iter_mut().map(|request| std::mem::take(&mut request.records)).collect::<Vec<_>>();
    let (mut bytes, mut answers) = (Vec::new(), 0);
    while !queues.is_empty() {
        let choice = source.byte();
        let (kind, id) = match choice {
            0..240 => {
                let place = usize::from(choice) % queues.len();
                match queues[place].pop_front() {
                    Some(record) => bytes.extend(record.to_bytes()),
                    None => drop(queues.remove(place)),
                }
                continue;
            }
            // Requests that do not exist, unknown types, and two records for the machine itself.
            240..244 => (5, u16::MAX),
            244..248 => (100, 1),
            248..252 => (9, 0),
            252.. => (101, 0),
        };
        answers += usize::from(id == 0);
        let content = if kind == 9 { pair(b"FCGI_MPXS_CONNS", b"") } else { source.bytes().to_vec() };
        bytes.extend(Record { kind, id, content, padding: choice % 8 }.to_bytes());
    }
    let items = read([&bytes[..]], &Limits::default(), false);
    assert_eq!(read(pieces(&bytes, cuts), &Limits::default(), false), items, "in pieces");
    assert_eq!(items.iter().filter(|item| matches!(item, Item::Answer(_))).count(), answers);
    assert!(items.iter().all(|item| matches!(item, Item::Of(..) | Item::Answer(_))), "{items:?}");
    requests.iter().for_each(|request| request.check(&items));
}
