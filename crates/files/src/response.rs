//! Responses: a representation or the requested part of it, with its fields.

use crate::conditions::{Outcome, Validators, decide};
use crate::date;
use crate::multipart::{Multipart, content_range, piece};
use crate::pages;
use crate::representation::Representation;
use crate::selection::Selection;
use oribi_host::{ExchangeId, Outlet, Piece, ReplyError};
use oribi_message::list::trim;
use oribi_message::{FieldPair, PreparedFields, ResponseHead};

/// The number of fields that a representation has itself.
const OWN_FIELDS: usize = 5;
/// Up to this number, the list of fields needs no allocation.
const FEW: usize = 8;

/// The parameters of a response.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The representation to send.
    pub representation: &'a Representation,
    /// The method of the request: with GET, ranges are honoured; with GET and HEAD, conditions.
    pub method: &'a [u8],
    /// The request's conditions and ranges.
    pub selection: &'a Selection<'a>,
    /// The status, unless conditions or ranges lead to another one. They apply only if this status is 200.
    pub status: u16,
    /// Further fields. They override fields of the representation with the same name.
    pub fields: &'a [FieldPair<'a>],
}

/// Sends a response.
///
/// # Errors
/// As [`Outlet::respond`].
pub fn respond(outlet: &dyn Outlet, exchange: ExchangeId, response: &Response<'_>) -> Result<(), ReplyError> {
    let representation = response.representation;
    let sender = Sender { outlet, exchange, response };
    match response.outcome() {
        Outcome::Whole => sender.send(response.status, &[], &[representation.whole()]),
        Outcome::Part(range) => {
            let content_range = content_range(&range, representation.size());
            sender.send(206, &[(b"Content-Range", content_range.as_bytes())], &[piece(representation, &range)])
        }
        Outcome::Parts(ranges) => {
            let own_type = response.field(b"content-type").unwrap_or(representation.media_type.as_bytes());
            let parts = Multipart::new(&ranges, own_type, representation.size());
            let pieces = parts.pieces(&ranges, representation);
            sender.send(206, &[(b"Content-Type", parts.media_type.as_bytes())], &pieces)
        }
        Outcome::NotModified => sender.send_no_file(304, &[], b""),
        Outcome::PreconditionFailed => {
            sender.send_no_file(412, &[(b"Content-Type", pages::MEDIA_TYPE)], pages::of_status(412).as_bytes())
        }
        Outcome::Unsatisfiable => {
            let range = format!("bytes */{}", representation.size());
            let fields: [FieldPair<'_>; 2] = [(b"Content-Range", range.as_bytes()), (b"Content-Type", pages::MEDIA_TYPE)];
            sender.send_no_file(416, &fields, pages::of_status(416).as_bytes())
        }
    }
}

impl<'a> Response<'a> {
    /// The fields of a response to a request without conditions and ranges; `None` if they must be checked each time.
    pub(crate) fn prepare(&self) -> Option<PreparedFields> {
        self.with_fields(&[], PreparedFields::new)
    }

    fn outcome(&self) -> Outcome {
        let get = self.method == b"GET";
        if !self.selection.is_particular() || self.status != 200 || !(get || self.is_head()) {
            return Outcome::Whole;
        }
        // `Accept-Ranges: none` from the app disables ranges.
        let ranges = !self.field(b"accept-ranges").is_some_and(|value| value.eq_ignore_ascii_case(b"none"));
        decide(get && ranges, self.selection, &self.validators(), self.representation.size(), date::now)
    }

    fn is_head(&self) -> bool {
        self.method == b"HEAD"
    }

    /// The validators in the given fields, or else those of the representation.
    fn validators(&self) -> Validators<'a> {
        let own = self.representation.validators();
        let modified = self.field(b"last-modified").map_or(own.modified, date::read);
        Validators { etag: self.field(b"etag").unwrap_or(own.etag), modified }
    }

    /// The value of the first given field (not the representation's) with this name.
    fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| trim(value))
    }

    /// Calls `act` with the fields of the response: `first`, then the given fields, then those of the representation.
    #[inline]
    fn with_fields<T>(&self, first: &[FieldPair<'_>], act: impl FnOnce(&[FieldPair<'_>]) -> T) -> T {
        let count = first.len() + self.fields.len() + OWN_FIELDS;
        if count > FEW {
            return self.fill(first, &mut vec![(&[][..], &[][..]); count], act);
        }
        self.fill(first, &mut [(&[][..], &[][..]); FEW], act)
    }

    #[inline]
    fn fill<'b, T>(
        &'b self,
        first: &[FieldPair<'b>],
        list: &mut [FieldPair<'b>],
        act: impl FnOnce(&[FieldPair<'_>]) -> T,
    ) -> T {
        let mut count = 0;
        let mut add = |list: &mut [FieldPair<'b>], field: FieldPair<'b>| {
            list[count] = field;
            count += 1;
        };
        for field in first {
            add(list, *field);
        }
        let (response, representation) = (self, self.representation);
        let named_first = |name: &[u8]| first.iter().any(|(other, _)| is(other, name));
        for field in response.fields {
            // Only the server may set the fields that describe the size of the content.
            let ours = is(field.0, b"content-length") || is(field.0, b"content-range") || is(field.0, b"accept-ranges");
            if !ours && !named_first(field.0) {
                add(list, *field);
            }
        }
        let named = |name: &[u8]| named_first(name) || response.fields.iter().any(|(other, _)| is(other, name));
        if !named(b"content-type") {
            add(list, (b"Content-Type", representation.media_type.as_bytes()));
        }
        if let Some(coding) = representation.coding {
            add(list, (b"Content-Encoding", coding.name().as_bytes()));
        }
        let etag = representation.validators().etag;
        if !etag.is_empty() && !named(b"etag") {
            add(list, (b"ETag", etag));
        }
        if !representation.last_modified().is_empty() && !named(b"last-modified") {
            add(list, (b"Last-Modified", representation.last_modified()));
        }
        if response.status == 200 {
            let none = response.field(b"accept-ranges").is_some_and(|value| value.eq_ignore_ascii_case(b"none"));
            add(list, (b"Accept-Ranges", if none { b"none" } else { b"bytes" }));
        }
        act(&list[..count])
    }
}

struct Sender<'a> {
    outlet: &'a dyn Outlet,
    exchange: ExchangeId,
    response: &'a Response<'a>,
}

impl Sender<'_> {
    /// Sends content with `first` and those fields of the representation that have other names.
    fn send(&self, status: u16, first: &[FieldPair<'_>], pieces: &[Piece<'_>]) -> Result<(), ReplyError> {
        if !self.response.is_head() {
            return self.response.with_fields(first, |fields| {
                self.outlet.respond_pieces(self.exchange, ResponseHead { status, fields }, pieces)
            });
        }
        let length = pieces.iter().map(Piece::size).sum::<u64>().to_string();
        self.response.with_fields(&[(b"Content-Length", length.as_bytes())], |fields| {
            self.outlet.respond(self.exchange, ResponseHead { status, fields }, &[])
        })
    }

    /// Sends content that is not the file's, with the fields that do not describe content.
    fn send_no_file(&self, status: u16, first: &[FieldPair<'_>], page: &[u8]) -> Result<(), ReplyError> {
        let of_content = |name: &[u8]| name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-"));
        let mut fields: Vec<FieldPair<'_>> = first.to_vec();
        fields.extend(self.response.fields.iter().filter(|(name, _)| {
            // Fields of the file do not apply to a page that explains its absence.
            let of_file: &[&[u8]] =
                if status == 304 { &[] } else { &[b"etag", b"last-modified", b"cache-control", b"expires"] };
            let of_file = of_file.iter().any(|lower| is(name, lower));
            !(of_content(name) || is(name, b"accept-ranges") || of_file)
        }));
        let etag = self.response.representation.validators().etag;
        if status == 304 && !etag.is_empty() && self.response.field(b"etag").is_none() {
            fields.push((b"ETag", etag));
        }
        let parts: &[&[u8]] = if self.response.is_head() { &[] } else { &[page] };
        self.outlet.respond(self.exchange, ResponseHead { status, fields: &fields }, parts)
    }
}

#[inline]
fn is(name: &[u8], lower: &[u8]) -> bool {
    name.len() == lower.len() && name.eq_ignore_ascii_case(lower)
}
