//! The store: responses by the keys of their URIs, in bounded memory.

use crate::response::{Answer, Response};
use crate::selection::Selection;
use crate::sieve::Sieve;
use crate::vary::{Vary, secondary_key};
use oribi_message::FieldPair;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// The most entries of a URI. The oldest one makes room.
const MOST_VARIANTS: usize = 16;

/// The memory of an entry beside its response and its keys, about.
const ENTRY_BYTES: usize = 192;

/// The origin of an entry: only requests of the same origin get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The number of the route.
    pub route: usize,
    /// The number of the app.
    pub app: usize,
    /// The generation of the app.
    pub generation: u64,
}

/// The entries for a request.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The stored response.
    pub response: Option<Rc<Response>>,
    /// Whether a response to such a request could not be stored a short time ago, so that requests need not wait for each
    /// other.
    pub passes: bool,
}

#[derive(Debug)]
enum Kept {
    Response(Rc<Response>),
    /// Until this time, requests do not wait for each other.
    Pass(Duration),
}

#[derive(Debug)]
struct Entry {
    uri: Rc<[u8]>,
    scope: Scope,
    variant: Box<[u8]>,
    kept: Kept,
    bytes: usize,
}

impl Entry {
    fn vary(&self) -> Option<&Vary> {
        match &self.kept {
            Kept::Response(response) => Some(&response.judgement().vary),
            Kept::Pass(_) => None,
        }
    }
}

/// Stored responses.
#[derive(Debug, Default)]
pub struct Store {
    most_bytes: usize,
    bytes: usize,
    /// The entries of each URI, the newest first.
    uris: HashMap<Rc<[u8]>, Vec<u32>>,
    entries: Sieve<Entry>,
    /// The secondary key of the request that is looked up.
    variant: Vec<u8>,
}

impl Store {
    /// Creates a store with at most this memory.
    #[must_use]
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes, ..Self::default() }
    }

    /// The most memory, in bytes.
    #[must_use]
    pub fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// The memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Finds the entries for a request with this key and these fields.
    pub fn find<'f>(
        &mut self,
        key: &[u8],
        scope: Scope,
        fields: &(impl Iterator<Item = FieldPair<'f>> + Clone),
        now: Duration,
    ) -> Found {
        let mut found = Found::default();
        let Some(numbers) = self.uris.get(key) else { return found };
        let mut chosen: Option<(u32, &Rc<Response>)> = None;
        for &number in numbers {
            let Some(entry) = self.entries.get(number).filter(|entry| entry.scope == scope) else { continue };
            match &entry.kept {
                Kept::Pass(until) => found.passes |= now < *until,
                Kept::Response(response) => {
                    let vary = &response.judgement().vary;
                    if vary.is_empty() {
                        chosen = chosen.or(Some((number, response)));
                        continue;
                    }
                    self.variant.clear();
                    secondary_key(vary, fields, &mut self.variant);
                    if *self.variant != *entry.variant {
                        continue;
                    }
                    // Apps forget Vary in their default responses: an older response with it is preferred (RFC 9111, section
                    // 4.1). If it is stale, a newer one without Vary may be the answer of the app to this very request.
                    if chosen.is_none() || matches!(response.answer(now, None), Answer::Serve(_)) {
                        chosen = Some((number, response));
                        break;
                    }
                }
            }
        }
        if let Some((number, response)) = chosen {
            found.response = Some(response.clone());
            self.entries.touch(number);
        }
        found
    }

    /// Stores the response to a request with this key and these fields. It replaces the one before.
    pub fn insert<'f>(
        &mut self,
        key: &[u8],
        scope: Scope,
        fields: &(impl Iterator<Item = FieldPair<'f>> + Clone),
        response: Rc<Response>,
    ) {
        let mut variant = Vec::new();
        secondary_key(&response.judgement().vary, fields, &mut variant);
        self.remove_where(key, |entry| {
            let is_same = entry.vary() == Some(&response.judgement().vary) && *entry.variant == *variant;
            entry.scope.route == scope.route && (is_same || entry.vary().is_none() || entry.scope != scope)
        });
        self.add(key, scope, variant.into(), Kept::Response(response));
    }

    /// Notes that responses for this key cannot be stored: until the time given, requests do not wait for each other.
    pub fn pass(&mut self, key: &[u8], scope: Scope, until: Duration) {
        self.remove_where(key, |entry| entry.scope.route == scope.route && entry.vary().is_none());
        self.add(key, scope, Box::default(), Kept::Pass(until));
    }

    /// Removes a response that is not valid any longer.
    pub fn remove(&mut self, key: &[u8], response: &Rc<Response>) {
        self.remove_where(key, |entry| matches!(&entry.kept, Kept::Response(kept) if Rc::ptr_eq(kept, response)));
    }

    /// Removes all entries with this key.
    pub fn invalidate(&mut self, key: &[u8]) {
        self.remove_where(key, |_| true);
    }

    /// Removes the responses of an app, or of all apps, that a selection includes, or all of them. Returns their number.
    pub fn purge(&mut self, app: Option<usize>, selection: Option<&Selection>) -> usize {
        let is_chosen = |uri: &[u8]| selection.is_none_or(|selection| selection.includes(uri));
        let of_app = |number: &u32| {
            let scope = self.entries.get(*number).map(|entry| entry.scope);
            scope.is_some_and(|scope| app.is_none_or(|app| app == scope.app))
        };
        let chosen = self.uris.iter().filter(|(uri, _)| is_chosen(uri)).flat_map(|(_, numbers)| numbers);
        let numbers: Vec<u32> = chosen.copied().filter(of_app).collect();
        let is_response =
            |number: &&u32| self.entries.get(**number).is_some_and(|entry| matches!(entry.kept, Kept::Response(_)));
        let responses = numbers.iter().filter(is_response).count();
        numbers.into_iter().for_each(|number| self.remove_entry(number));
        responses
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        *self = Self::new(self.most_bytes);
    }

    fn add(&mut self, key: &[u8], scope: Scope, variant: Box<[u8]>, kept: Kept) {
        let of_response = match &kept {
            Kept::Response(response) => response.memory(),
            Kept::Pass(_) => 0,
        };
        let bytes = ENTRY_BYTES + key.len() + variant.len() + of_response;
        if bytes > self.most_bytes {
            return;
        }
        while self.bytes + bytes > self.most_bytes
            && let Some(victim) = self.entries.victim()
        {
            self.remove_entry(victim);
        }
        let oldest = self.uris.get(key).filter(|numbers| numbers.len() >= MOST_VARIANTS).and_then(|numbers| numbers.last());
        if let Some(&oldest) = oldest {
            self.remove_entry(oldest);
        }
        let uri = self.uris.get_key_value(key).map_or_else(|| key.into(), |(uri, _)| uri.clone());
        self.bytes += bytes;
        let number = self.entries.insert(Entry { uri: uri.clone(), scope, variant, kept, bytes });
        self.uris.entry(uri).or_default().insert(0, number);
    }

    fn remove_where(&mut self, key: &[u8], is_unwanted: impl Fn(&Entry) -> bool) {
        let Some(numbers) = self.uris.get(key) else { return };
        let unwanted = |number: &u32| self.entries.get(*number).is_some_and(&is_unwanted);
        let numbers: Vec<u32> = numbers.iter().copied().filter(unwanted).collect();
        numbers.into_iter().for_each(|number| self.remove_entry(number));
    }

    fn remove_entry(&mut self, number: u32) {
        let Some(entry) = self.entries.remove(number) else { return };
        self.bytes -= entry.bytes;
        if let Some(numbers) = self.uris.get_mut(&entry.uri) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.uris.remove(&entry.uri);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Rules, Times};

    const SCOPE: Scope = Scope { route: 0, app: 0, generation: 0 };

    fn response(content: &str, vary: &str) -> Rc<Response> {
        let fields: &[FieldPair<'_>] = &[(b"Cache-Control", b"max-age=10"), (b"Vary", vary.as_bytes())];
        let judgement = Rules::default().judge(false, 200, fields, &Times::default()).expect("stored");
        let content = content.as_bytes().into();
        Rc::new(Response::new(judgement, (200, fields), content, &Times::default(), |_| false))
    }

    fn insert(store: &mut Store, key: &str, language: &str, response: &Rc<Response>) {
        let fields: [FieldPair<'_>; 1] = [(b"Accept-Language", language.as_bytes())];
        store.insert(key.as_bytes(), SCOPE, &fields.into_iter(), response.clone());
    }

    fn find(store: &mut Store, key: &str, scope: Scope, language: &str) -> Option<String> {
        let fields: [FieldPair<'_>; 1] = [(b"Accept-Language", language.as_bytes())];
        let found = store.find(key.as_bytes(), scope, &fields.into_iter(), Duration::ZERO).response?;
        Some(String::from_utf8_lossy(found.content()).into_owned())
    }

    #[test]
    fn a_response_is_found_by_requests_of_the_same_kind_only() {
        let mut store = Store::new(1 << 20);
        insert(&mut store, "a", "en", &response("one", "accept-language"));
        insert(&mut store, "a", "de", &response("eins", "accept-language"));
        let mut found = |key: &str, scope: Scope, language: &str| find(&mut store, key, scope, language);
        assert_eq!(found("a", SCOPE, "en").as_deref(), Some("one"));
        assert_eq!(found("a", SCOPE, "de").as_deref(), Some("eins"));
        assert_eq!((found("a", SCOPE, "fr"), found("b", SCOPE, "en")), (None, None));
        for other in [Scope { route: 1, ..SCOPE }, Scope { app: 1, ..SCOPE }, Scope { generation: 1, ..SCOPE }] {
            assert_eq!(found("a", other, "en"), None);
        }
        insert(&mut store, "a", "en", &response("two", "accept-language"));
        assert_eq!(find(&mut store, "a", SCOPE, "en").as_deref(), Some("two"));
        store.invalidate(b"a");
        assert_eq!((find(&mut store, "a", SCOPE, "en"), store.bytes()), (None, 0));
    }

    #[test]
    fn a_fresh_response_with_vary_is_preferred_to_a_newer_one_without() {
        let mut store = Store::new(1 << 20);
        insert(&mut store, "a", "en", &response("one", "accept-language"));
        insert(&mut store, "a", "", &response("default", ""));
        assert_eq!(find(&mut store, "a", SCOPE, "en").as_deref(), Some("one"));
        assert_eq!(find(&mut store, "a", SCOPE, "de").as_deref(), Some("default"));
        let fields: [FieldPair<'_>; 1] = [(b"Accept-Language", b"en")];
        let found = store.find(b"a", SCOPE, &fields.into_iter(), Duration::from_secs(10));
        assert_eq!(found.response.map(|response| response.content().to_vec()), Some(b"default".to_vec()), "both are stale");
    }

    #[test]
    fn a_new_generation_replaces_the_entries_of_the_one_before() {
        let mut store = Store::new(1 << 20);
        insert(&mut store, "a", "en", &response("old", "accept-language"));
        insert(&mut store, "a", "de", &response("alt", "accept-language"));
        let scope = Scope { generation: 1, ..SCOPE };
        store.insert(b"a", scope, &std::iter::empty(), response("new", ""));
        assert_eq!(find(&mut store, "a", scope, "en").as_deref(), Some("new"));
        store.invalidate(b"a");
        assert_eq!(store.bytes(), 0);
    }

    #[test]
    fn a_mark_ends_by_time_or_by_a_response() {
        let mut store = Store::new(1 << 20);
        let passes =
            |store: &mut Store, seconds| store.find(b"a", SCOPE, &std::iter::empty(), Duration::from_secs(seconds)).passes;
        store.pass(b"a", SCOPE, Duration::from_secs(10));
        store.pass(b"a", SCOPE, Duration::from_secs(20));
        assert!(passes(&mut store, 19) && !passes(&mut store, 20));
        insert(&mut store, "a", "", &response("one", ""));
        assert!(!passes(&mut store, 19));
    }

    #[test]
    fn responses_are_removed_by_app_and_by_uri_and_counted() {
        let mut store = Store::new(1 << 20);
        let key = |path: &str| format!("pa.example\0{path}\0");
        for path in ["/news", "/news/1", "/shop"] {
            insert(&mut store, &key(path), "en", &response("one", "accept-language"));
            insert(&mut store, &key(path), "de", &response("two", "accept-language"));
        }
        let other = Scope { app: 1, ..SCOPE };
        store.insert(key("/news").as_bytes(), Scope { route: 1, ..other }, &std::iter::empty(), response("other", ""));
        store.pass(key("/news/2").as_bytes(), SCOPE, Duration::from_secs(10));
        let news = Selection::parse("a.example/news*").expect("it is valid");
        assert_eq!(store.purge(Some(7), None), 0);
        assert_eq!(store.purge(Some(0), Some(&news)), 4, "a mark is no response");
        assert_eq!(store.purge(None, Some(&news)), 1);
        assert!(find(&mut store, &key("/shop"), SCOPE, "de").is_some());
        assert_eq!((store.purge(None, None), store.bytes()), (2, 0));
    }

    #[test]
    fn memory_and_variants_are_bounded() {
        let mut store = Store::new(100_000);
        let large = "x".repeat(1000);
        for number in 0..1000 {
            insert(&mut store, &format!("/{number}"), "", &response(&large, ""));
            assert!(store.bytes() <= 100_000);
            // In use.
            assert!(find(&mut store, "/0", SCOPE, "").is_some(), "{number}");
        }
        assert!(store.bytes() > 90_000 && find(&mut store, "/999", SCOPE, "").is_some());
        insert(&mut store, "large", "", &response(&"x".repeat(100_000), ""));
        assert!(find(&mut store, "large", SCOPE, "").is_none() && find(&mut store, "/0", SCOPE, "").is_some());
        for number in 0..100 {
            insert(&mut store, "v", &number.to_string(), &response("v", "accept-language"));
        }
        let kept = (0..100).filter(|number| find(&mut store, "v", SCOPE, &number.to_string()).is_some()).count();
        assert_eq!(kept, MOST_VARIANTS);
        store.clear();
        assert_eq!(store.bytes(), 0);
    }
}
