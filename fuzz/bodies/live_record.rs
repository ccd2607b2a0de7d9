//! Properties of any bytes in place of a WebSocket that the old edge should have handed over.

use oribi_ipc::handover::{Bridge, LiveRecord};

/// Reads `data` as the next edge does: as a piece of a message, and as a record. Returns whether `data` is a record.
pub fn check(data: &[u8]) -> bool {
    if let Ok(Some(message)) = Bridge::default().arrive(data, None) {
        assert!(message.body.len() < data.len() && data.ends_with(&message.body));
        check(&message.body);
    }
    let Ok(record) = LiveRecord::decode(data) else { return false };
    let bytes = record.encode().expect("no part is larger than when it was read");
    assert!(bytes.len() <= data.len());
    assert_eq!(LiveRecord::decode(&bytes), Ok(record));
    true
}
