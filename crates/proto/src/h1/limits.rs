//! The limits for a client.

/// Limits for a request. Each limit is checked while bytes arrive, so that bytes beyond it are never kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, from the first byte of the request line to the end of the empty line; more is a 431. At most 1 GiB,
    /// because places in a head are kept in 32 bits. Default 32 KiB: nginx reads up to four buffers of 8 KiB
    /// (`large_client_header_buffers`).
    pub head_bytes: usize,
    /// Field lines of a head, and of a trailer section; more is a 431. Default 100, as in Apache (`LimitRequestFields`).
    pub fields: usize,
    /// Bytes of a request target; more is a 414. Default 8 KiB: RFC 9110, section 4.1, asks for at least 8000.
    pub target_bytes: usize,
    /// Whether a target with bytes above 0x7F is a 400, as the grammar requires (RFC 3986, section 2). Default false: browsers
    /// escape such bytes, but other clients send raw UTF-8, and nginx, Apache, Puma and Starman accept it.
    pub strict_target: bool,
    /// Bytes of content; more is a 413. Default 1 GiB, the LimitRequestBody of Apache since 2.4.54.
    pub content_bytes: u64,
    /// Bytes of a chunk-size line with its extensions, without the line end; more is a 400. Default 256: sizes need 16, and no
    /// extension is in use (RFC 9112, section 7.1.1, asks recipients to bound extensions).
    pub chunk_line_bytes: usize,
    /// Bytes of all chunk-size lines of a content beyond those that sizes need: extensions, white space and leading zeros, except
    /// seven zeros of each chunk that has content and no extension. Every 64 bytes of a chunk make up for one such byte. More than
    /// this limit is a 400; 65535 turns the limit off. Default 16 KiB, as in hyper (RFC 9112, section 7.1.1, asks for a bound of the
    /// sum).
    pub chunk_extra_bytes: usize,
    /// Bytes of a trailer section; more is a 431. Default 8 KiB, one header buffer of nginx.
    pub trailer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 32 << 10,
            fields: 100,
            target_bytes: 8 << 10,
            strict_target: false,
            content_bytes: 1 << 30,
            chunk_line_bytes: 256,
            chunk_extra_bytes: 16 << 10,
            trailer_bytes: 8 << 10,
        }
    }
}
