//! The reasons why a request never reaches a host.

/// The reason why the server answers a request itself, with an error status. With HTTP/1, the connection then closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub(crate) &'static Words);

/// The words of a refusal, reached by a pointer so that the machine, which stores its refusal, stays small.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
}

/// Defines refusals. Those of requests from web servers are in the FastCGI part.
macro_rules! refusals {
    ($($(#[$doc:meta])* $visibility:vis $name:ident = $status:literal $reason:literal;)*) => {
        impl $crate::h1::Refusal {
            $($(#[$doc])* $visibility const $name: Self = Self(&$crate::h1::Words { status: $status, reason: $reason });)*
        }
    };
}
pub(crate) use refusals;

refusals! {
    /// The head did not arrive in time.
    pub HEAD_TIMEOUT = 408 "the request head did not arrive in time";
    /// The content did not arrive in time.
    pub CONTENT_TIMEOUT = 408 "the request content did not arrive in time";
    /// The server or its host failed.
    pub INTERNAL = 500 "the server failed";
    /// The request is for a server that has another certificate than the one of its connection.
    pub MISDIRECTED = 421 "this connection was encrypted for another server";
    /// The fields of proxies contradict each other.
    pub FORWARDED = 400 "Forwarded and X-Forwarded fields contradict each other";
    /// The server is busy or stopping.
    pub OVERLOADED = 503 "the server is busy";
    /// The process may open no more files now, and needs one for the content.
    pub DESCRIPTORS = 503 "too many open files to keep the request content";
    /// Unfinished requests hold more memory than they may.
    pub CONTENT_MEMORY = 503 "unfinished requests hold too much memory";
    /// Unfinished requests have more files open than they may.
    pub CONTENT_FILES = 503 "unfinished requests hold too many files";
    /// There is no room to keep the content until the host reads it.
    pub STORAGE = 507 "no room for the request content";
    /// The content exceeds [`Limits::content_bytes`](super::Limits::content_bytes).
    pub CONTENT_SIZE = 413 "the content exceeds the limit";
    /// The trailers exceed [`Limits::trailer_bytes`](super::Limits::trailer_bytes).
    pub TRAILER_LENGTH = 431 "the trailer section exceeds the limit";
    /// There are more fields than [`Limits::fields`](super::Limits::fields).
    pub FIELD_COUNT = 431 "too many fields";
    /// The head exceeds [`Limits::head_bytes`](super::Limits::head_bytes).
    pub HEAD_LENGTH = 431 "the request head exceeds the limit";
    /// The target exceeds [`Limits::target_bytes`](super::Limits::target_bytes).
    pub TARGET_LENGTH = 414 "the request target exceeds the limit";

    pub(super) BARE_CR = 400 "CR without LF";
    pub(super) BARE_LF = 400 "LF without CR";
    pub(super) EMPTY_LINES = 400 "too many empty lines before the request line";
    pub(crate) METHOD = 400 "the method is not a token";
    pub(crate) METHOD_LENGTH = 501 "unknown method";
    /// An extended CONNECT for a protocol that the server does not speak.
    pub METHOD_CONNECT = 501 "no tunnels here";
    pub(crate) TARGET = 400 "invalid byte in the request target";
    pub(super) TARGET_EMPTY = 400 "no request target";
    pub(crate) TARGET_FORM = 400 "this form of request target does not go with the method";
    pub(super) TARGET_AUTHORITY = 400 "invalid authority in the request target";
    pub(super) VERSION = 400 "invalid protocol version";
    /// The fault of a response, which no client gets to see: see [`Fault`](super::client::Fault).
    pub(super) STATUS_LINE = 502 "invalid status line";
    pub(super) VERSION_UNSUPPORTED = 505 "only HTTP/1.1 and HTTP/1.0";
    pub(super) FIELD_FOLDED = 400 "white space before a field name";
    pub(super) FIELD_SPACE = 400 "white space between a field name and its colon";
    pub(super) FIELD_NAME = 400 "invalid field name";
    pub(crate) FIELD_VALUE = 400 "control byte in a field value";
    pub(crate) HOST_MISSING = 400 "no Host";
    pub(crate) HOST_REPEATED = 400 "more than one Host";
    pub(crate) HOST_INVALID = 400 "invalid Host";
    pub(super) LENGTH_INVALID = 400 "invalid Content-Length";
    pub(super) LENGTH_REPEATED = 400 "more than one Content-Length";
    pub(super) LENGTH_AND_CODING = 400 "both Content-Length and Transfer-Encoding";
    pub(super) CODING_INVALID = 400 "invalid Transfer-Encoding";
    pub(super) CODING_REPEATED = 400 "more than one Transfer-Encoding";
    pub(super) CODING_VERSION = 400 "Transfer-Encoding in an HTTP/1.0 request";
    pub(super) CODING_UNSUPPORTED = 501 "no transfer coding but chunked";
    pub(crate) EXPECTATION = 417 "unknown expectation";
    pub(super) CHUNK_SIZE = 400 "invalid chunk size";
    pub(super) CHUNK_LINE = 400 "chunk-size line too long";
    pub(super) CHUNK_EXTRA = 400 "too many bytes of chunk extensions";
    pub(super) CHUNK_EXTENSION = 400 "invalid chunk extension";
    pub(super) CHUNK_END = 400 "chunk data not followed by CR LF";
}

impl Refusal {
    /// The status code of the answer.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.0.status
    }

    /// The reason, for the client and the log: a few words without line ends.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        self.0.reason
    }
}
