//! The limits for a client, and for the burden that the client may be.

/// Bounds of a connection and of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams that may be active at once; a further stream is reset with REFUSED_STREAM. Default 100, the least that RFC 9113,
    /// section 6.5.2, recommends.
    pub streams: u32,
    /// The size of the fields of a request, where each field counts its name, its value and 32 bytes. More is a 431, and more
    /// than four times as much ends the connection. Announced to the client (SETTINGS_MAX_HEADER_LIST_SIZE). At most 256 MiB.
    /// Default 32 KiB, as for heads of HTTP/1.
    pub head_bytes: usize,
    /// Fields of a request, and of trailers; more is a 431. Cookie counts once, because clients send each of its pairs as a
    /// field. Default 100.
    pub fields: usize,
    /// Bytes of a request target; more is a 414. Default 8 KiB.
    pub target_bytes: usize,
    /// Whether a target with bytes above 0x7F is a 400; see [`h1::Limits::strict_target`](crate::h1::Limits::strict_target).
    pub strict_target: bool,
    /// Bytes of content; more is a 413. Default 1 GiB.
    pub content_bytes: u64,
    /// Bytes of content of one stream that the client may send before the caller has consumed any. At least 65535, because a
    /// client may send so much until it has read the settings. Read when the connection begins. Default 256 KiB.
    pub stream_window: u32,
    /// Bytes of content of all streams together that the client may send before the caller has consumed any. Default 1 MiB.
    pub connection_window: u32,
    /// Frames that may bring the fields of one message. Default 10: mostly, one HEADERS frame of 16 KiB holds all fields.
    pub field_frames: u8,
    /// Requests that may end without a response, because the client has reset them or has given a reason to reset them. Each
    /// response restores four of them, and time restores them one by one. After one request more, no further request is served
    /// on the connection. Default 100, as many as may be active at once.
    pub resets: u16,
    /// Frames without any benefit (PING, SETTINGS, PRIORITY, unknown types, DATA with a few bytes, and WINDOW_UPDATE beyond two
    /// for each frame of content and for each 4 KiB in it) that a client may send. Requests, content and time restore them. One
    /// frame more ends the connection. Default 10000.
    pub nuisances: u32,
    /// The time that restores one of [`Limits::resets`] and one of [`Limits::nuisances`]. Default 30 ms: 33 in a second, as in
    /// nghttp2.
    pub restoring_nanoseconds: u64,
    /// Whether a client may open tunnels by an extended CONNECT (RFC 8441). Read when the connection begins. Default false.
    pub connect_protocol: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: 100,
            head_bytes: 32 << 10,
            fields: 100,
            target_bytes: 8 << 10,
            strict_target: false,
            content_bytes: 1 << 30,
            stream_window: 256 << 10,
            connection_window: 1 << 20,
            field_frames: 10,
            resets: 100,
            nuisances: 10_000,
            restoring_nanoseconds: 30_000_000,
            connect_protocol: false,
        }
    }
}

impl Limits {
    /// The limit for heads, at most 256 MiB. No head may exceed 1 GiB, because places in it are kept in 32 bits.
    pub(super) fn kept(&self) -> usize {
        self.head_bytes.min(1 << 28)
    }
}
