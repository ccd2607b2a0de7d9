//! Properties of any bytes in place of the request that an edge should have written.

use oribi_ipc::slot::{Stored, size_for_summary, summarize};

/// Reads `data` as a worker does, and as a process that only summarizes requests. Returns whether `data` is a request.
pub fn check(data: &[u8]) -> bool {
    let mut stored = Stored::default();
    let is_request = stored.read(data).is_ok();
    let seen = summarize(data);
    if let Ok(seen) = &seen {
        let size = size_for_summary(data).expect("it has been read");
        assert_eq!(summarize(&data[..size]).as_ref(), Ok(seen), "so many bytes are enough");
        assert!(!seen.target.contains(&b'?'), "no query is told");
    }
    if is_request {
        let (head, seen) = (stored.head(), seen.expect("who can answer it can tell what it is about"));
        assert_eq!(head.method(), seen.method);
        assert_eq!(head.target().split(|byte| *byte == b'?').next(), Some(seen.target));
        let trailers = stored.request(None, None).and_then(|request| request.trailers);
        let bytes = trailers.map_or(0, |trailers| trailers.fields().map(|(name, value)| 8 + name.len() + value.len()).sum());
        assert!(bytes <= data.len());
    }
    is_request
}
