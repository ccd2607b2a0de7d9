//! The limits for a web server, and the values announced to it.

/// Bounds of a connection and of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections that the server accepts: the answer to FCGI_MAX_CONNS. The machine does not enforce it. Default 1024.
    pub connections: u32,
    /// Requests that may be active at once on one connection; a further request is answered with OVERLOADED. The answer to
    /// FCGI_MAX_REQS. Default 1024.
    pub requests: u16,
    /// Bytes of the name-value pairs of one request; more is a 431. At most 1 GiB, because places are kept in 32 bits. The
    /// machine keeps no bytes, so the caller that collects the pairs must also enforce this limit while they arrive. Default 64
    /// KiB: 32 KiB for the head, as with HTTP, and as much for the variables that the web server adds.
    pub params_bytes: usize,
    /// Name-value pairs of one request; more is a 431. Default 500: 100 fields, and four times as many variables of the web
    /// server's own; Apache with `SSLOptions +StdEnvVars` sends more than a hundred.
    pub pairs: usize,
    /// Bytes of a request target; more is a 414. Default 8 KiB: RFC 9110, section 4.1, asks for at least 8000.
    pub target_bytes: usize,
    /// Whether a target with bytes above 0x7F is a 400, as the grammar requires (RFC 3986, section 2). Default false: browsers
    /// escape such bytes, but other clients send raw UTF-8, and nginx, Apache, Puma and Starman accept it.
    pub strict_target: bool,
    /// Bytes of content; a CONTENT_LENGTH above this is a 413. Default 1 GiB, the LimitRequestBody of Apache since 2.4.54. The
    /// caller that collects the content must also enforce this limit, because CONTENT_LENGTH may be absent.
    pub content_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            requests: 1024,
            params_bytes: 64 << 10,
            pairs: 500,
            target_bytes: 8 << 10,
            strict_target: false,
            content_bytes: 1 << 30,
        }
    }
}
