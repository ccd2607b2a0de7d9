//! What is known of a response while a host works on it, whatever the protocol.

use super::access::Draft;
use super::moment::Moment;

/// The response to one exchange, as far as it has come.
#[derive(Debug)]
pub(super) struct Answer {
    /// When the request was complete.
    pub(super) complete_at: Moment,
    /// 0 until the response begins.
    pub(super) status: u16,
    /// The response is finished: nothing may be added to it.
    pub(super) finished: bool,
    /// Bytes of content that the client has been sent, or will be.
    pub(super) sent: u64,
    pub(super) custody: Custody,
}

/// Who has the request that is answered.
#[derive(Debug)]
pub(super) enum Custody {
    /// It is out with a lane, and the buffers that it stands in are, too.
    Lent,
    /// Its host has given it back and will answer later. What the access log will need of it has been kept, if there is one.
    Returned(Option<Box<Draft>>),
}

impl Answer {
    pub(super) const fn new(complete_at: Moment) -> Self {
        Self { complete_at, status: 0, finished: false, sent: 0, custody: Custody::Lent }
    }

    #[inline]
    pub(super) const fn is_lent(&self) -> bool {
        matches!(self.custody, Custody::Lent)
    }
}
