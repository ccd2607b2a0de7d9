//! Sends the files that apps name in place of content (X-Sendfile, X-Accel-Redirect). Stores the conditions and ranges of a
//! request until its response begins, perhaps much later, and drops the content of the app that the file replaces.

use oribi_files::root::NotFound;
use oribi_files::selection::Selection;
use oribi_files::{NamedFiles, Response, respond};
use oribi_host::{ExchangeId, Outlet, ReplyError};
use oribi_message::{FieldPair, KnownField, RequestHead, ResponseHead};
use oribi_source::LentRequest;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// The number of requests at which the finished ones are removed; the next limit is twice the remaining number.
const MANY: usize = 1024;

/// Files that the app of a lane may name, and the exchanges that involve them.
#[derive(Debug)]
pub(crate) struct FileResponses {
    files: NamedFiles,
    /// The conditions and ranges of requests. A request without an entry is a GET without conditions and ranges.
    requests: RefCell<HashMap<u64, FileRequest>>,
    bound: Cell<usize>,
    /// Exchanges that were answered with a file while their app still sends content.
    dropped: RefCell<Vec<ExchangeId>>,
}

/// The relevant parts of a request.
#[derive(Debug)]
struct FileRequest {
    method: Vec<u8>,
    lines: Vec<(KnownField, Vec<u8>)>,
}

impl FileRequest {
    fn of(head: &RequestHead<'_>) -> Option<Self> {
        let wanted = head.fields().filter_map(|(known, _, value)| Some((known?, value.to_vec())));
        let lines: Vec<_> =
            wanted.filter(|(known, _)| Selection::concerns(*known) && *known != KnownField::AcceptEncoding).collect();
        let particular = !lines.is_empty() || head.method() != b"GET";
        particular.then(|| Self { method: head.method().to_vec(), lines })
    }
}

impl FileResponses {
    pub(crate) fn new(files: NamedFiles) -> Self {
        Self { files, requests: RefCell::default(), bound: Cell::new(MANY), dropped: RefCell::default() }
    }

    /// Prepares a request that an app is about to get. `is_open` returns whether an exchange is still unanswered.
    pub(crate) fn begin(&self, exchange: &mut impl LentRequest, is_open: impl Fn(ExchangeId) -> bool) {
        exchange.remove_fields(NamedFiles::steers_app);
        if let Some(request) = FileRequest::of(&exchange.head()) {
            self.keep(exchange.id(), request, is_open);
        }
    }

    fn keep(&self, exchange: ExchangeId, request: FileRequest, is_open: impl Fn(ExchangeId) -> bool) {
        let mut all = self.requests.borrow_mut();
        if all.len() >= self.bound.get() {
            all.retain(|id, _| is_open(ExchangeId(*id)));
            self.bound.set(MANY.max(all.len() * 2));
        }
        all.insert(exchange.0, request);
    }

    /// Sends the file that a response names, through `outlet`. `None` if its fields name no file.
    pub(crate) fn respond(
        &self,
        outlet: &dyn Outlet,
        exchange: ExchangeId,
        head: &ResponseHead<'_>,
    ) -> Option<Result<(), ReplyError>> {
        let request = self.requests.borrow_mut().remove(&exchange.0);
        let name = self.files.name_in(head.fields)?;
        let representation = match self.files.find(name) {
            Ok(representation) => representation,
            Err(why) => return Some(refuse(outlet, exchange, name.text(), &why)),
        };
        let fields: Vec<FieldPair<'_>> =
            head.fields.iter().filter(|(name, _)| !self.files.is_for_server(name)).copied().collect();
        let lines = request.iter().flat_map(|request| request.lines.iter().map(|(known, value)| (*known, value.as_slice())));
        let response = Response {
            representation: &representation,
            method: request.as_ref().map_or(b"GET", |request| &request.method),
            selection: &Selection::of(lines),
            // The server itself selects the range of the file.
            status: if head.status == 206 { 200 } else { head.status },
            fields: &fields,
        };
        Some(respond(outlet, exchange, &response))
    }

    /// Drops the content that the app is about to send.
    pub(crate) fn drop_content(&self, exchange: ExchangeId) {
        self.dropped.borrow_mut().push(exchange);
    }

    /// Whether the content of an exchange is dropped.
    pub(crate) fn drops_content(&self, exchange: ExchangeId) -> bool {
        self.dropped.borrow().contains(&exchange)
    }

    /// Removes an exchange that is finished or abandoned. Returns whether its content was dropped.
    pub(crate) fn end(&self, exchange: ExchangeId) -> bool {
        self.requests.borrow_mut().remove(&exchange.0);
        let mut dropped = self.dropped.borrow_mut();
        let before = dropped.len();
        dropped.retain(|other| *other != exchange);
        dropped.len() < before
    }
}

fn refuse(outlet: &dyn Outlet, exchange: ExchangeId, name: &[u8], why: &NotFound) -> Result<(), ReplyError> {
    let name = name.escape_ascii();
    match why {
        NotFound::Missing => log::error!("the app has named a file that does not exist or is outside its directories: {name}"),
        NotFound::Forbidden => log::error!("the app has named a file that may not be read: {name}"),
        NotFound::Failed(error) => log::error!("the app has named a file that cannot be opened: {name}: {error}"),
    }
    let status = if matches!(why, NotFound::Failed(_)) { 503 } else { 404 };
    let page = oribi_files::page(status);
    let fields: [FieldPair<'_>; 1] = [(b"Content-Type", oribi_files::PAGE_TYPE)];
    outlet.respond(exchange, ResponseHead { status, fields: &fields }, &[page.as_bytes()])
}

#[cfg(test)]
mod tests;
