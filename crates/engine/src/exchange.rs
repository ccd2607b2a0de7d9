//! A complete request that a lane has: it owns everything that its host may read, so the engine is free meanwhile.

use super::content::StoredContent;
use super::content_bounds::{ContentBounds, Held};
use super::forwarded::Forwarded;
use super::input::Input;
use super::remote::Remote;
use super::request_id::RequestId;
use super::timestamp::Timestamp;
use super::trailers::ReceivedTrailers;
use super::variables::Variables;
use oribi_filter::FieldChanges;
use oribi_host::{Endpoint, ExchangeId, Request};
use oribi_io::Encryption;
use oribi_listen::Listener;
use oribi_message::list::members;
use oribi_message::{FieldLayout, HeadLayout, KnownField, KnownVariable, RequestHead, Span, TargetForm};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// A complete request, taken out of the engine. Return it with `Engine::give_back`.
///
/// The data is in a box, because it is large and passed on several times; the engine reuses the box.
#[derive(Debug)]
pub struct Exchange {
    pub(super) id: ExchangeId,
    pub(super) received: Box<Received>,
}

/// The received part of a request, from its head on. A box that waits for its next request keeps only the memory of the
/// layout.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// The buffer with the head. The connection keeps it until the request is lent.
    pub(super) input: Input,
    pub(super) layout: HeadLayout,
    pub(super) content: StoredContent,
    pub(super) trailers: ReceivedTrailers,
    /// The time at which the request was complete.
    pub(super) complete_at: Timestamp,
    /// The time at which the request was lent.
    pub(super) lent_at: Timestamp,
    /// The client, as far as it is known.
    pub(super) remote: Remote,
    pub(super) forwarded: Forwarded,
    pub(super) listener: u16,
    /// The number of earlier requests on its connection.
    pub(super) earlier: u32,
    /// The variables from a web server, whose memory then also holds the head; or the variables that describe an encrypted
    /// connection.
    pub(super) variables: Option<Box<Variables>>,
    /// The bytes of a head that did not arrive as text (HTTP/2), or to which a field was added; otherwise empty.
    pub(super) text: Vec<u8>,
    /// The id of the request, until the request is lent; `None` if requests have no ids.
    pub(super) id: Option<Box<RequestId>>,
}

impl Received {
    /// Whether the client sent the request over https, as far as its head has been read. (`forwarded` also says it for this
    /// server's own connection. Variables that are `own` may be left over from another connection.)
    #[inline]
    pub(super) fn is_https(&self) -> bool {
        self.forwarded.https || self.variables.as_ref().is_some_and(|variables| !variables.own && variables.say_https())
    }

    /// The memory and files of the content and of the data for a filter, and the number of bytes of both that have arrived.
    pub(super) fn held(&self) -> (Held, u64) {
        let (mut held, mut size) = (self.content.held(), self.content.size());
        if let Some(variables) = &self.variables {
            held.add(variables.data.held());
            size += variables.data.size();
        }
        (held, size)
    }

    /// The number of bytes of content and data that could be in files instead of memory.
    pub(super) fn movable(&self) -> u64 {
        self.content.movable() + self.variables.as_ref().map_or(0, |variables| variables.data.movable())
    }

    /// The number of new files needed to move those bytes.
    pub(super) fn files_to_move(&self) -> u64 {
        let one = |content: &StoredContent| u64::from(content.movable() > 0 && !content.has_file());
        one(&self.content) + self.variables.as_ref().map_or(0, |variables| one(&variables.data))
    }

    /// Moves its content from memory to files.
    pub(super) fn leave_memory(&mut self, bounds: &ContentBounds<'_>) -> io::Result<()> {
        let data = self.variables.as_mut().map(|variables| &mut variables.data);
        let contents = std::iter::once(&mut self.content).chain(data);
        contents.filter(|content| content.movable() > 0).try_for_each(|content| content.leave_memory(bounds))
    }

    /// Describes the connection, if it is encrypted.
    #[inline(always)]
    pub(super) fn describe(&mut self, encryption: Option<&Arc<Encryption>>) {
        match encryption {
            Some(encryption) => self.variables.get_or_insert_default().describe(encryption),
            // The variables of the previous request in this box.
            None if self.variables.is_some() => self.variables = None,
            None => {}
        }
    }
}

impl Exchange {
    /// The id of the exchange.
    #[inline]
    #[must_use]
    pub fn id(&self) -> ExchangeId {
        self.id
    }

    /// The time at which the request was complete, in nanoseconds on the backend's clock.
    #[inline]
    pub fn complete_at(&self) -> u64 {
        self.received.complete_at.since(Timestamp::ZERO)
    }

    /// The request in the form for hosts. (Inlined, because otherwise it would be copied field by field.)
    #[inline(always)]
    #[must_use]
    pub fn request<'a>(&'a self, listeners: &'a [Listener]) -> Request<'a> {
        let received = &*self.received;
        let mut server = listeners[usize::from(received.listener)].endpoint();
        if let Some(port) = received.forwarded.port {
            server.port = port.of(self.head_bytes());
        }
        match &received.variables {
            None => self.plain_request(server),
            Some(variables) => self.request_with(variables, server),
        }
    }

    /// The request with the variables of a web server, or those that describe its connection. Not inlined, so that the code of
    /// requests without variables contains that of [`Exchange::plain_request`] only once, and needs no call for it.
    #[inline(never)]
    fn request_with<'a>(&'a self, variables: &'a Variables, server: Endpoint<'a>) -> Request<'a> {
        variables.complete(self.plain_request(server))
    }

    #[inline(always)]
    fn plain_request<'a>(&'a self, server: Endpoint<'a>) -> Request<'a> {
        let received = &*self.received;
        Request {
            head: self.head(),
            content: received.content.view(received.input.bytes()),
            trailers: received.trailers.view(),
            remote: Endpoint { address: received.remote.address(), port: received.remote.port() },
            server,
            forwarded_port: received.forwarded.port.is_some(),
            chosen_name: false,
            https: received.forwarded.https,
            underscores: false,
            gateway: None,
        }
    }

    /// Whether the client sent the request over https.
    #[inline]
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.received.is_https()
    }

    /// Whether the request has content.
    #[inline]
    #[must_use]
    pub fn has_content(&self) -> bool {
        !self.received.content.is_none()
    }

    /// The number of the listener at which the request arrived.
    #[must_use]
    pub fn listener(&self) -> usize {
        usize::from(self.received.listener)
    }

    /// The address of the client; `None` for the peer of a Unix socket.
    #[must_use]
    pub fn client(&self) -> Option<IpAddr> {
        self.received.remote.ip()
    }

    /// Says that the app answers below `prefix`, a path without a slash at its end. If the path of the request begins with it,
    /// SCRIPT_NAME is `prefix`, and PATH_INFO the rest. A web server in front has split the path already: then this does nothing.
    pub fn mount(&mut self, prefix: &[u8]) {
        let variables = &mut self.received.variables;
        if variables.as_ref().is_none_or(|variables| variables.own) {
            variables.get_or_insert_default().mount(prefix);
        }
    }

    /// Replaces the target by path and query, in origin form. The log keeps the target that the client has sent. The split of the
    /// path by a web server in front is forgotten, because it is about the old path.
    pub fn rewrite(&mut self, target: &[u8]) {
        let Received { input, layout, variables, text, .. } = &mut *self.received;
        let of_web_server = variables.as_ref().is_some_and(|variables| !variables.own);
        let variables = variables.get_or_insert_default();
        variables.own = !of_web_server;
        variables.as_sent.get_or_insert_with(|| Box::new(layout.clone()));
        let bytes = if of_web_server {
            variables.forget_target();
            &mut variables.bytes
        } else {
            if text.is_empty() {
                text.extend_from_slice(input.head_bytes());
            }
            text
        };
        let start = bytes.len();
        bytes.extend_from_slice(target);
        let end = bytes.len();
        let question = target.iter().position(|byte| *byte == b'?').map(|length| start + length);
        layout.target = Span::new(start, end);
        layout.path = Span::new(start, question.unwrap_or(end));
        layout.query = question.map(|question| Span::new(question + 1, end));
        layout.form = TargetForm::Origin;
        if let Some(authority) = layout.authority.take() {
            // The authority of the target overrides Host (RFC 9112, section 3.2.2).
            layout.fields.retain(|field| field.known != Some(KnownField::Host));
            let start = bytes.len();
            bytes.extend_from_slice(b"Host");
            let name = Span::new(start, bytes.len());
            layout.fields.push(FieldLayout { name, value: authority, known: Some(KnownField::Host) });
        }
    }

    /// Restores the target and the fields that the client has sent, if the target was rewritten.
    pub fn restore_target(&mut self) {
        let Received { layout, variables, .. } = &mut *self.received;
        if let Some(as_sent) = variables.as_mut().and_then(|variables| variables.as_sent.take()) {
            *layout = *as_sent;
        }
    }

    /// Whether the client has shown a valid certificate.
    #[must_use]
    pub fn has_client_certificate(&self) -> bool {
        self.received.variables.as_ref().is_some_and(|variables| variables.has_client_certificate())
    }

    /// The user of the request; `None` if neither this server nor a web server in front has checked who it is.
    #[must_use]
    pub fn user(&self) -> Option<&[u8]> {
        self.received.variables.as_ref()?.get(KnownVariable::RemoteUser)
    }

    /// Says who the user of the request is: apps get REMOTE_USER, and AUTH_TYPE with the scheme by which the server has checked
    /// it. This replaces those of a web server in front.
    pub fn set_user(&mut self, user: &[u8], scheme: &[u8]) {
        let own = || Box::new(Variables { own: true, ..Variables::default() });
        let variables = self.received.variables.get_or_insert_with(own);
        variables.set(KnownVariable::RemoteUser, user);
        variables.set(KnownVariable::AuthType, scheme);
    }

    /// Removes unknown fields whose names are `unwanted`.
    pub(crate) fn remove_fields(&mut self, unwanted: impl Fn(&[u8]) -> bool) {
        let Received { input, layout, variables, text, .. } = &mut *self.received;
        let bytes = match variables {
            Some(variables) if !variables.own => &variables.bytes,
            _ if text.is_empty() => input.head_bytes(),
            _ => text,
        };
        layout.fields.retain(|field| field.known.is_some() || !unwanted(field.name.of(bytes)));
    }

    /// Changes the fields of the request. The values of removed fields are overwritten: the app gets the memory of the whole
    /// head.
    pub fn change_fields(&mut self, changes: &FieldChanges) {
        let Received { input, layout, variables, text, .. } = &mut *self.received;
        let bytes = match variables {
            Some(variables) if !variables.own => &mut variables.bytes,
            _ => {
                if text.is_empty() {
                    text.extend_from_slice(input.head_bytes());
                }
                text
            }
        };
        layout.fields.retain(|field| {
            let stays = !changes.drops_of_request(field.name.of(bytes));
            if !stays {
                field.value.of_mut(bytes).fill(b' ');
            }
            stays
        });
        let is_appended = |option: &[u8]| changes.appended().any(|(name, _)| option.eq_ignore_ascii_case(name));
        let names_appended = |field: &FieldLayout| {
            field.known == Some(KnownField::Connection) && members(field.value.of(bytes)).any(is_appended)
        };
        // A client must not make a proxy drop a field that this server sets.
        if layout.fields.iter().any(names_appended) {
            layout.fields.retain(|field| field.known != Some(KnownField::Connection));
        }
        for (name, value) in changes.appended() {
            let mut append = |part: &[u8]| {
                let start = bytes.len();
                bytes.extend_from_slice(part);
                Span::new(start, bytes.len())
            };
            let (name, value, known) = (append(name), append(value), KnownField::lookup(name));
            layout.fields.push(FieldLayout { name, value, known });
        }
    }

    /// The bytes that the layout refers to.
    #[inline]
    pub(super) fn head_bytes(&self) -> &[u8] {
        match &self.received.variables {
            Some(variables) if !variables.own => &variables.bytes,
            _ if self.received.text.is_empty() => self.received.input.head_bytes(),
            _ => &self.received.text,
        }
    }

    /// The head of the request as the client has sent it: with the target before it was rewritten.
    #[inline]
    #[must_use]
    pub fn head_as_sent(&self) -> RequestHead<'_> {
        RequestHead::new(self.head_bytes(), self.layout_as_sent())
    }

    /// The layout of that head.
    #[inline]
    pub(super) fn layout_as_sent(&self) -> &HeadLayout {
        let variables = self.received.variables.as_ref();
        variables.and_then(|variables| variables.as_sent.as_deref()).unwrap_or(&self.received.layout)
    }

    /// The head of the request.
    #[inline]
    pub(crate) fn head(&self) -> RequestHead<'_> {
        RequestHead::new(self.head_bytes(), &self.received.layout)
    }
}
