//! A request that a worker has copied out of its slot.

use super::Malformed;
use super::request::{LINE, MISSING, NUMBER, NUMBERS, flag};
use oribi_host::{Content, Endpoint, Gateway, Request};
use oribi_message::{
    FieldLayout, FieldPair, HeadLayout, KnownField, KnownVariable, RequestHead, Role, Span, TargetForm, Trailers, Variable,
    Version,
};
use std::os::fd::BorrowedFd;

/// The place of content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ContentLocation {
    /// There is no content.
    #[default]
    Nowhere,
    /// In the slot, `start..end`.
    Slot { start: usize, end: usize },
    /// In a file of this size, which the worker asks for.
    File { size: u64 },
}

/// Fills entries that have not been read yet.
const NOTHING: Span = Span { start: 0, end: 0 };
const NO_FIELD: FieldLayout = FieldLayout { name: NOTHING, value: NOTHING, known: None };
const NO_VARIABLE: Variable = Variable { name: NOTHING, value: NOTHING, known: None };

/// A request that was copied out of its slot. Reusable: [`Stored::read`] keeps the memory.
#[derive(Debug, Default)]
pub struct Stored {
    /// The bytes of the slot.
    bytes: Vec<u8>,
    /// The span of the text.
    text: Span,
    layout: HeadLayout,
    variables: Vec<Variable>,
    /// Address and port of the client, name and port of the server.
    endpoints: [Span; 4],
    https: bool,
    forwarded_port: bool,
    underscores: bool,
    role: Option<Role>,
    /// Whether the variables are this server's own instead of those of a web server.
    own: bool,
    content: ContentLocation,
    data: ContentLocation,
    trailers: Option<Box<Trailers>>,
    /// The time at which the request was complete, in nanoseconds; 0 if unknown.
    complete: u64,
}

impl Stored {
    /// Copies a request out of its slot.
    ///
    /// # Errors
    /// The bytes are not a request.
    #[inline]
    pub fn read(&mut self, slot: &[u8]) -> Result<(), Malformed> {
        self.bytes.clear();
        self.bytes.extend_from_slice(slot);
        let outcome = self.read_parts(slot);
        if outcome.is_err() {
            // A request that was only partly read must not be used.
            self.layout.clear();
            self.variables.clear();
            self.endpoints = <[Span; 4]>::default();
            (self.text, self.content, self.data) = (Span::default(), ContentLocation::Nowhere, ContentLocation::Nowhere);
            self.trailers = None;
        }
        outcome
    }

    fn read_parts(&mut self, slot: &[u8]) -> Result<(), Malformed> {
        let (numbers, rest) = slot.split_first_chunk::<{ NUMBERS * NUMBER }>().ok_or(Malformed)?;
        let numbers = Numbers(numbers);
        let [flags, form] = numbers.pair(0);
        let [fields, variables] = numbers.pair(6).map(|count| count as usize);
        let [text, kinds] = numbers.pair(7);
        let lines = fields.checked_add(variables).and_then(|lines| lines.checked_mul(LINE)).ok_or(Malformed)?;
        let lines = rest.get(..lines).ok_or(Malformed)?.as_chunks::<LINE>().0;
        // The ends of the parts. Each part has fewer than 2^32 bytes.
        let mut ends = [(NUMBERS * NUMBER + size_of_val(lines)) as u64; 6];
        let [[a, b], [c, d]] = [numbers.pair(8), numbers.pair(9)];
        for (index, size) in [text, a, b, c, d].into_iter().enumerate() {
            ends[index + 1] = ends[index] + u64::from(size);
        }
        if ends[5] > slot.len() as u64 || slot.len() > u32::MAX as usize {
            return Err(Malformed);
        }
        let part = |number: usize| Span { start: ends[number] as u32, end: ends[number + 1] as u32 };
        self.text = part(0);
        self.endpoints = [part(1), part(2), part(3), part(4)];
        let mut position = ends[5];
        let mut location = |kind: u32, [low, high]: [u32; 2]| {
            let size = u64::from(low) | u64::from(high) << 32;
            Ok(match kind & 3 {
                0 => ContentLocation::Nowhere,
                1 => {
                    let start = position;
                    position = start.checked_add(size).filter(|end| *end <= slot.len() as u64).ok_or(Malformed)?;
                    ContentLocation::Slot { start: start as usize, end: position as usize }
                }
                _ => ContentLocation::File { size },
            })
        };
        let [low, high] = numbers.pair(12);
        self.complete = u64::from(low) | u64::from(high) << 32;
        self.content = location(kinds, numbers.pair(10))?;
        self.data = location(kinds >> 2, numbers.pair(11))?;
        self.trailers = match flags & flag::TRAILERS {
            0 => None,
            _ => Trailers::of(read_trailers(&slot[position as usize..])?),
        };

        let within = |[start, end]: [u32; 2]| -> Result<Span, Malformed> {
            if start <= end && end <= text { Ok(Span { start, end }) } else { Err(Malformed) }
        };
        let may_miss = |pair: [u32; 2]| if pair == MISSING { Ok(None) } else { within(pair).map(Some) };
        let layout = &mut self.layout;
        layout.method = within(numbers.pair(1))?;
        layout.target = within(numbers.pair(2))?;
        layout.path = within(numbers.pair(3))?;
        layout.query = may_miss(numbers.pair(4))?;
        layout.authority = may_miss(numbers.pair(5))?;
        // The span from the start of the path to the end of the query is used, too, so it must be valid.
        if layout.query.is_some_and(|query| query.end < layout.path.start) {
            return Err(Malformed);
        }
        layout.form = match form {
            0 => TargetForm::Origin,
            1 => TargetForm::Absolute,
            2 => TargetForm::Authority,
            _ => TargetForm::Asterisk,
        };
        layout.https = flags & flag::TARGET_HTTPS != 0;
        layout.version = match (flags & flag::HTTP_1_0 != 0, flags & flag::HTTP_2 != 0) {
            (true, _) => Version::Http10,
            (false, true) => Version::Http2,
            (false, false) => Version::Http11,
        };
        self.https = flags & flag::HTTPS != 0;
        self.forwarded_port = flags & flag::FORWARDED_PORT != 0;
        self.underscores = flags & flag::UNDERSCORES != 0;
        self.own = flags & flag::OWN != 0;
        self.role = (flags & flag::GATEWAY != 0).then_some(match flags >> 8 & 3 {
            0 => Role::Responder,
            1 => Role::Authorizer,
            _ => Role::Filter,
        });
        let (field_lines, variable_lines) = lines.split_at(fields);
        // Entries of the last request are overwritten: many requests have the same number of fields, so nothing is resized.
        if layout.fields.len() != fields {
            layout.fields.resize(fields, NO_FIELD);
        }
        for (field, line) in layout.fields.iter_mut().zip(field_lines) {
            let (name, value, number) = read_line(line, text)?;
            *field = FieldLayout { name, value, known: KnownField::ALL.get(number).copied() };
        }
        if self.variables.len() != variables {
            self.variables.resize(variables, NO_VARIABLE);
        }
        for (variable, line) in self.variables.iter_mut().zip(variable_lines) {
            let (name, value, number) = read_line(line, text)?;
            *variable = Variable { name, value, known: KnownVariable::ALL.get(number).copied() };
        }
        Ok(())
    }

    /// Returns the request in the form for hosts, with the files that hold its content and the data for a filter. `None` if one
    /// of these files is needed and not given.
    #[inline]
    #[must_use]
    pub fn request<'a>(&'a self, content: Option<BorrowedFd<'a>>, data: Option<BorrowedFd<'a>>) -> Option<Request<'a>> {
        let view = |location: ContentLocation, file: Option<BorrowedFd<'a>>| match location {
            ContentLocation::Nowhere => Some(Content::None),
            ContentLocation::Slot { start, end } => Some(Content::Memory(&self.bytes[start..end])),
            ContentLocation::File { size } => file.map(|file| Content::File { file, size }),
        };
        let data = view(self.data, data)?;
        let [address, port, name, own_port] = self.endpoints.map(|span| span.of(&self.bytes));
        Some(Request {
            head: self.head(),
            content: view(self.content, content)?,
            trailers: self.trailers.as_deref(),
            remote: Endpoint { address, port },
            server: Endpoint { address: name, port: own_port },
            forwarded_port: self.forwarded_port,
            chosen_name: false,
            https: self.https,
            underscores: self.underscores,
            gateway: self.role.map(|role| match self.own {
                true => Gateway::own(self.text.of(&self.bytes), &self.variables),
                false => Gateway::new(role, self.text.of(&self.bytes), &self.variables, data),
            }),
        })
    }

    /// The head of the request.
    #[inline]
    #[must_use]
    pub fn head(&self) -> RequestHead<'_> {
        RequestHead::new(self.text.of(&self.bytes), &self.layout)
    }

    /// The time at which the request was complete, in nanoseconds on a clock that all processes share; `None` if unknown.
    #[inline]
    #[must_use]
    pub fn complete_at(&self) -> Option<u64> {
        (self.complete != 0).then_some(self.complete)
    }

    /// Whether a web server sent the request.
    #[must_use]
    pub const fn has_gateway(&self) -> bool {
        self.role.is_some() && !self.own
    }

    /// Whether the content is in a file, which the worker must ask for.
    #[must_use]
    pub const fn has_content_file(&self) -> bool {
        matches!(self.content, ContentLocation::File { .. })
    }

    /// Whether the data for a filter are in a file, which the worker must ask for.
    #[must_use]
    pub const fn has_data_file(&self) -> bool {
        matches!(self.data, ContentLocation::File { .. })
    }

    /// Removes the fields whose names are `unwanted`, except those with a well-known name.
    pub fn remove_fields(&mut self, unwanted: impl Fn(&[u8]) -> bool) {
        let text = self.text.of(&self.bytes);
        self.layout.fields.retain(|field| field.known.is_some() || !unwanted(field.name.of(text)));
    }
}

/// The numbers at the start of a request.
struct Numbers<'a>(&'a [u8; NUMBERS * NUMBER]);

impl Numbers<'_> {
    #[inline]
    fn pair(&self, number: usize) -> [u32; 2] {
        let numbers = self.0.as_chunks().0;
        [u32::from_ne_bytes(numbers[number * 2]), u32::from_ne_bytes(numbers[number * 2 + 1])]
    }
}

/// Reads the line of a field or a variable: the spans of name and value, which must lie in a text of `text` bytes, and the
/// number of the known name.
#[inline]
fn read_line(line: &[u8; LINE], text: u32) -> Result<(Span, Span, usize), Malformed> {
    let mut numbers = [0; 5];
    for (number, bytes) in numbers.iter_mut().zip(line.as_chunks().0) {
        *number = u32::from_ne_bytes(*bytes);
    }
    let [name_start, name_end, start, end, known] = numbers;
    if name_start > name_end || name_end > text || start > end || end > text {
        return Err(Malformed);
    }
    let (name, value) = (Span { start: name_start, end: name_end }, Span { start, end });
    Ok((name, value, known as usize))
}

/// Reads the trailers at the start of `bytes`.
#[cold]
fn read_trailers(bytes: &[u8]) -> Result<Vec<FieldPair<'_>>, Malformed> {
    let (count, mut rest) = bytes.split_first_chunk().ok_or(Malformed)?;
    let mut fields = Vec::new();
    for _ in 0..u32::from_ne_bytes(*count) {
        let mut sizes = [0; 2];
        for size in &mut sizes {
            let (bytes, behind) = rest.split_first_chunk().ok_or(Malformed)?;
            (*size, rest) = (u32::from_ne_bytes(*bytes) as usize, behind);
        }
        let (name, behind) = rest.split_at_checked(sizes[0]).ok_or(Malformed)?;
        let (value, behind) = behind.split_at_checked(sizes[1]).ok_or(Malformed)?;
        fields.push((name, value));
        rest = behind;
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::encode_request as encode;
    use crate::slot::numbers::Numbers as Random;
    use std::fs::File;
    use std::os::fd::AsFd;

    /// A random request such as an engine could have. Some of its parts are used only in some cases.
    #[derive(Debug)]
    struct Made {
        text: Vec<u8>,
        layout: HeadLayout,
        apart: Option<Vec<u8>>,
        variables: Vec<Variable>,
        role: Option<Role>,
        endpoints: [Vec<u8>; 4],
        flags: u64,
        contents: [Option<(Vec<u8>, Option<u64>)>; 2],
        added: Vec<(Vec<u8>, Vec<u8>)>,
        trailers: Option<Box<Trailers>>,
        file: File,
    }

    fn spans(random: &mut Random, text: &[u8]) -> Span {
        let (one, other) = (random.below(text.len() + 1), random.below(text.len() + 1));
        Span::new(one.min(other), one.max(other))
    }

    fn make(random: &mut Random) -> Made {
        let text = random.text(400);
        let mut span = || spans(random, &text);
        let path = span();
        let query = Some(span()).filter(|query| query.end >= path.start);
        let (method, target, authority) = (span(), span(), Some(span()).filter(|span| span.len() % 2 == 0));
        let fields = |random: &mut Random| FieldLayout {
            name: spans(random, &text),
            value: spans(random, &text),
            known: KnownField::ALL.get(random.below(KnownField::ALL.len() * 2)).copied(),
        };
        let layout = HeadLayout {
            method,
            target,
            form: [TargetForm::Origin, TargetForm::Absolute, TargetForm::Authority, TargetForm::Asterisk][random.below(4)],
            path,
            query,
            authority,
            https: random.below(2) == 0,
            version: [Version::Http10, Version::Http11, Version::Http2][random.below(3)],
            fields: (0..random.below(30)).map(|_| fields(random)).collect(),
        };
        let role = [None, Some(Role::Responder), Some(Role::Authorizer), Some(Role::Filter)][random.below(4)];
        let apart = (random.below(2) == 0).then(|| random.text(100));
        let variables = |random: &mut Random| Variable {
            name: spans(random, apart.as_ref().unwrap_or(&text)),
            value: spans(random, apart.as_ref().unwrap_or(&text)),
            known: KnownVariable::ALL.get(random.below(KnownVariable::ALL.len() * 2)).copied(),
        };
        let content = |random: &mut Random| match random.below(3) {
            0 => None,
            1 => Some((random.text(300), None)),
            _ => Some((Vec::new(), Some(random.next() >> 8))),
        };
        let trailers: Vec<_> = (0..random.below(8).saturating_sub(4)).map(|_| (random.text(20), random.text(20))).collect();
        Made {
            layout,
            variables: (0..random.below(20)).map(|_| variables(random)).collect(),
            role,
            endpoints: [random.text(41), random.text(5), random.text(60), random.text(5)],
            flags: random.next(),
            contents: [content(random), content(random)],
            added: (0..random.below(3)).map(|_| (random.text(20), random.text(20))).collect(),
            trailers: Trailers::of(trailers.iter().map(|(name, value)| (&name[..], &value[..]))),
            file: File::open("/dev/null").expect("a file"),
            text,
            apart,
        }
    }

    impl Made {
        fn request(&self) -> Request<'_> {
            let content = |number: usize| match &self.contents[number] {
                None => Content::None,
                Some((_, Some(size))) => Content::File { file: self.file.as_fd(), size: *size },
                Some((bytes, None)) => Content::Memory(bytes),
            };
            let bytes = self.apart.as_ref().unwrap_or(&self.text);
            let [address, port, name, own_port] = &self.endpoints;
            Request {
                head: RequestHead::new(&self.text, &self.layout),
                content: content(0),
                trailers: self.trailers.as_deref(),
                remote: Endpoint { address, port },
                server: Endpoint { address: name, port: own_port },
                forwarded_port: self.flags & 4 != 0,
                chosen_name: false,
                https: self.flags & 1 != 0,
                underscores: self.flags & 2 != 0,
                gateway: self.role.map(|role| Gateway::new(role, bytes, &self.variables, content(1))),
            }
        }

        fn encode(&self, room: &mut [u8]) -> Option<usize> {
            let added: Vec<FieldPair<'_>> = self.added.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            encode(&self.request(), &added, room)
        }
    }

    /// All properties of a request that a host can read, as text.
    fn told(request: &Request<'_>, added: &[(Vec<u8>, Vec<u8>)]) -> String {
        let head = &request.head;
        let content = |content: &Content<'_>| match content {
            Content::None => "none".to_owned(),
            Content::Memory(bytes) => format!("{bytes:?}"),
            Content::File { size, .. } => format!("a file of {size}"),
        };
        let known = |name: &[u8]| (!name.is_empty()).then(|| KnownField::lookup(name)).flatten();
        let fields = head.fields().map(|(known, name, value)| (known, name.to_vec(), value.to_vec()));
        let fields: Vec<_> =
            fields.chain(added.iter().map(|(name, value)| (known(name), name.clone(), value.clone()))).collect();
        let parts = [head.method(), head.target(), head.path(), head.query()];
        let gateway = request.gateway.as_ref().map(|gateway| {
            let variables: Vec<_> = gateway.variables().collect();
            format!("{:?} {variables:?} {}", gateway.role, content(&gateway.data))
        });
        let layout = head.layout();
        format!(
            "{parts:?} {} {:?} {:?} {} {:?} {fields:?} {} {:?} {:?} {} {} {} {gateway:?} {:?}",
            layout.query.is_some(),
            head.authority(),
            head.form(),
            head.https(),
            head.version(),
            content(&request.content),
            request.remote,
            request.server,
            request.forwarded_port,
            request.https,
            request.underscores,
            request.trailers,
        )
    }

    /// Reads all of these properties without formatting them. Formatting a request for every changed bit would take some
    /// seconds.
    fn look_at_all(request: &Request<'_>) {
        let head = &request.head;
        let fields: usize = head.fields().map(|(_, name, value)| name.len() + value.len()).sum();
        let parts = [head.method(), head.target(), head.path(), head.query(), head.path_and_query()];
        let places = [request.remote, request.server].map(|endpoint| endpoint.address.len() + endpoint.port.len());
        let variables =
            request.gateway.as_ref().map(|gateway| gateway.variables().map(|(_, name, value)| name.len() + value.len()));
        let content = |content: &Content<'_>| if let Content::Memory(bytes) = content { bytes.len() } else { 0 };
        let contents = content(&request.content) + request.gateway.as_ref().map_or(0, |gateway| content(&gateway.data));
        let rest = (head.authority().map(<[u8]>::len), head.form(), head.https(), head.version());
        let bytes = fields + parts.map(<[u8]>::len).iter().sum::<usize>() + places[0] + places[1] + contents;
        let trailers =
            request.trailers.map_or(0, |trailers| trailers.fields().map(|(name, value)| name.len() + value.len()).sum());
        std::hint::black_box((bytes + trailers + variables.map_or(0, Iterator::sum), rest));
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        let (mut random, mut stored, mut room) = (Random::new(), Stored::default(), [0; 8192]);
        for _ in 0..2000 {
            let made = make(&mut random);
            let length = made.encode(&mut room).expect("room for all of these");
            stored.read(&room[..length]).expect("a request");
            let file = Some(made.file.as_fd());
            let request = stored.request(file, file).expect("its files");
            assert_eq!(told(&request, &[]), told(&made.request(), &made.added));
            if !made.added.is_empty() {
                continue;
            }
            if made.layout.query.is_some() {
                assert_eq!(request.head.path_and_query(), made.request().head.path_and_query());
            }
            let has_file = |content: &Option<(Vec<u8>, Option<u64>)>| matches!(content, Some((_, Some(_))));
            assert_eq!(stored.has_content_file(), has_file(&made.contents[0]));
            assert_eq!(stored.request(None, file).is_none(), has_file(&made.contents[0]));
            assert_eq!(stored.has_data_file(), made.role.is_some() && has_file(&made.contents[1]));
        }
    }

    #[test]
    fn a_request_has_the_time_at_which_it_was_complete() {
        let (made, mut stored, mut room) = (make(&mut Random::new()), Stored::default(), [0; 8192]);
        let length = made.encode(&mut room).expect("room");
        stored.read(&room[..length]).expect("a request");
        assert_eq!(stored.complete_at(), None);
        let time = 0x1234_5678_9abc_def0;
        crate::slot::set_completion_time(&mut room[..length], time);
        stored.read(&room[..length]).expect("a request");
        assert_eq!(stored.complete_at(), Some(time));
        let file = Some(made.file.as_fd());
        assert_eq!(told(&stored.request(file, file).expect("its files"), &[]), told(&made.request(), &made.added));
    }

    #[test]
    fn a_request_is_written_whole_or_not_at_all() {
        let mut random = Random::new();
        for _ in 0..50 {
            let made = make(&mut random);
            let mut room = vec![0; 8192];
            let length = made.encode(&mut room).expect("room");
            for less in 0..length {
                assert_eq!(made.encode(&mut room[..less]), None, "{less} of {length}");
            }
            assert_eq!(made.encode(&mut room[..length]), Some(length));
        }
    }

    #[test]
    fn nothing_that_stands_in_a_slot_makes_a_worker_panic() {
        let (mut random, mut stored, mut refused) = (Random::new(), Stored::default(), 0);
        for _ in 0..20 {
            let made = make(&mut random);
            let mut room = vec![0; 8192];
            let length = made.encode(&mut room).expect("room");
            let file = Some(made.file.as_fd());
            for less in 0..length {
                refused += usize::from(stored.read(&room[..less]).is_err());
            }
            for bit in 0..length * 8 {
                room[bit / 8] ^= 1 << (bit % 8);
                match stored.read(&room[..length]) {
                    Ok(()) => {
                        let request = stored.request(file, file).expect("its files");
                        look_at_all(&request);
                    }
                    Err(Malformed) => refused += 1,
                }
                room[bit / 8] ^= 1 << (bit % 8);
            }
        }
        assert!(refused > 1000, "{refused}");
    }

    #[test]
    fn unwanted_fields_are_removed_if_nobody_knows_them() {
        let (text, mut stored, mut room) = (b"a_bHostx", Stored::default(), [0; 1024]);
        let field = |start, end, known| FieldLayout { name: Span::new(start, end), value: Span::new(7, 8), known };
        let fields = vec![field(0, 3, None), field(3, 7, Some(KnownField::Host)), field(0, 1, None)];
        let layout = HeadLayout { fields, ..HeadLayout::default() };
        let endpoint = Endpoint { address: b"", port: b"0" };
        let head = RequestHead::new(text, &layout);
        let request = Request {
            head,
            content: Content::None,
            trailers: None,
            remote: endpoint,
            server: endpoint,
            forwarded_port: false,
            chosen_name: false,
            https: false,
            underscores: false,
            gateway: None,
        };
        let length = encode(&request, &[], &mut room).expect("room");
        stored.read(&room[..length]).expect("a request");
        stored.remove_fields(|name| name.len() == 3 || name == b"Host");
        let names: Vec<&[u8]> = stored.head().fields().map(|(_, name, _)| name).collect();
        assert_eq!(names, [&b"Host"[..], b"a"]);
    }
}
