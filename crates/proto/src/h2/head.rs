//! Makes a request from decoded fields (RFC 9113, section 8.3), with the same layout as a head of HTTP/1.
//!
//! The texts follow one another in the order of decoding, after [`PROLOGUE`], which has the name of the field that
//! `:authority` becomes, and frequent values.

use super::Limits;
use super::error::Malformed;
use super::hpack::{Bounds, Decoder, Fault, Field, Kind, PROLOGUE};
use crate::h1;
use crate::h1::{Refusal, grammar, search};
use alloc::vec::Vec;
use memchr::memchr;
use oribi_message::{FieldLayout, HeadLayout, KnownField, Span, TargetForm, Version};

/// The factor by which a list may exceed the allowed size before the connection ends instead of getting a 431.
const PATIENCE: usize = 4;

/// The word `host` in the prologue.
const HOST: Span = Span { start: 0, end: 4 };

/// The facts that the server needs about a request in addition to its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The value of Content-Length.
    pub content_length: Option<u64>,
    /// The method is HEAD: the response has no content.
    pub bodiless: bool,
    /// The client waits for a 100 before it sends the content.
    pub expects_continue: bool,
    /// An extended CONNECT (RFC 8441) asks for a tunnel with this protocol. Then there is no content-length, and the DATA
    /// that follows is not content.
    pub protocol: Option<Span>,
    /// The value of the Priority field (RFC 9218).
    pub(super) priority: Option<Span>,
}

/// The reason why a block is not a valid head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The connection cannot continue.
    Fault(Fault),
    /// The stream cannot continue.
    Malformed(Malformed),
    /// The server answers the request with a status; `true`: the method is HEAD.
    Refused(Refusal, bool),
}

/// The kinds of fields that a list has had so far: a set that is read for each pseudo-field, so it is kept in the bits of one
/// number.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Kinds(u8);

impl Kinds {
    const METHOD: Self = Self(1);
    const SCHEME: Self = Self(2);
    const AUTHORITY: Self = Self(4);
    const PATH: Self = Self(8);
    const PROTOCOL: Self = Self(16);
    const REGULAR: Self = Self(32);

    const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    const fn common(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

/// The facts found so far.
#[derive(Default)]
struct Found {
    kinds: Kinds,
    /// The kinds that must not come before a pseudo-field, but did: the same pseudo-field, or an ordinary field.
    misplaced: Kinds,
    // The values of the pseudo-fields; empty for those that `kinds` does not have.
    method: Span,
    scheme: Span,
    authority: Span,
    path: Span,
    protocol: Span,
    /// The authority is a host with an optional port.
    authority_valid: bool,
    host: Option<Span>,
    length: Option<Span>,
    expectation: Option<Span>,
    priority: Option<Span>,
    cookies: u32,
    host_repeated: bool,
    malformed: Option<Malformed>,
}

impl Found {
    /// Notes a field. Lays it out if it is an ordinary field, or `:authority`, which becomes Host.
    #[inline]
    fn note(&mut self, text: &[u8], Field { name, value, kind }: Field, fields: &mut Vec<FieldLayout>) {
        let (pseudo, it) = match kind {
            Kind::Regular(known) => {
                self.kinds = self.kinds.and(Kinds::REGULAR);
                if known.is_none_or(|known| self.note_known(text, known, value)) {
                    fields.push(FieldLayout { name, value, known });
                }
                return;
            }
            Kind::Malformed(why) => {
                self.malformed.get_or_insert(why);
                return;
            }
            Kind::Method => (&mut self.method, Kinds::METHOD),
            Kind::Scheme => (&mut self.scheme, Kinds::SCHEME),
            Kind::Authority { valid } => {
                self.authority_valid = valid;
                fields.push(FieldLayout { name: HOST, value, known: Some(KnownField::Host) });
                (&mut self.authority, Kinds::AUTHORITY)
            }
            Kind::Path => (&mut self.path, Kinds::PATH),
            Kind::Protocol => (&mut self.protocol, Kinds::PROTOCOL),
        };
        *pseudo = value;
        self.misplaced = self.misplaced.and(self.kinds.common(it.and(Kinds::REGULAR)));
        self.kinds = self.kinds.and(it);
    }

    /// The reason why the list is malformed, before the pseudo-fields are checked together.
    #[inline]
    const fn malformed(&self) -> Option<Malformed> {
        match self.malformed {
            None if self.misplaced.has(Kinds::REGULAR) => Some(Malformed::PseudoLate),
            None if !self.misplaced.is_empty() => Some(Malformed::PseudoRepeated),
            malformed => malformed,
        }
    }

    #[inline]
    fn note_known(&mut self, text: &[u8], known: KnownField, value: Span) -> bool {
        match known {
            KnownField::Host => {
                self.host_repeated |= self.host.replace(value).is_some();
                if self.kinds.has(Kinds::AUTHORITY) {
                    if !self.authority.of(text).eq_ignore_ascii_case(value.of(text)) {
                        self.malformed.get_or_insert(Malformed::Host);
                    }
                    return false;
                }
            }
            KnownField::ContentLength if self.length.is_some() => drop(self.malformed.get_or_insert(Malformed::ContentLength)),
            KnownField::ContentLength => self.length = Some(value),
            KnownField::Cookie => self.cookies += 1,
            KnownField::Expect => self.expectation = Some(value),
            KnownField::Priority => self.priority = Some(value),
            _ => {}
        }
        true
    }
}

/// Decodes a block into a head: `text` and `layout` are filled again. `ends` says that the request has no content, `tunnels`
/// that an extended CONNECT is allowed.
pub(super) fn read(
    decoder: &mut Decoder,
    block: &[u8],
    ends: bool,
    tunnels: bool,
    text: &mut Vec<u8>,
    layout: &mut HeadLayout,
    limits: &Limits,
) -> Result<Outline, Trouble> {
    layout.clear();
    let mut found = Found::default();
    let whole = decode(decoder, block, limits, text, |text, field| found.note(text, field, &mut layout.fields))?;
    if let Some(malformed) = found.malformed() {
        return Err(Trouble::Malformed(malformed));
    }
    let method = found.method.of(text);
    let bodiless = method == b"HEAD";
    let refused = |refusal| Err(Trouble::Refused(refusal, bodiless));
    if !whole {
        return refused(Refusal::HEAD_LENGTH);
    }
    if method.is_empty() {
        return Err(Trouble::Malformed(Malformed::PseudoMissing));
    }
    if layout.fields.len() - (found.cookies as usize).saturating_sub(1) > limits.fields {
        return refused(Refusal::FIELD_COUNT);
    }
    layout.method = found.method;
    lay_out_target(&found, tunnels, text, layout, limits).map_err(|trouble| match trouble {
        Trouble::Refused(refusal, _) => Trouble::Refused(refusal, bodiless),
        other => other,
    })?;
    let protocol = found.kinds.has(Kinds::PROTOCOL).then_some(found.protocol);
    let mut outline = Outline { bodiless, protocol, priority: found.priority, ..Outline::default() };
    if let Some(length) = found.length {
        let length = grammar::number(length.of(text)).ok_or(Trouble::Malformed(Malformed::ContentLength))?;
        if ends && length > 0 {
            return Err(Trouble::Malformed(Malformed::ContentMissing));
        }
        if length > limits.content_bytes {
            return refused(Refusal::CONTENT_SIZE);
        }
        outline.content_length = protocol.is_none().then_some(length);
    }
    if let Some(expectation) = found.expectation {
        if !expectation.of(text).eq_ignore_ascii_case(b"100-continue") {
            return refused(Refusal::EXPECTATION);
        }
        outline.expects_continue = !ends;
    }
    if found.cookies > 1 {
        join_cookies(text, layout);
    }
    Ok(outline)
}

/// Decodes trailers into the fields of a layout, which is filled again. Fields that cannot be trailers are left out.
pub(super) fn read_trailers(
    decoder: &mut Decoder,
    block: &[u8],
    text: &mut Vec<u8>,
    layout: &mut HeadLayout,
    limits: &Limits,
) -> Result<(), Trouble> {
    layout.clear();
    let (mut malformed, mut count) = (None, 0);
    let whole = decode(decoder, block, limits, text, |text, field| {
        count += 1;
        match field.kind {
            Kind::Regular(known) if count <= limits.fields && h1::may_be_trailer(field.name.of(text)) => {
                layout.fields.push(FieldLayout { name: field.name, value: field.value, known });
            }
            Kind::Regular(_) => {}
            Kind::Malformed(why) => drop(malformed.get_or_insert(why)),
            _ => drop(malformed.get_or_insert(Malformed::PseudoInTrailers)),
        }
    })?;
    match malformed {
        Some(malformed) => Err(Trouble::Malformed(malformed)),
        None if !whole => Err(Trouble::Refused(Refusal::TRAILER_LENGTH, false)),
        None if count > limits.fields => Err(Trouble::Refused(Refusal::FIELD_COUNT, false)),
        None => Ok(()),
    }
}

/// Decodes a block that is no longer needed, because the table must be kept in step.
pub(super) fn skip(decoder: &mut Decoder, block: &[u8], text: &mut Vec<u8>, limits: &Limits) -> Result<(), Trouble> {
    decode(decoder, block, limits, text, |_, _| {}).map(drop)
}

#[inline]
fn decode(
    decoder: &mut Decoder,
    block: &[u8],
    limits: &Limits,
    text: &mut Vec<u8>,
    sink: impl FnMut(&[u8], Field),
) -> Result<bool, Trouble> {
    text.clear();
    text.extend_from_slice(PROLOGUE);
    let kept = limits.kept();
    decoder.decode(block, Bounds { kept, read: kept * PATIENCE }, text, sink).map_err(Trouble::Fault)
}

/// Checks the pseudo-fields together, and lays out the target.
fn lay_out_target(found: &Found, tunnels: bool, text: &[u8], layout: &mut HeadLayout, limits: &Limits) -> Result<(), Trouble> {
    let malformed = |why| Err(Trouble::Malformed(why));
    let refused = |refusal| Err(Trouble::Refused(refusal, false));
    let method = layout.method.of(text);
    // Values from the static table need no check.
    let is_ready = |span: Span| (span.end as usize) <= PROLOGUE.len();
    if !is_ready(layout.method) && !grammar::is_token(method) {
        return malformed(Malformed::Method);
    }
    if method.len() > h1::head::METHOD_BYTES {
        return refused(Refusal::METHOD_LENGTH);
    }
    let connect = method == b"CONNECT";
    let kinds = found.kinds;
    if kinds.has(Kinds::PROTOCOL) && !(connect && tunnels) {
        return malformed(Malformed::Connect);
    }
    if connect && !kinds.has(Kinds::PROTOCOL) {
        // RFC 9113, section 8.5.
        let is_valid = kinds.common(Kinds::SCHEME.and(Kinds::PATH)).is_empty() && kinds.has(Kinds::AUTHORITY);
        return if is_valid { refused(Refusal::METHOD_CONNECT) } else { malformed(Malformed::Connect) };
    }
    if !kinds.has(Kinds::SCHEME.and(Kinds::PATH)) {
        return malformed(Malformed::PseudoMissing);
    }
    if found.host_repeated {
        return refused(Refusal::HOST_REPEATED);
    }
    let is_valid = match found.host {
        _ if kinds.has(Kinds::AUTHORITY) => found.authority_valid,
        Some(host) => h1::target::is_authority(text, host),
        None => return refused(Refusal::HOST_MISSING),
    };
    if !is_valid {
        return refused(Refusal::HOST_INVALID);
    }
    layout.https = match found.scheme.of(text) {
        known if is_ready(found.scheme) => known.len() == b"https".len(),
        other if other.eq_ignore_ascii_case(b"http") => false,
        other if other.eq_ignore_ascii_case(b"https") => true,
        _ => return refused(Refusal::TARGET_FORM),
    };
    let path = found.path;
    layout.form = match path.of(text) {
        [b'/', ..] => TargetForm::Origin,
        b"*" if method == b"OPTIONS" => TargetForm::Asterisk,
        _ => return malformed(Malformed::Path),
    };
    if path.len() > limits.target_bytes {
        return refused(Refusal::TARGET_LENGTH);
    }
    let (start, end) = (path.start as usize, path.end as usize);
    layout.version = Version::Http2;
    layout.target = path;
    if is_ready(path) {
        (layout.path, layout.query) = (path, None);
        return Ok(());
    }
    if search::target_end(&text[..end], start, limits.strict_target) < end {
        return refused(Refusal::TARGET);
    }
    let question = memchr(b'?', &text[start..end]).map(|offset| start + offset);
    layout.path = Span::new(start, question.unwrap_or(end));
    layout.query = question.map(|question| Span::new(question + 1, end));
    Ok(())
}

/// Joins all Cookie fields into one (RFC 9113, section 8.2.3), in the place of the first.
#[inline(never)]
fn join_cookies(text: &mut Vec<u8>, layout: &mut HeadLayout) {
    let start = text.len();
    let cookies = layout.fields.iter().filter(|field| field.known == Some(KnownField::Cookie));
    for field in cookies.filter(|field| !field.value.is_empty()) {
        if text.len() > start {
            text.extend_from_slice(b"; ");
        }
        text.extend_from_within(field.value.start as usize..field.value.end as usize);
    }
    let joined = Span::new(start, text.len());
    let mut first = true;
    layout.fields.retain_mut(|field| {
        if field.known != Some(KnownField::Cookie) {
            return true;
        }
        field.value = joined;
        core::mem::take(&mut first)
    });
}
