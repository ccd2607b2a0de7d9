//! A request head, as spans of the bytes that it arrived in.

use crate::KnownField;
use alloc::vec::Vec;

/// A range of bytes of a head. 32 bits are enough: no limit for a head may exceed 1 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The index of the first byte.
    pub start: u32,
    /// The index after the last byte.
    pub end: u32,
}

impl Span {
    /// The span from `start` up to but without `end`.
    #[inline]
    #[must_use]
    pub const fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= u32::MAX as usize);
        Self { start: start as u32, end: end as u32 }
    }

    /// The bytes of this span. Panics if the span does not lie in `bytes`, which is a bug of its maker.
    #[inline]
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }

    /// The bytes that it refers to, to be changed.
    ///
    /// # Panics
    /// As [`Span::of`].
    #[must_use]
    pub fn of_mut(self, bytes: &mut [u8]) -> &mut [u8] {
        &mut bytes[self.start as usize..self.end as usize]
    }

    /// The number of bytes.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether the span has no bytes.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// The protocol version that a request was written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
    /// HTTP/2
    Http2,
}

impl Version {
    /// The value of SERVER_PROTOCOL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            // RFC 3875, section 4.1.16, asks for a minor version.
            Self::Http2 => "HTTP/2.0",
        }
    }
}

/// The four forms of a request target (RFC 9112, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`
    #[default]
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `host:port`, only with CONNECT
    Authority,
    /// `*`, only with OPTIONS
    Asterisk,
}

/// One field line: the spans of its name and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    /// The name, as sent.
    pub name: Span,
    /// The value, without white space around it.
    pub value: Span,
    /// The well-known name; `None` for others.
    pub known: Option<KnownField>,
}

/// The spans of the parts of a request head. Reusable: [`HeadLayout::clear`] keeps the memory.
#[derive(Clone, Debug, Default)]
pub struct HeadLayout {
    /// The method.
    pub method: Span,
    /// The whole target, as sent.
    pub target: Span,
    /// The form of the target.
    pub form: TargetForm,
    /// The path of the target (empty for the authority form; `*` for the asterisk form), still percent-encoded.
    pub path: Span,
    /// The query, after the first `?`; `None` without one.
    pub query: Option<Span>,
    /// The authority of an absolute-form or authority-form target.
    pub authority: Option<Span>,
    /// Whether an absolute-form target named the scheme `https`.
    pub https: bool,
    /// The version of the request line.
    pub version: Version,
    /// The fields in the order sent.
    pub fields: Vec<FieldLayout>,
}

impl HeadLayout {
    /// Clears the layout and keeps the memory for the next head.
    pub fn clear(&mut self) {
        let mut fields = core::mem::take(&mut self.fields);
        fields.clear();
        *self = Self { fields, ..Self::default() };
    }
}

/// A request head: a layout with the bytes that it refers to.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    bytes: &'a [u8],
    layout: &'a HeadLayout,
}

impl<'a> RequestHead<'a> {
    /// Joins a layout with the bytes that it was made from. `bytes` begin with the request line.
    #[inline]
    #[must_use]
    pub const fn new(bytes: &'a [u8], layout: &'a HeadLayout) -> Self {
        Self { bytes, layout }
    }

    /// The bytes that the layout refers to.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The spans of the parts.
    #[inline]
    #[must_use]
    pub const fn layout(&self) -> &'a HeadLayout {
        self.layout
    }

    /// The method, case kept (methods are case-sensitive, RFC 9110, section 9.1).
    #[inline]
    #[must_use]
    pub fn method(&self) -> &'a [u8] {
        self.layout.method.of(self.bytes)
    }

    /// The target as sent.
    #[inline]
    #[must_use]
    pub fn target(&self) -> &'a [u8] {
        self.layout.target.of(self.bytes)
    }

    /// The form of the target.
    #[inline]
    #[must_use]
    pub const fn form(&self) -> TargetForm {
        self.layout.form
    }

    /// The path, still percent-encoded.
    #[inline]
    #[must_use]
    pub fn path(&self) -> &'a [u8] {
        self.layout.path.of(self.bytes)
    }

    /// The query, empty if there is none.
    #[inline]
    #[must_use]
    pub fn query(&self) -> &'a [u8] {
        self.layout.query.map_or(&[], |span| span.of(self.bytes))
    }

    /// Path and query as sent, without scheme and authority: REQUEST_URI of CGI-like interfaces.
    #[inline]
    #[must_use]
    pub fn path_and_query(&self) -> &'a [u8] {
        let path = self.layout.path;
        let end = self.layout.query.map_or(path.end, |query| query.end);
        Span { start: path.start, end }.of(self.bytes)
    }

    /// The authority of an absolute-form or authority-form target.
    #[inline]
    #[must_use]
    pub fn authority(&self) -> Option<&'a [u8]> {
        self.layout.authority.map(|span| span.of(self.bytes))
    }

    /// The requested host, perhaps with a port: the authority of an absolute target, otherwise the value of Host (RFC 9112,
    /// section 3.2.2). `None` without either.
    #[inline]
    #[must_use]
    pub fn host(&self) -> Option<&'a [u8]> {
        self.authority().filter(|_| self.form() == TargetForm::Absolute).or_else(|| self.field(KnownField::Host))
    }

    /// Whether an absolute-form target named the scheme `https`.
    #[inline]
    #[must_use]
    pub const fn https(&self) -> bool {
        self.layout.https
    }

    /// The version of the request line.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> Version {
        self.layout.version
    }

    /// The fields in the order sent: the well-known name if there is one, name, value.
    #[inline]
    pub fn fields(&self) -> impl Iterator<Item = (Option<KnownField>, &'a [u8], &'a [u8])> + Clone + use<'a> {
        let bytes = self.bytes;
        self.layout.fields.iter().map(move |field| (field.known, field.name.of(bytes), field.value.of(bytes)))
    }

    /// The name of the field with this number, counted from 0. Panics if there is no such field, which is a bug of the
    /// caller.
    #[inline]
    #[must_use]
    pub fn field_name(&self, number: usize) -> &'a [u8] {
        self.layout.fields[number].name.of(self.bytes)
    }

    /// The value of the field with this number, counted from 0. Panics if there is no such field, which is a bug of the caller.
    #[inline]
    #[must_use]
    pub fn field_value(&self, number: usize) -> &'a [u8] {
        self.layout.fields[number].value.of(self.bytes)
    }

    /// The value of the first field with the name `wanted`; `None` without one.
    #[must_use]
    pub fn field(&self, wanted: KnownField) -> Option<&'a [u8]> {
        self.layout.fields.iter().find(|field| field.known == Some(wanted)).map(|field| field.value.of(self.bytes))
    }
}
