//! A request that was handed out to a lane.

use oribi_host::{ExchangeId, Request};
use oribi_ipc::slot::Stored;
use oribi_listen::Listener;
use oribi_message::RequestHead;
use oribi_source::LentRequest;
use std::os::fd::{AsFd, OwnedFd};

/// A request that was taken from a pool.
///
/// Boxed because it is moved several times; the box is reused.
#[derive(Debug)]
pub struct Lent {
    pub(super) id: ExchangeId,
    pub(super) received: Box<Received>,
}

/// A request with the files that hold its content.
#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) stored: Stored,
    pub(super) content: Option<OwnedFd>,
    /// The data for a FastCGI filter.
    pub(super) data: Option<OwnedFd>,
}

impl Received {
    #[inline]
    fn request(&self) -> Option<Request<'_>> {
        self.stored.request(self.content.as_ref().map(AsFd::as_fd), self.data.as_ref().map(AsFd::as_fd))
    }

    /// Whether all files with parts of the request have arrived.
    pub(super) fn is_complete(&self) -> bool {
        let Self { stored, content, data } = self;
        content.is_some() >= stored.has_content_file() && data.is_some() >= stored.has_data_file()
    }
}

impl LentRequest for Lent {
    #[inline]
    fn id(&self) -> ExchangeId {
        self.id
    }

    /// The endpoints are in the request: the listeners belong to an edge.
    #[inline]
    fn request<'r>(&'r self, _listeners: &'r [Listener]) -> Request<'r> {
        self.received.request().expect("a request is lent only when its files have come")
    }

    #[inline]
    fn head(&self) -> RequestHead<'_> {
        self.received.stored.head()
    }

    fn remove_fields(&mut self, unwanted: impl Fn(&[u8]) -> bool) {
        self.received.stored.remove_fields(unwanted);
    }
}
