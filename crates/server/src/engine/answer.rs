//! The state of a response while a host works on it, the same for all protocols.

use super::moment::Moment;
use super::remote::Remote;
use crate::log::Noted;
use oribi_message::HeadLayout;
use std::time::Duration;

/// The state of the response to one exchange.
#[derive(Debug)]
pub(super) struct Answer {
    /// When the request was complete.
    pub(super) complete_at: Moment,
    /// 0 until the response begins.
    pub(super) status: u16,
    /// Its client has come by https, and is told so.
    pub(super) https: bool,
    /// The response is finished: nothing may be added to it.
    pub(super) finished: bool,
    /// Bytes of content that the client has been sent, or will be.
    pub(super) sent: u64,
    pub(super) custody: Custody,
    /// What the access log will tell of the response's fields.
    pub(super) noted: Option<Box<Noted>>,
}

/// Who holds the request.
#[derive(Debug)]
pub(super) enum Custody {
    /// A lane has it, together with the buffers that it stands in.
    Lent,
    /// Its host has returned it and will answer later. If there is an access log, what the log needs of the request is kept
    /// here.
    Returned(Option<Box<Draft>>),
}

/// The head of a request that is answered after its host has returned, and its client, kept for the log.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) head: Vec<u8>,
    pub(super) layout: HeadLayout,
    pub(super) remote: Remote,
    pub(super) listener: u16,
}

/// What the access log says about a response.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) finished: bool,
    pub(super) status: u16,
    /// Bytes of content.
    pub(super) sent: u64,
    /// When the request was complete.
    pub(super) began: Duration,
    pub(super) noted: Option<Box<Noted>>,
}

/// The log line of an exchange that ends after its host has returned.
pub(super) struct LateLine {
    pub(super) draft: Box<Draft>,
    pub(super) outcome: Outcome,
}

impl Answer {
    pub(super) const fn new(complete_at: Moment, https: bool) -> Self {
        Self { complete_at, status: 0, https, finished: false, sent: 0, custody: Custody::Lent, noted: None }
    }

    #[inline]
    pub(super) const fn is_lent(&self) -> bool {
        matches!(self.custody, Custody::Lent)
    }

    /// The data of its log line, if its host has returned and there is a log.
    pub(super) fn late_line(&mut self) -> Option<LateLine> {
        let Custody::Returned(draft) = &mut self.custody else { return None };
        Some(LateLine { draft: draft.take()?, outcome: self.outcome() })
    }

    /// What the log will say; it takes what was noted, if the response is finished.
    pub(super) fn outcome(&mut self) -> Outcome {
        let Self { finished, status, sent, complete_at, ref mut noted, .. } = *self;
        let noted = if finished { noted.take() } else { None };
        Outcome { finished, status, sent, began: complete_at.time(), noted }
    }
}
