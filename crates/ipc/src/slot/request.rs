//! Writes a request into its slot.
//!
//! | part | holds |
//! |---|---|
//! | numbers | the values of fixed size: spans of the target, flags, lengths |
//! | lines | for each field, and then for each variable of a gateway: spans of name and value, and the number of a known name |
//! | text | the bytes that all spans refer to |
//! | endpoints | address and port of the client, name and port of the server |
//! | content | the content of the request, and the data for a filter, if they are not in files |
//! | trailers | if there are any: their number, and for each the sizes of its name and its value, and then name and value |

use super::copy::copy_short;
use oribi_host::{Content, Gateway, Request};
use oribi_message::{FieldLayout, FieldPair, KnownField, KnownVariable, Role, Span, TargetForm, Trailers, Version};

pub(super) const NUMBER: usize = size_of::<u32>();

/// The number of numbers at the start of a request.
pub(super) const NUMBERS: usize = 26;

/// The offset of the last two numbers: the time at which the request was complete.
const STAMP: usize = (NUMBERS - 2) * NUMBER;

/// The size of the numbers of a field or a variable, in bytes.
pub(super) const LINE: usize = 5 * NUMBER;

/// The span of a part that the request does not have.
pub(super) const MISSING: [u32; 2] = [u32::MAX, u32::MAX];

/// The bits of the first number.
pub(super) mod flag {
    pub(in super::super) const HTTP_1_0: u32 = 1;
    pub(in super::super) const TARGET_HTTPS: u32 = 2;
    pub(in super::super) const HTTPS: u32 = 4;
    pub(in super::super) const UNDERSCORES: u32 = 8;
    pub(in super::super) const GATEWAY: u32 = 16;
    pub(in super::super) const FORWARDED_PORT: u32 = 32;
    pub(in super::super) const HTTP_2: u32 = 64;
    pub(in super::super) const OWN: u32 = 128;
    /// Two bits with the role of a web server are below this one.
    pub(in super::super) const TRAILERS: u32 = 1 << 10;
}

/// Writes `request` into `room`, with `added` after its fields, and returns the number of bytes; `None` if it does not fit.
/// For content in a file only the size is written.
#[must_use]
pub fn encode(request: &Request<'_>, added: &[FieldPair<'_>], room: &mut [u8]) -> Option<usize> {
    let head = &request.head;
    let layout = head.layout();
    let text = head.bytes();
    let gateway = request.gateway.as_ref();
    let variables = gateway.map_or(&[][..], Gateway::list);
    // The variables of a web server and the head made of them mostly refer to the same bytes, which are written only once.
    let apart = gateway.map_or(&[][..], Gateway::bytes);
    let apart = if std::ptr::eq(apart, text) { &[] } else { apart };

    let fields = layout.fields.len() + added.len();
    let added_bytes: usize = added.iter().map(|(name, value)| name.len() + value.len()).sum();
    let all_text = text.len() + added_bytes + apart.len();
    let (content_kind, content_size, content) = split(&request.content);
    let (data_kind, data_size, data) = split(&gateway.map_or(Content::None, |gateway| gateway.data));
    let (remote, server) = (&request.remote, &request.server);
    // A request with more parts or bytes than a number can express does not fit into the room either, which is checked
    // later.
    let mut room = Room { rest: room, taken: 0 };
    let numbers = [
        [flags(request), form(layout.form)],
        span(layout.method),
        span(layout.target),
        span(layout.path),
        layout.query.map_or(MISSING, span),
        layout.authority.map_or(MISSING, span),
        [fields as u32, variables.len() as u32],
        [all_text as u32, content_kind | data_kind << 2],
        [remote.address.len() as u32, remote.port.len() as u32],
        [server.address.len() as u32, server.port.len() as u32],
        halves(content_size),
        halves(data_size),
        // [`set_completion_time`] writes the time.
        halves(0),
    ];
    let destinations = room.take(NUMBERS * NUMBER)?.as_chunks_mut().0;
    for (destination, number) in destinations.iter_mut().zip(numbers.as_flattened()) {
        *destination = number.to_ne_bytes();
    }
    let lines = room.lines(fields + variables.len())?;
    let (field_lines, variable_lines) = lines.split_at_mut(fields);
    for (destination, field) in field_lines.iter_mut().zip(&layout.fields) {
        put_field(field, destination);
    }
    let mut position = text.len();
    for (destination, (name, value)) in field_lines[layout.fields.len()..].iter_mut().zip(added) {
        let between = position + name.len();
        let known = number_of(KnownField::lookup(name));
        *destination = line(Span::new(position, between), Span::new(between, between + value.len()), known, 0);
        position = between + value.len();
    }
    let shift = if apart.is_empty() { 0 } else { position as u32 };
    for (destination, variable) in variable_lines.iter_mut().zip(variables) {
        *destination = line(
            variable.name,
            variable.value,
            variable.known.map_or(KnownVariable::ALL.len() as u32, |known| known as u32),
            shift,
        );
    }
    room.put(text)?;
    for (name, value) in added {
        room.put(name)?;
        room.put(value)?;
    }
    for bytes in [apart, remote.address, remote.port, server.address, server.port, content, data] {
        if !bytes.is_empty() {
            room.put(bytes)?;
        }
    }
    if let Some(trailers) = request.trailers {
        put_trailers(trailers, &mut room)?;
    }
    Some(room.taken)
}

/// Notes the time at which a request that was written into `room` was complete, in nanoseconds of a clock that all processes
/// share; 0 if unknown.
#[inline]
pub fn set_completion_time(room: &mut [u8], complete: u64) {
    if let Some(destination) = room.get_mut(STAMP..NUMBERS * NUMBER) {
        destination.copy_from_slice(halves(complete).map(u32::to_ne_bytes).as_flattened());
    }
}

#[cold]
fn put_trailers(trailers: &Trailers, room: &mut Room<'_>) -> Option<()> {
    let fields = trailers.fields();
    room.put(&(fields.len() as u32).to_ne_bytes())?;
    for (name, value) in fields {
        let sizes = [name.len() as u32, value.len() as u32].map(u32::to_ne_bytes);
        for bytes in [sizes.as_flattened(), name, value] {
            room.put(bytes)?;
        }
    }
    Some(())
}

/// Room that is filled from its start.
struct Room<'a> {
    rest: &'a mut [u8],
    taken: usize,
}

impl<'a> Room<'a> {
    #[inline]
    fn take(&mut self, count: usize) -> Option<&'a mut [u8]> {
        let (taken, rest) = std::mem::take(&mut self.rest).split_at_mut_checked(count)?;
        self.rest = rest;
        self.taken += count;
        Some(taken)
    }

    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let destination = self.take(bytes.len())?;
        copy_short(bytes, destination);
        Some(())
    }

    fn lines(&mut self, count: usize) -> Option<&'a mut [[u8; LINE]]> {
        Some(self.take(count.checked_mul(LINE)?)?.as_chunks_mut().0)
    }
}

fn flags(request: &Request<'_>) -> u32 {
    let head = &request.head;
    let set = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    set(head.version() == Version::Http10, flag::HTTP_1_0)
        | set(head.version() == Version::Http2, flag::HTTP_2)
        | set(head.https(), flag::TARGET_HTTPS)
        | set(request.https, flag::HTTPS)
        | set(request.underscores, flag::UNDERSCORES)
        | set(request.forwarded_port, flag::FORWARDED_PORT)
        | set(request.trailers.is_some(), flag::TRAILERS)
        | request
            .gateway
            .as_ref()
            .map_or(0, |gateway| flag::GATEWAY | role(gateway.role) << 8 | set(gateway.is_own(), flag::OWN))
}

const fn form(form: TargetForm) -> u32 {
    match form {
        TargetForm::Origin => 0,
        TargetForm::Absolute => 1,
        TargetForm::Authority => 2,
        TargetForm::Asterisk => 3,
    }
}

const fn role(role: Role) -> u32 {
    match role {
        Role::Responder => 0,
        Role::Authorizer => 1,
        Role::Filter => 2,
    }
}

/// The kind of content, its size, and the bytes that are written into the slot.
const fn split<'a>(content: &Content<'a>) -> (u32, u64, &'a [u8]) {
    match content {
        Content::None => (0, 0, &[]),
        Content::Memory(bytes) => (1, bytes.len() as u64, bytes),
        Content::File { size, .. } => (2, *size, &[]),
    }
}

const fn span(span: Span) -> [u32; 2] {
    [span.start, span.end]
}

const fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// Writes the line of a field whose spans need no shift.
#[inline(always)]
fn put_field(&FieldLayout { name, value, known }: &FieldLayout, destination: &mut [u8; LINE]) {
    let numbers = [name.start, name.end, value.start, value.end, number_of(known)];
    let [a, b, c, d, e] = numbers.map(u32::to_ne_bytes);
    let destinations = destination.as_chunks_mut::<NUMBER>().0;
    (destinations[0], destinations[1], destinations[2], destinations[3], destinations[4]) = (a, b, c, d, e);
}

/// The number of a well-known field: its position in [`KnownField::ALL`]. Other fields have a number beyond that list.
#[inline(always)]
fn number_of(known: Option<KnownField>) -> u32 {
    known.map_or(KnownField::ALL.len() as u32, |known| known as u32)
}

#[inline]
fn line(name: Span, value: Span, known: u32, shift: u32) -> [u8; LINE] {
    let numbers = [name.start + shift, name.end + shift, value.start + shift, value.end + shift, known];
    let mut bytes = [0; LINE];
    for (destination, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
        *destination = number.to_ne_bytes();
    }
    bytes
}
