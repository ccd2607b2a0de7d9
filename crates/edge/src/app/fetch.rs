//! The requests to an app whose responses may be stored, and the store.

use oribi_cache::{Class, Conditions, Fields, Judgement, Response, Rules, Scope, Selection, Store, Times};
use oribi_host::ExchangeId;
use oribi_message::FieldMemory;
use oribi_pool::Ticket;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// Cache-Status (RFC 9211).
const HIT: &[u8] = b"oribi; hit";

/// The cache for the requests of one app.
#[derive(Debug)]
pub(in super::super) struct AppCache {
    /// The stored responses, which all apps of the edge share.
    pub(super) store: Rc<RefCell<Store>>,
    /// The number of the app.
    pub(super) app: usize,
    /// The key of the request that is looked up.
    pub(super) key: Vec<u8>,
    pub(super) fields: FieldMemory,
    pub(super) fetches: HashMap<Ticket, Fetch>,
    /// The bytes of content of responses that are not complete. They are at most as many as those of stored responses.
    pub(super) captured: usize,
    /// The requests that have asked the app, by their keys; others wait for their responses.
    pub(super) asked: HashMap<Rc<[u8]>, Ticket>,
}

/// A request to the app whose response may be stored.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) key: Rc<[u8]>,
    pub(super) scope: Scope,
    pub(super) rules: Rules,
    /// The exchange; `None` if no client waits.
    pub(super) exchange: Option<ExchangeId>,
    /// The fields of the request, for Vary.
    pub(super) request: Fields,
    pub(super) conditions: Conditions,
    /// Whether the request has Authorization.
    pub(super) authorized: bool,
    /// The treatment of the request. Only a response to GET is stored.
    pub(super) class: Class,
    pub(super) asked: Duration,
    /// The stored response, which is stale.
    pub(super) stale: Option<Rc<Response>>,
    /// Whether the app was asked if that response is still valid.
    pub(super) validates: bool,
    /// Whether another request has changed the resource since this one was sent: its response is not stored.
    pub(super) is_outdated: bool,
    pub(super) capture: Option<Capture>,
    /// The requests that wait for the response.
    pub(super) waiting: Vec<Ticket>,
}

/// The way in which a request with a fetch enters the pool.
pub(super) struct Entering {
    pub(super) fetch: Fetch,
    /// Whether the request waits for the response to another one, whose key this is.
    pub(super) waits: bool,
    /// Whether other requests may wait for its response.
    pub(super) leads: bool,
}

impl AppCache {
    pub(in super::super) fn new(store: Rc<RefCell<Store>>, app: usize) -> Self {
        Self {
            store,
            app,
            key: Vec::new(),
            fields: FieldMemory::default(),
            fetches: HashMap::new(),
            captured: 0,
            asked: HashMap::new(),
        }
    }

    /// Adds the fetch of a request that has entered the pool.
    pub(super) fn entered(&mut self, ticket: Ticket, Entering { fetch, waits, leads }: Entering) {
        if leads {
            self.asked.insert(fetch.key.clone(), ticket);
        } else if waits && let Some(leader) = self.asked.get(&fetch.key).and_then(|leader| self.fetches.get_mut(leader)) {
            leader.waiting.push(ticket);
        }
        self.fetches.insert(ticket, fetch);
    }

    /// Removes the stored responses of a URI, and makes responses to earlier requests for it answer those requests only.
    pub(super) fn invalidate(&mut self, key: &[u8]) {
        self.store.borrow_mut().invalidate(key);
        self.asked.remove(key);
        self.fetches.values_mut().filter(|fetch| *fetch.key == *key).for_each(|fetch| fetch.is_outdated = true);
    }

    /// Makes responses to requests that the app has already answer those requests only, if a selection includes their URIs.
    pub(super) fn outdate(&mut self, selection: Option<&Selection>) {
        let is_chosen = |key: &[u8]| selection.is_none_or(|selection| selection.includes(key));
        self.asked.retain(|key, _| !is_chosen(key));
        self.fetches.values_mut().filter(|fetch| is_chosen(&fetch.key)).for_each(|fetch| fetch.is_outdated = true);
    }

    /// The request whose response is awaited for the longest time.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.asked.values().filter_map(|leader| self.fetches.get(leader)?.waiting.first().copied())
    }
}

impl Fetch {
    /// The stored response, if it may answer in place of an error, and the time in seconds for which it stays fresh. A 304 may
    /// still confirm a response that has been removed meanwhile; in place of an error, it would hide its removal.
    pub(super) fn answer_to_error(&self, now: Duration) -> Option<(&Rc<Response>, i64)> {
        let stale = self.stale.as_ref().filter(|_| !self.is_outdated)?;
        Some((stale, stale.answer_to_error(now)?))
    }

    /// Whether the method may change the resource.
    pub(super) fn is_unsafe(&self) -> bool {
        self.class == Class::Unsafe
    }

    /// The bytes of content that have arrived.
    pub(super) fn captured(&self) -> usize {
        self.capture.as_ref().map_or(0, |capture| capture.content.len())
    }
}

/// The beginning of a response that is to be stored.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) status: u16,
    pub(super) fields: Fields,
    /// The size of the content, if the app has announced it.
    pub(super) size: Option<u64>,
    pub(super) content: Vec<u8>,
    pub(super) judgement: Judgement,
    pub(super) times: Times,
}

/// The part that the cache took in a response (RFC 9211).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// It was stored, and stays fresh for so many seconds; negative if it is stale.
    Hit(i64),
    /// The app has answered. Whether the response was stored.
    Miss(bool),
    /// The app has confirmed the stored response. Whether it is stored further.
    Validated(bool),
    /// The app has answered another request, which asked for the same.
    Collapsed,
}

impl Status {
    /// The value of Cache-Status.
    pub(super) fn text(self) -> std::borrow::Cow<'static, [u8]> {
        match self {
            Self::Hit(left) if left > 0 => HIT.into(),
            Self::Hit(left) => format!("oribi; hit; ttl={left}").into_bytes().into(),
            Self::Miss(true) => b"oribi; fwd=miss; stored"[..].into(),
            Self::Miss(false) => b"oribi; fwd=miss"[..].into(),
            Self::Validated(true) => b"oribi; fwd=stale; fwd-status=304; stored"[..].into(),
            Self::Validated(false) => b"oribi; fwd=stale; fwd-status=304"[..].into(),
            Self::Collapsed => b"oribi; fwd=miss; collapsed"[..].into(),
        }
    }
}
