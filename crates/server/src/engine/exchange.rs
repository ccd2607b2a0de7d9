//! An exchange in the hands of a lane: everything that its host may look at, owned, so that the engine is free meanwhile.

use super::connection::Remote;
use super::content::StoredContent;
use super::fastcgi::Parts;
use super::input::Input;
use crate::listen::Listener;
use oribi_host::{Endpoint, ExchangeId, Request};
use oribi_message::{HeadLayout, RequestHead};

/// A complete request, taken out of the engine. Give it back with `Engine::give_back`.
///
/// It goes from hand to hand and is larger than it looks, so it moves as a box, which the engine uses again.
#[derive(Debug)]
pub struct Exchange {
    pub(super) id: ExchangeId,
    pub(super) lent: Box<Lent>,
}

/// What is in the box. Boxes that wait for their next exchange keep the memory of the layout and nothing else.
#[derive(Debug, Default)]
pub(super) struct Lent {
    pub(super) input: Input,
    pub(super) layout: HeadLayout,
    pub(super) content: StoredContent,
    pub(super) remote: Remote,
    pub(super) listener: u16,
    /// What a web server said; then the head stands there, too.
    pub(super) parts: Option<Box<Parts>>,
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
        let lent = &*self.lent;
        let listener = &listeners[usize::from(lent.listener)];
        let mut request = Request {
            head: self.head(),
            content: lent.content.view(lent.input.bytes()),
            remote: Endpoint { address: lent.remote.address(), port: lent.remote.port() },
            server: Endpoint { address: listener.server_name.as_bytes(), port: listener.server_port.as_bytes() },
            https: false,
            underscores: false,
            gateway: None,
        };
        if let Some(parts) = &lent.parts {
            parts.complete(&mut request);
        }
        request
    }

    /// Takes out fields that have no number and whose names are `unwanted`.
    pub(crate) fn remove_fields(&mut self, unwanted: impl Fn(&[u8]) -> bool) {
        let Lent { input, layout, parts, .. } = &mut *self.lent;
        let bytes = match parts {
            None => input.head_bytes(),
            Some(parts) => &parts.bytes,
        };
        layout.fields.retain(|field| field.known.is_some() || !unwanted(field.name.of(bytes)));
    }

    /// The bytes that the layout speaks of.
    #[inline]
    pub(super) fn head_bytes(&self) -> &[u8] {
        match &self.lent.parts {
            None => self.lent.input.head_bytes(),
            Some(parts) => &parts.bytes,
        }
    }

    /// The head of the request.
    #[inline]
    pub(crate) fn head(&self) -> RequestHead<'_> {
        RequestHead::new(self.head_bytes(), &self.lent.layout)
    }
}
