//! Decides which responses are compressed.

use crate::tag::is_made;
use crate::{Choice, Coding, DEFAULT_TYPES, MediaRange, negotiate};
use oribi_message::FieldPair;
use oribi_message::list::{members, trim};

/// The settings of a [`Filter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The codings that may be used; the first one wins among those that a client likes equally. Default: zstd, br, gzip.
    /// Without any, the filter skips all responses.
    pub codings: Vec<Coding>,
    /// The media types that are compressed. Default: [`DEFAULT_TYPES`].
    pub types: Vec<MediaRange>,
    /// The smallest size that is compressed, in bytes. Smaller content saves no packet. Content of unknown size is always
    /// compressed. Default: 1024.
    pub min_size: u64,
    /// The largest known size that is compressed, in bytes: compression takes up to 20 ms for each MiB, in which the edge serves no
    /// other connection. Content of unknown size is not limited. Default: 1 MiB.
    pub max_size: u64,
    /// Whether responses are compressed for requests with Cookie or Authorization, and with Set-Cookie. An attacker who sees
    /// the size of compressed responses, and has a part of them repeat its own text, can guess secrets in them (BREACH).
    /// Default: false.
    pub private: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            codings: vec![Coding::Zstd, Coding::Brotli, Coding::Gzip],
            types: DEFAULT_TYPES.iter().filter_map(|text| MediaRange::parse(text).ok()).collect(),
            min_size: 1024,
            max_size: 1024 * 1024,
            private: false,
        }
    }
}

/// The facts of a request that decide about its response. They borrow nothing, so that they can be kept until it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    choice: Choice,
    connect: bool,
    credentials: bool,
    weak_condition: bool,
}

/// The decision about a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The response is not changed.
    Skip,
    /// The content is not changed, but another client would get it compressed, so that caches must know that it depends on
    /// Accept-Encoding.
    Vary,
    /// As `Vary`, for a 304: the client has the content compressed, so that its tag must fit.
    NotModified,
    /// The content is compressed.
    Encode(Coding),
}

/// Decides which responses are compressed, by its settings. It reads only what it is given, and allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    settings: Settings,
}

impl Filter {
    /// A filter with these settings.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes the facts of a request: its method, the values of all lines of Accept-Encoding and of If-None-Match, and whether
    /// it has Cookie or Authorization.
    #[must_use]
    pub fn read_request<'a>(
        &self,
        method: &[u8],
        accept_encoding: impl Iterator<Item = &'a [u8]>,
        if_none_match: impl Iterator<Item = &'a [u8]>,
        credentials: bool,
    ) -> RequestFacts {
        RequestFacts {
            choice: negotiate(accept_encoding, &self.settings.codings),
            connect: method == b"CONNECT",
            credentials,
            // A comma in a tag splits it, which at worst makes a strong tag weak.
            weak_condition: if_none_match.flat_map(members).any(is_made),
        }
    }

    /// Decides about the response to a request, by its status, its fields and the size of its content in bytes. Without a
    /// `size`, Content-Length counts; for a response to HEAD, pass no size. A response with several lines of Content-Type or
    /// Content-Length is not compressed.
    #[must_use]
    pub fn decide(&self, request: RequestFacts, status: u16, fields: &[FieldPair<'_>], size: Option<u64>) -> Outcome {
        // Interim responses, and those without content.
        let unfit = status < 200 || matches!(status, 204 | 205);
        if unfit || request.connect || self.settings.codings.is_empty() {
            return Outcome::Skip;
        }
        let Some(response) = ResponseFacts::read(fields) else { return Outcome::Skip };
        if status == 304 {
            // Its type is mostly unknown, and a 200 would say that it varies (RFC 9110, section 15.4.5).
            return if request.weak_condition && response.strong_etag { Outcome::NotModified } else { Outcome::Vary };
        }
        let has_type = self.settings.types.iter().any(|range| range.includes(response.media_type));
        if status == 206 {
            // A part of the unencoded content.
            return if has_type { Outcome::Vary } else { Outcome::Skip };
        }
        if response.has_range {
            return Outcome::Skip;
        }
        let size = size.or(response.length);
        let fits = size.is_none_or(|size| (self.settings.min_size..=self.settings.max_size).contains(&size));
        if !fits || !has_type {
            return Outcome::Skip;
        }
        let secret = (request.credentials || response.sets_cookie) && !self.settings.private;
        match request.choice {
            Choice::Coded(coding) if !secret => Outcome::Encode(coding),
            _ => Outcome::Vary,
        }
    }
}

/// The facts of a response that may be compressed.
#[derive(Default)]
struct ResponseFacts<'a> {
    /// The media type without parameters; empty without the field.
    media_type: &'a [u8],
    length: Option<u64>,
    sets_cookie: bool,
    /// Whether the content is a part, or there is none because the range was wrong.
    has_range: bool,
    strong_etag: bool,
}

impl<'a> ResponseFacts<'a> {
    /// Reads the fields. `None` if one of them forbids a coding.
    fn read(fields: &[FieldPair<'a>]) -> Option<Self> {
        let mut facts = Self::default();
        let mut typed = false;
        for (name, value) in fields {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            // The length comes first, as most names differ in it.
            match name.len() {
                4 if is("ETag") => facts.strong_etag = trim(value).starts_with(b"\""),
                10 if is("Set-Cookie") => facts.sets_cookie = true,
                12 if is("Content-Type") && !typed => {
                    typed = true;
                    facts.media_type = trim(value.split(|byte| *byte == b';').next().unwrap_or_default());
                }
                12 if is("Content-Type") => return None,
                13 if is("Content-Range") => facts.has_range = true,
                13 if is("Cache-Control") && members(value).any(is_no_transform) => return None,
                14 if is("Content-Length") => {
                    if facts.length.is_some() {
                        return None;
                    }
                    facts.length = std::str::from_utf8(trim(value)).ok().and_then(|digits| digits.parse().ok());
                }
                // A signature may cover any field (RFC 9421), and this server cannot sign anew.
                15 if is("Signature-Input") => return None,
                16 if is("Content-Encoding") && !members(value).all(|coding| coding.eq_ignore_ascii_case(b"identity")) => {
                    return None;
                }
                _ => {}
            }
        }
        Some(facts)
    }
}

fn is_no_transform(directive: &[u8]) -> bool {
    directive.eq_ignore_ascii_case(b"no-transform")
}
