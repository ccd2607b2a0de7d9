//! A complete request in the hands of a lane: everything that its host may look at, owned, so that the engine is free meanwhile.

use super::content::StoredContent;
use super::input::Input;
use super::moment::Moment;
use super::remote::Remote;
use super::variables::Variables;
use crate::listen::Listener;
use oribi_host::{Endpoint, ExchangeId, Request};
use oribi_message::{HeadLayout, RequestHead};

/// A complete request, taken out of the engine. Give it back with `Engine::give_back`.
///
/// It goes from hand to hand and is larger than it looks, so it moves as a box, which the engine uses again.
#[derive(Debug)]
pub struct Exchange {
    pub(super) id: ExchangeId,
    pub(super) received: Box<Received>,
}

/// A request as far as it has been received, from its head on. Boxes that wait for their next request keep the memory of the
/// layout and nothing else.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// The buffer that the head stands in. It is the connection's until the request is lent.
    pub(super) input: Input,
    pub(super) layout: HeadLayout,
    pub(super) content: StoredContent,
    /// When it was complete.
    pub(super) complete_at: Moment,
    pub(super) remote: Remote,
    pub(super) listener: u16,
    /// What a web server said; then the head stands there, too.
    pub(super) variables: Option<Box<Variables>>,
}

impl Exchange {
    /// Its name.
    #[inline]
    #[must_use]
    pub fn id(&self) -> ExchangeId {
        self.id
    }

    /// What the host gets to see.
    #[inline]
    #[must_use]
    pub fn request<'a>(&'a self, listeners: &'a [Listener]) -> Request<'a> {
        let received = &*self.received;
        let listener = &listeners[usize::from(received.listener)];
        let mut request = Request {
            head: self.head(),
            content: received.content.view(received.input.bytes()),
            remote: Endpoint { address: received.remote.address(), port: received.remote.port() },
            server: Endpoint { address: listener.server_name.as_bytes(), port: listener.server_port.as_bytes() },
            https: false,
            underscores: false,
            gateway: None,
        };
        if let Some(variables) = &received.variables {
            variables.complete(&mut request);
        }
        request
    }

    /// Takes out fields that have no number and whose names are `unwanted`.
    pub(crate) fn remove_fields(&mut self, unwanted: impl Fn(&[u8]) -> bool) {
        let Received { input, layout, variables, .. } = &mut *self.received;
        let bytes = match variables {
            None => input.head_bytes(),
            Some(variables) => &variables.bytes,
        };
        layout.fields.retain(|field| field.known.is_some() || !unwanted(field.name.of(bytes)));
    }

    /// The bytes that the layout speaks of.
    #[inline]
    pub(super) fn head_bytes(&self) -> &[u8] {
        match &self.received.variables {
            None => self.received.input.head_bytes(),
            Some(variables) => &variables.bytes,
        }
    }

    /// The head of the request.
    #[inline]
    pub(crate) fn head(&self) -> RequestHead<'_> {
        RequestHead::new(self.head_bytes(), &self.received.layout)
    }
}
