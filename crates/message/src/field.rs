//! The field names that Oribi knows by number: the names that control the protocol, and those that most requests carry. A host
//! can intern the CGI-style names of these fields once instead of building them for every request.

macro_rules! known_fields {
    ($($variant:ident: $name:literal $cgi:literal,)*) => {
        /// A well-known field name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "each variant is the field name it is named for")]
        pub enum KnownField { $($variant,)* }

        impl KnownField {
            /// All well-known field names, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            const NAMES: &'static [&'static str] = &[$($name,)*];
            const CGI_NAMES: &'static [&'static str] = &[$($cgi,)*];
        }
    };
}

known_fields! {
    Accept: "accept" "HTTP_ACCEPT",
    AcceptCharset: "accept-charset" "HTTP_ACCEPT_CHARSET",
    AcceptEncoding: "accept-encoding" "HTTP_ACCEPT_ENCODING",
    AcceptLanguage: "accept-language" "HTTP_ACCEPT_LANGUAGE",
    AccessControlRequestHeaders: "access-control-request-headers" "HTTP_ACCESS_CONTROL_REQUEST_HEADERS",
    AccessControlRequestMethod: "access-control-request-method" "HTTP_ACCESS_CONTROL_REQUEST_METHOD",
    Authorization: "authorization" "HTTP_AUTHORIZATION",
    CacheControl: "cache-control" "HTTP_CACHE_CONTROL",
    CdnLoop: "cdn-loop" "HTTP_CDN_LOOP",
    Connection: "connection" "HTTP_CONNECTION",
    ContentDisposition: "content-disposition" "HTTP_CONTENT_DISPOSITION",
    ContentEncoding: "content-encoding" "HTTP_CONTENT_ENCODING",
    ContentLanguage: "content-language" "HTTP_CONTENT_LANGUAGE",
    ContentLength: "content-length" "HTTP_CONTENT_LENGTH",
    ContentLocation: "content-location" "HTTP_CONTENT_LOCATION",
    ContentRange: "content-range" "HTTP_CONTENT_RANGE",
    ContentType: "content-type" "HTTP_CONTENT_TYPE",
    Cookie: "cookie" "HTTP_COOKIE",
    Date: "date" "HTTP_DATE",
    Dnt: "dnt" "HTTP_DNT",
    EarlyData: "early-data" "HTTP_EARLY_DATA",
    Expect: "expect" "HTTP_EXPECT",
    Forwarded: "forwarded" "HTTP_FORWARDED",
    From: "from" "HTTP_FROM",
    Host: "host" "HTTP_HOST",
    IfMatch: "if-match" "HTTP_IF_MATCH",
    IfModifiedSince: "if-modified-since" "HTTP_IF_MODIFIED_SINCE",
    IfNoneMatch: "if-none-match" "HTTP_IF_NONE_MATCH",
    IfRange: "if-range" "HTTP_IF_RANGE",
    IfUnmodifiedSince: "if-unmodified-since" "HTTP_IF_UNMODIFIED_SINCE",
    KeepAlive: "keep-alive" "HTTP_KEEP_ALIVE",
    LastEventId: "last-event-id" "HTTP_LAST_EVENT_ID",
    MaxForwards: "max-forwards" "HTTP_MAX_FORWARDS",
    Origin: "origin" "HTTP_ORIGIN",
    Pragma: "pragma" "HTTP_PRAGMA",
    Priority: "priority" "HTTP_PRIORITY",
    Proxy: "proxy" "HTTP_PROXY",
    ProxyAuthorization: "proxy-authorization" "HTTP_PROXY_AUTHORIZATION",
    ProxyConnection: "proxy-connection" "HTTP_PROXY_CONNECTION",
    Range: "range" "HTTP_RANGE",
    Referer: "referer" "HTTP_REFERER",
    SecChUa: "sec-ch-ua" "HTTP_SEC_CH_UA",
    SecChUaMobile: "sec-ch-ua-mobile" "HTTP_SEC_CH_UA_MOBILE",
    SecChUaPlatform: "sec-ch-ua-platform" "HTTP_SEC_CH_UA_PLATFORM",
    SecFetchDest: "sec-fetch-dest" "HTTP_SEC_FETCH_DEST",
    SecFetchMode: "sec-fetch-mode" "HTTP_SEC_FETCH_MODE",
    SecFetchSite: "sec-fetch-site" "HTTP_SEC_FETCH_SITE",
    SecFetchUser: "sec-fetch-user" "HTTP_SEC_FETCH_USER",
    SecWebsocketExtensions: "sec-websocket-extensions" "HTTP_SEC_WEBSOCKET_EXTENSIONS",
    SecWebsocketKey: "sec-websocket-key" "HTTP_SEC_WEBSOCKET_KEY",
    SecWebsocketProtocol: "sec-websocket-protocol" "HTTP_SEC_WEBSOCKET_PROTOCOL",
    SecWebsocketVersion: "sec-websocket-version" "HTTP_SEC_WEBSOCKET_VERSION",
    Te: "te" "HTTP_TE",
    Trailer: "trailer" "HTTP_TRAILER",
    Traceparent: "traceparent" "HTTP_TRACEPARENT",
    Tracestate: "tracestate" "HTTP_TRACESTATE",
    TransferEncoding: "transfer-encoding" "HTTP_TRANSFER_ENCODING",
    Upgrade: "upgrade" "HTTP_UPGRADE",
    UpgradeInsecureRequests: "upgrade-insecure-requests" "HTTP_UPGRADE_INSECURE_REQUESTS",
    UserAgent: "user-agent" "HTTP_USER_AGENT",
    Via: "via" "HTTP_VIA",
    XCsrfToken: "x-csrf-token" "HTTP_X_CSRF_TOKEN",
    XForwardedFor: "x-forwarded-for" "HTTP_X_FORWARDED_FOR",
    XForwardedHost: "x-forwarded-host" "HTTP_X_FORWARDED_HOST",
    XForwardedPort: "x-forwarded-port" "HTTP_X_FORWARDED_PORT",
    XForwardedProto: "x-forwarded-proto" "HTTP_X_FORWARDED_PROTO",
    XHttpMethodOverride: "x-http-method-override" "HTTP_X_HTTP_METHOD_OVERRIDE",
    XRealIp: "x-real-ip" "HTTP_X_REAL_IP",
    XRequestId: "x-request-id" "HTTP_X_REQUEST_ID",
    XRequestedWith: "x-requested-with" "HTTP_X_REQUESTED_WITH",
}

impl KnownField {
    /// The name in lower case.
    #[inline]
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The name as a CGI variable: `HTTP_USER_AGENT`. (In CGI interfaces `Content-Type` and `Content-Length` have no `HTTP_`;
    /// the code that lays out the variables takes care of that.)
    #[inline]
    #[must_use]
    pub const fn cgi_name(self) -> &'static str {
        Self::CGI_NAMES[self as usize]
    }

    /// Returns the known field with this name, in any case; `None` for other names. The name must be a token (RFC 9110, section
    /// 5.6.2).
    #[inline]
    #[must_use]
    pub fn lookup(name: &[u8]) -> Option<Self> {
        if name.is_empty() {
            return None;
        }
        let mut slot = hash(name);
        loop {
            let index = SLOTS[slot];
            if index == EMPTY {
                return None;
            }
            if equals_folded(name, Self::NAMES[index as usize].as_bytes()) {
                return Some(Self::ALL[index as usize]);
            }
            slot = (slot + 1) % SLOT_COUNT;
        }
    }
}

/// Whether `name` equals `known` apart from case. Setting bit 5 turns capital letters into small ones and does not change small
/// letters, digits and the hyphen; no other byte of a token becomes a letter or a hyphen by it. Eight bytes are compared at a
/// time; if the length is not a multiple of eight, the last eight bytes overlap those before them.
#[inline]
fn equals_folded(name: &[u8], known: &[u8]) -> bool {
    const FOLD: u64 = 0x2020_2020_2020_2020;
    if name.len() != known.len() {
        return false;
    }
    let word = |bytes: &[u8], end: usize| -> Option<u64> {
        let eight = bytes.get(end.checked_sub(8)?..end)?;
        Some(u64::from_le_bytes(eight.try_into().ok()?))
    };
    if name.len() < 8 {
        return name.iter().zip(known).all(|(byte, known)| byte | 0x20 == *known);
    }
    let mut end = 8;
    loop {
        match (word(name, end), word(known, end)) {
            (Some(name), Some(known)) if name | FOLD == known => {}
            _ => return false,
        }
        if end == known.len() {
            return true;
        }
        end = (end + 8).min(known.len());
    }
}

/// More than seven times the number of known names, so that an unknown name mostly finds an empty slot at once.
const SLOT_COUNT: usize = 512;
const EMPTY: u8 = u8::MAX;
static SLOTS: [u8; SLOT_COUNT] = fill();

/// Returns the slot at which the search for a name begins. Length, first, middle and last byte distinguish the known names
/// well. Setting bit 5 folds the case of letters and does not change the hyphen.
#[inline]
const fn hash(name: &[u8]) -> usize {
    let first = (name[0] | 0x20) as usize;
    let middle = (name[name.len() / 2] | 0x20) as usize;
    let last = (name[name.len() - 1] | 0x20) as usize;
    (name.len() * 67 + first * 31 + middle * 7 + last * 113) % SLOT_COUNT
}

const fn fill() -> [u8; SLOT_COUNT] {
    let mut slots = [EMPTY; SLOT_COUNT];
    let mut index = 0;
    while index < KnownField::NAMES.len() {
        let mut slot = hash(KnownField::NAMES[index].as_bytes());
        while slots[slot] != EMPTY {
            slot = (slot + 1) % SLOT_COUNT;
        }
        slots[slot] = index as u8;
        index += 1;
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::KnownField;
    use alloc::string::ToString;

    #[test]
    fn every_name_is_found_in_any_case() {
        for &field in KnownField::ALL {
            assert_eq!(KnownField::lookup(field.name().as_bytes()), Some(field));
            assert_eq!(KnownField::lookup(field.name().to_ascii_uppercase().as_bytes()), Some(field));
            let cgi = "HTTP_".to_string() + &field.name().to_ascii_uppercase().replace('-', "_");
            assert_eq!(field.cgi_name(), cgi);
        }
    }

    #[test]
    fn other_names_are_not() {
        for name in ["", "x", "hosts", "hos", "x-forwarded-fox", "user_agent", "content-lengtH2"] {
            assert_eq!(KnownField::lookup(name.as_bytes()), None, "{name}");
        }
    }
}
