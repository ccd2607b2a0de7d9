//! Stores the trailers of a request.

use oribi_message::{FieldPair, Trailers};
use oribi_proto::h1;

/// Trailers of a request, complete or being received.
#[derive(Debug, Default)]
pub(super) enum ReceivedTrailers {
    #[default]
    None,
    /// The part of a trailer section of HTTP/1 that has arrived.
    Section(Vec<u8>),
    Complete(Box<Trailers>),
}

impl ReceivedTrailers {
    /// Trailers that arrived complete.
    #[cold]
    pub(super) fn of<'a>(fields: impl Iterator<Item = FieldPair<'a>>) -> Self {
        Trailers::of(fields).map_or(Self::None, Self::Complete)
    }

    /// Adds a piece of the section. The machine limits its size.
    #[cold]
    pub(super) fn add(&mut self, piece: &[u8]) {
        match self {
            Self::Section(section) => section.extend_from_slice(piece),
            Self::None | Self::Complete(_) => *self = Self::Section(piece.to_vec()),
        }
    }

    /// Parses the section, if there is one, once it is complete.
    #[inline]
    pub(super) fn complete(&mut self) {
        if let Self::Section(section) = self {
            *self = Self::of(h1::trailers_of(section));
        }
    }

    /// The trailers in the form for hosts.
    #[inline]
    pub(super) fn view(&self) -> Option<&Trailers> {
        if let Self::Complete(trailers) = self { Some(trailers) } else { None }
    }
}
