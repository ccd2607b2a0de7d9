//! Makes the head of a request from its name-value pairs, in place (RFC 3875, section 4.1).
//!
//! Names that start with `HTTP_` are fields that the client has sent; all other names are variables of the web server.
//! * A field gets the same checks as over HTTP: its name, in lower case with hyphens, is written over the name of its variable;
//!   its value must be one that HTTP allows (400), Host must be a host (400), the target must be valid (400, 414). So an app is
//!   equally safe behind both protocols.
//! * `HTTP_PROXY` is dropped, because programs read it as a setting of their own. So are `HTTP_CONTENT_TYPE` and
//!   `HTTP_CONTENT_LENGTH`, which would contradict the variables without `HTTP_`, and names that are not field names.
//! * CONTENT_TYPE is also a field, if it is not empty. The variable `Authorization`, which some web servers send, becomes the
//!   field of that name if `HTTP_AUTHORIZATION` is missing.
//! * If a variable occurs twice, the last value counts; the same holds for Host. Other fields may occur several times.
//! * Defaults replace missing variables: GET for REQUEST_METHOD, HTTP/1.1 for SERVER_PROTOCOL, and a target made from the
//!   other variables for REQUEST_URI.

use super::names::{self, Known};
use super::pairs::{self, Pair};
use super::{Limits, Refusal, target};
use crate::h1;
use crate::h1::{grammar, search};
use alloc::vec::Vec;
use oribi_message::{FieldLayout, HeadLayout, KnownField, KnownVariable, Span, Variable, Version, equal_names};

/// The most bytes of pairs: places are kept in 32 bits, and text that this module appends also needs room.
const PARAMS_BYTES: usize = 1 << 30;

/// Up to this number of variables, a repetition is looked for at once; with more, all repetitions are found together at the
/// end.
const FEW: usize = 64;

/// The prefix of the names of fields.
const PREFIX: &[u8] = b"HTTP_";

/// The facts that the server needs about a request in addition to its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// CONTENT_LENGTH; `None` if it is missing or empty. Then the content ends where STDIN ends.
    pub content_length: Option<u64>,
    /// The method is HEAD: the response has no content.
    pub bodiless: bool,
}

/// Reads the pairs of a request. `bytes` holds all of them and nothing else. Afterwards, the names of fields in `bytes` have
/// been overwritten, and added text follows the pairs. `layout` and `variables` are filled again and keep their memory.
///
/// # Errors
/// The refusal with which to answer the request. Then `layout` and `variables` are undefined.
pub fn lay_out(
    bytes: &mut Vec<u8>,
    layout: &mut HeadLayout,
    variables: &mut Vec<Variable>,
    limits: &Limits,
) -> Result<Outline, Refusal> {
    layout.clear();
    variables.clear();
    if bytes.len() > limits.params_bytes.min(PARAMS_BYTES) {
        return Err(Refusal::PARAMS_LENGTH);
    }
    let mut seen = SeenVariables::new();
    let forwarded = read_pairs(bytes, layout, &mut seen, variables, limits.pairs)?;
    if let Some((name, value)) = forwarded
        && !layout.fields.iter().any(|field| field.known == Some(KnownField::Authorization))
    {
        fold(&mut bytes[name.start as usize..name.end as usize]);
        add_field(bytes, name, value, Some(KnownField::Authorization), layout)?;
    }
    let value = |known| seen.value(known, variables);
    if let Some(value) = value(KnownVariable::ContentType) {
        let name = append(b"content-type", bytes);
        push_field(bytes, name, value, Some(KnownField::ContentType), layout)?;
    }
    layout.method = match value(KnownVariable::RequestMethod) {
        Some(method) if method.len() > h1::head::METHOD_BYTES => return Err(Refusal::METHOD_LENGTH),
        Some(method) if !grammar::is_token(method.of(bytes)) => return Err(Refusal::METHOD),
        Some(method) => method,
        None => append(b"GET", bytes),
    };
    layout.target = value(KnownVariable::RequestUri).unwrap_or_else(|| {
        let part = |known| value(known).unwrap_or_default();
        let (script_name, path_info) = (part(KnownVariable::ScriptName), part(KnownVariable::PathInfo));
        target::append(script_name, path_info, part(KnownVariable::QueryString), bytes)
    });
    if layout.target.len() > limits.target_bytes {
        return Err(Refusal::TARGET_LENGTH);
    }
    let end = layout.target.end as usize;
    if search::target_end(&bytes[..end], layout.target.start as usize, limits.strict_target) < end {
        return Err(Refusal::TARGET);
    }
    h1::target::lay_out(bytes, layout)?;
    layout.version = match value(KnownVariable::ServerProtocol) {
        Some(protocol) if protocol.of(bytes) == b"HTTP/1.0" => Version::Http10,
        _ => Version::Http11,
    };
    let content_length = match value(KnownVariable::ContentLength) {
        Some(length) => Some(grammar::number(length.of(bytes)).ok_or(Refusal::CONTENT_LENGTH)?),
        None => None,
    };
    if content_length.is_some_and(|length| length > limits.content_bytes) {
        return Err(Refusal::CONTENT_SIZE);
    }
    if seen.among_many {
        keep_last_values(bytes, variables);
    }
    Ok(Outline { content_length, bodiless: layout.method.of(bytes) == b"HEAD" })
}

/// Reads all pairs and returns the variable that is named Authorization.
#[inline(never)]
fn read_pairs(
    bytes: &mut [u8],
    layout: &mut HeadLayout,
    seen: &mut SeenVariables,
    variables: &mut Vec<Variable>,
    most: usize,
) -> Result<Option<(Span, Span)>, Refusal> {
    let mut forwarded = None;
    let mut hosts = 0_u32;
    let (mut pos, mut left) = (0, most);
    while let Some(Pair { text, name, value }) = pairs::next(bytes, &mut pos).map_err(|_| Refusal::PAIR_CUT)? {
        left = left.checked_sub(1).ok_or(Refusal::PAIR_COUNT)?;
        match names::find(text) {
            Some(Known::Variable(known)) => seen.add_known(known, name, value, variables),
            Some(Known::Field(known)) => {
                let name = behind_prefix(name);
                bytes[name.start as usize..name.end as usize].copy_from_slice(known.name().as_bytes());
                hosts += u32::from(known == KnownField::Host);
                add_field(bytes, name, value, Some(known), layout)?;
            }
            None if text.starts_with(PREFIX) => {
                let name = behind_prefix(name);
                if fold(&mut bytes[name.start as usize..name.end as usize]) {
                    let known = KnownField::lookup(name.of(bytes));
                    hosts += u32::from(known == Some(KnownField::Host));
                    add_field(bytes, name, value, known, layout)?;
                }
            }
            None if text == b"Authorization" => forwarded = Some((name, value)),
            None => seen.add(bytes, name, value, variables),
        }
    }
    if hosts > 1 {
        // A client cannot send two Host fields: the last is the web server's, whose administrator has overridden the first.
        layout.fields.retain(|field| {
            let is_host = field.known == Some(KnownField::Host);
            hosts -= u32::from(is_host);
            !is_host || hosts == 0
        });
    }
    Ok(forwarded)
}

/// The variables that have been seen, so that each occurs once.
struct SeenVariables {
    /// The index of each known variable in the list, or [`SeenVariables::NOT`].
    known: [u32; KnownVariable::ALL.len()],
    /// One of 64 bits for each other name: only if its bit is set already can the name be a repetition.
    others: u64,
    /// Names may be repeated, because they were not compared once there were [`FEW`] variables or more.
    among_many: bool,
}

impl SeenVariables {
    const NOT: u32 = u32::MAX;

    const fn new() -> Self {
        Self { known: [Self::NOT; KnownVariable::ALL.len()], others: 0, among_many: false }
    }

    #[inline]
    fn add_known(&mut self, known: KnownVariable, name: Span, value: Span, variables: &mut Vec<Variable>) {
        let number = &mut self.known[known as usize];
        if let Some(before) = variables.get_mut(*number as usize) {
            before.value = value;
        } else {
            *number = variables.len() as u32;
            variables.push(Variable { name, value, known: Some(known) });
        }
    }

    #[inline(never)]
    fn add(&mut self, bytes: &[u8], name: Span, value: Span, variables: &mut Vec<Variable>) {
        let text = name.of(bytes);
        let bit = 1 << (spread(text) % 64);
        if self.others & bit != 0 {
            if variables.len() >= FEW {
                self.among_many = true;
            } else if let Some(before) = variables.iter_mut().find(|variable| variable.name.of(bytes) == text) {
                before.value = value;
                return;
            }
        }
        self.others |= bit;
        variables.push(Variable { name, value, known: None });
    }

    /// The value of a variable, unless it is empty: web servers send empty values for missing variables.
    #[inline]
    fn value(&self, known: KnownVariable, variables: &[Variable]) -> Option<Span> {
        let value = variables.get(self.known[known as usize] as usize)?.value;
        (!value.is_empty()).then_some(value)
    }
}

/// Gives each name that is not well known its last value, in the place of its first occurrence, and removes its other
/// occurrences.
#[cold]
fn keep_last_values(bytes: &[u8], variables: &mut Vec<Variable>) {
    let mut numbers: Vec<u32> =
        (0..).zip(&*variables).filter(|(_, variable)| variable.known.is_none()).map(|(n, _)| n).collect();
    let mut repeated = alloc::vec![false; variables.len()];
    let mut kept = Vec::new();
    for group in equal_names(&mut numbers, |number| variables[number as usize].name.of(bytes)) {
        group[1..].iter().for_each(|&number| repeated[number as usize] = true);
        kept.push((group[0], group[group.len() - 1]));
    }
    for (first, last) in kept {
        variables[first as usize].value = variables[last as usize].value;
    }
    let mut repeated = repeated.into_iter();
    variables.retain(|_| repeated.next() != Some(true));
}

/// A number that is seldom the same for two names.
#[inline]
fn spread(name: &[u8]) -> usize {
    let middle = name.get(name.len() / 2).map_or(0, |&byte| usize::from(byte));
    let last = name.last().map_or(0, |&byte| usize::from(byte));
    name.len() * 7 + middle * 5 + last * 3
}

/// Appends a text to `bytes`.
fn append(text: &[u8], bytes: &mut Vec<u8>) -> Span {
    bytes.extend_from_slice(text);
    Span::new(bytes.len() - text.len(), bytes.len())
}

/// The name of a field without `HTTP_`.
#[inline]
const fn behind_prefix(name: Span) -> Span {
    Span { start: name.start + PREFIX.len() as u32, end: name.end }
}

/// Turns the name of a variable into the name of its field, in place: small letters, hyphens. `false` if the result is not a
/// field name.
#[inline(never)]
fn fold(name: &mut [u8]) -> bool {
    let mut all = !name.is_empty();
    for byte in name {
        all &= grammar::is(*byte, grammar::TOKEN);
        *byte = if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    }
    all
}

/// Lays out a field of the client, unless fields of this name are dropped.
#[inline(never)]
fn add_field(bytes: &[u8], name: Span, value: Span, known: Option<KnownField>, layout: &mut HeadLayout) -> Result<(), Refusal> {
    match known {
        Some(KnownField::Proxy | KnownField::ContentType | KnownField::ContentLength) => return Ok(()),
        Some(KnownField::Host) if !h1::target::is_authority(bytes, value) => return Err(Refusal::HOST_INVALID),
        _ => {}
    }
    push_field(bytes, name, value, known, layout)
}

#[inline]
fn push_field(
    bytes: &[u8],
    name: Span,
    value: Span,
    known: Option<KnownField>,
    layout: &mut HeadLayout,
) -> Result<(), Refusal> {
    if !grammar::is_value(value.of(bytes)) {
        return Err(Refusal::FIELD_VALUE);
    }
    let value = grammar::trimmed(bytes, value.start as usize, value.end as usize);
    layout.fields.push(FieldLayout { name, value, known });
    Ok(())
}
