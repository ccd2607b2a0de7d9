//! Errors of a connection, of a stream, and of a message (RFC 9113, sections 5.4, 7 and 8.1.1).

/// Error codes (RFC 9113, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// No error.
    pub const NO_ERROR: Self = Self(0);
    /// The peer has broken a rule without a code of its own.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// The sender has failed.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// The peer has sent more than it was allowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// Settings were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(4);
    /// A frame arrived for a stream that is closed.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame has a wrong size.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The request has not been processed, and may be sent again.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(8);
    /// The table of compressed fields is lost.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The peer burdens the sender more than is sensible.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);

    /// The name, for the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        if self.0 < NAMES.len() as u32 { NAMES[self.0 as usize] } else { "unknown" }
    }
}

/// The reason why the connection cannot continue. The client gets the code; later bytes have no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub(super) &'static Words);

/// The kind of bound that a client has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Requests that never got a response: see [`Limits::resets`](super::Limits::resets).
    Resets,
    /// Frames without any benefit: see [`Limits::nuisances`](super::Limits::nuisances).
    Nuisances,
    /// Fields of one message: their bytes, their decoded size or their frames.
    Fields,
}

impl Violation {
    /// The bound that was reached; `None` if another rule was broken.
    #[must_use]
    pub fn excess(self) -> Option<Excess> {
        match self {
            Self::RESETS => Some(Excess::Resets),
            Self::NUISANCE => Some(Excess::Nuisances),
            _ if self.code() == ErrorCode::ENHANCE_YOUR_CALM => Some(Excess::Fields),
            _ => None,
        }
    }
}

/// The reason why a stream cannot continue, while the connection can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamError(pub(super) &'static Words);

/// The words of an error, reached by a pointer so that results are small.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    code: ErrorCode,
    reason: &'static str,
}

macro_rules! errors {
    ($type:ident: $($name:ident = $code:ident $reason:literal;)*) => {
        impl $type {
            $(pub(super) const $name: Self = Self(&Words { code: ErrorCode::$code, reason: $reason });)*

            /// The code for the client.
            #[must_use]
            pub const fn code(self) -> ErrorCode {
                self.0.code
            }

            /// The reason, for the log: a few words without line ends.
            #[must_use]
            pub const fn reason(self) -> &'static str {
                self.0.reason
            }
        }
    };
}

errors! { Violation:
    PREFACE = PROTOCOL_ERROR "the connection does not begin with the preface of HTTP/2";
    FIRST_FRAME = PROTOCOL_ERROR "the first frame is not SETTINGS";
    FRAME_SIZE = FRAME_SIZE_ERROR "a frame exceeds 16384 bytes";
    FRAME_LENGTH = FRAME_SIZE_ERROR "the length of a frame is invalid for its type";
    PADDING = PROTOCOL_ERROR "the padding is longer than the frame";
    STREAM_ZERO = PROTOCOL_ERROR "stream 0 has no such frame";
    STREAM_NOT_ZERO = PROTOCOL_ERROR "only stream 0 has such a frame";
    STREAM_EVEN = PROTOCOL_ERROR "a client opens streams with odd numbers";
    STREAM_ORDER = PROTOCOL_ERROR "streams are opened in the order of their numbers";
    STREAM_IDLE = PROTOCOL_ERROR "the stream has not been opened";
    STREAM_CLOSED = STREAM_CLOSED "the stream is closed";
    PUSH = PROTOCOL_ERROR "a client pushes nothing";
    CONTINUATION = PROTOCOL_ERROR "CONTINUATION without fields to continue";
    INTERLEAVED = PROTOCOL_ERROR "another frame between HEADERS and its CONTINUATION";
    CONTINUATIONS = ENHANCE_YOUR_CALM "too many frames for the fields of one message";
    BLOCK_LENGTH = ENHANCE_YOUR_CALM "the encoded fields are far too large";
    LIST_LENGTH = ENHANCE_YOUR_CALM "the decoded fields are far too large";
    COMPRESSION = COMPRESSION_ERROR "the fields cannot be decoded";
    SETTING = PROTOCOL_ERROR "a setting has a value that it must not have";
    SETTING_WINDOW = FLOW_CONTROL_ERROR "SETTINGS_INITIAL_WINDOW_SIZE is too large";
    WINDOW_ZERO = PROTOCOL_ERROR "WINDOW_UPDATE of 0";
    WINDOW_OVERFLOW = FLOW_CONTROL_ERROR "the window of the connection exceeds 2147483647";
    WINDOW_EXCEEDED = FLOW_CONTROL_ERROR "more content than the window of the connection allows";
    PRIORITY_ITSELF = PROTOCOL_ERROR "a stream that depends on itself";
    PRIORITY_UPDATE = PROTOCOL_ERROR "PRIORITY_UPDATE for a stream that no client opens";
    RESETS = ENHANCE_YOUR_CALM "too many requests without a response";
    NUISANCE = ENHANCE_YOUR_CALM "too many frames that bring nothing";
}

errors! { StreamError:
    MALFORMED_TRAILERS = PROTOCOL_ERROR "the trailers are malformed";
    TRAILERS_OPEN = PROTOCOL_ERROR "trailers that do not end the request";
    CONTENT_LONG = PROTOCOL_ERROR "the content is longer than content-length";
    CONTENT_SHORT = PROTOCOL_ERROR "the content is shorter than content-length";
    HALF_CLOSED = STREAM_CLOSED "a frame after the end of the request";
    WINDOW_ZERO = PROTOCOL_ERROR "WINDOW_UPDATE of 0";
    WINDOW_OVERFLOW = FLOW_CONTROL_ERROR "the window of the stream exceeds 2147483647";
    WINDOW_EXCEEDED = FLOW_CONTROL_ERROR "more content than the window of the stream allows";
    PRIORITY_LENGTH = FRAME_SIZE_ERROR "PRIORITY is not 5 bytes long";
}

/// The reason why a request is malformed (RFC 9113, section 8.1.1): its stream is reset with PROTOCOL_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Malformed {
    /// A field name is empty.
    NameEmpty,
    /// A field name has capital letters.
    NameUpperCase,
    /// A field name is not a token.
    Name,
    /// A value has a control byte.
    Value,
    /// White space surrounds a value.
    ValueSpace,
    /// A field about a connection of HTTP/1.
    ConnectionField,
    /// TE with another value than `trailers`.
    Te,
    /// A pseudo-field that requests do not have.
    PseudoUnknown,
    /// A pseudo-field twice.
    PseudoRepeated,
    /// A pseudo-field after an ordinary one.
    PseudoLate,
    /// A pseudo-field that every request has is missing.
    PseudoMissing,
    /// A pseudo-field in trailers.
    PseudoInTrailers,
    /// CONNECT with pseudo-fields that it must not have, or `:protocol` where it is not allowed.
    Connect,
    /// The method is not a token.
    Method,
    /// The path is empty, or neither begins with a slash nor is an asterisk with OPTIONS.
    Path,
    /// Host names another host than `:authority`.
    Host,
    /// Content-Length twice, or no number.
    ContentLength,
    /// Content-Length promises content, and there is none.
    ContentMissing,
}

impl Malformed {
    /// The reason, for the log: a few words without line ends.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NameEmpty => "an empty field name",
            Self::NameUpperCase => "a field name with capital letters",
            Self::Name => "a field name that is no token",
            Self::Value => "a control byte in a field value",
            Self::ValueSpace => "white space around a field value",
            Self::ConnectionField => "a field about a connection of HTTP/1",
            Self::Te => "TE with more than trailers",
            Self::PseudoUnknown => "an unknown pseudo-field",
            Self::PseudoRepeated => "a repeated pseudo-field",
            Self::PseudoLate => "a pseudo-field behind a field",
            Self::PseudoMissing => "a missing pseudo-field",
            Self::PseudoInTrailers => "a pseudo-field in trailers",
            Self::Connect => "CONNECT with the wrong pseudo-fields",
            Self::Method => "a method that is no token",
            Self::Path => "an invalid path",
            Self::Host => "Host and :authority differ",
            Self::ContentLength => "an invalid or repeated content-length",
            Self::ContentMissing => "content-length without content",
        }
    }
}
