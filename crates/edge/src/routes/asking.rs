//! Routes that ask an app whether a request may go on to its action.
//!
//! The question is a request of its own in the queue of that app. Meanwhile the edge keeps the exchange.

use super::Routes;
use oribi_engine::Exchange;
use oribi_filter::FieldChanges;
use oribi_host::ExchangeId;
use oribi_message::{FieldLayout, HeadLayout, KnownField, RequestHead, Span, TargetForm, is_same_variable};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The rule of a route that asks an app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskRule {
    /// The app, by its index.
    pub app: usize,
    /// The path of the question, perhaps with a query.
    pub path: String,
    /// The fields of the answer that the action gets, in place of those that the client has sent. They are fields that a filter may
    /// set.
    pub fields: Vec<String>,
}

/// The fields of a request that are no part of the question: those of its content, its connection and its conditions.
const NOT_ASKED: &[&str] = &[
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "digest",
    "content-digest",
    "expect",
    "http2-settings",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The fields that tell the app about the request: by the names that are usual with nginx, and by those of Traefik and Caddy.
const METHODS: [&str; 2] = ["X-Original-Method", "X-Forwarded-Method"];
const TARGETS: [&str; 2] = ["X-Original-URI", "X-Forwarded-Uri"];

/// The wait after which a request is dropped whose client has closed its side of the connection: it has probably given up.
const FORSAKEN: Duration = Duration::from_secs(1);

/// A request that waits for the answer about it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) exchange: Exchange,
    pub(super) route: usize,
    /// The normal form of its path, if its action needs it.
    pub(super) path: Vec<u8>,
    /// The number of times that its path has changed with another choice of its route.
    pub(super) rewrites: usize,
    /// The time at which it began to wait.
    pub(super) asked: Duration,
}

/// The questions of an edge.
#[derive(Debug)]
pub(super) struct Asking {
    routes: Arc<Routes>,
    kept: HashMap<ExchangeId, Kept>,
    /// The time of the last look at requests whose clients may have given up.
    looked_at: Option<Duration>,
}

impl Asking {
    /// `None` if no route asks.
    pub(super) fn new(routes: &Arc<Routes>) -> Option<Self> {
        let asks = routes.questions.iter().any(Option::is_some);
        asks.then(|| Self { routes: Arc::clone(routes), kept: HashMap::new(), looked_at: None })
    }

    /// Returns the requests that wait, which do so no longer.
    pub(super) fn drain(&mut self) -> Vec<Exchange> {
        self.kept.drain().map(|(_, kept)| kept.exchange).collect()
    }

    /// Returns the time of the next look at requests whose clients may have given up. `None` if no request waits.
    pub(super) fn next_look(&self) -> Option<Duration> {
        let asked = self.kept.values().map(|kept| kept.asked).min()?;
        Some(self.looked_at.map_or(asked, |at| at.max(asked)) + FORSAKEN)
    }

    /// Takes the requests that have waited for so long that their clients may have given up, if it is time to look at them, and
    /// that `has_ended` finds without a client.
    pub(super) fn take_forsaken(&mut self, now: Duration, has_ended: impl Fn(ExchangeId) -> bool) -> Vec<Exchange> {
        if self.next_look().is_none_or(|next| now < next) {
            return Vec::new();
        }
        self.looked_at = Some(now);
        let is_forsaken = |id: &ExchangeId, kept: &mut Kept| now.saturating_sub(kept.asked) >= FORSAKEN && has_ended(*id);
        self.kept.extract_if(is_forsaken).map(|(_, kept)| kept.exchange).collect()
    }

    /// The rule of a route; `None` if it asks nobody.
    pub(super) fn rule(&self, route: usize) -> Option<&AskRule> {
        self.routes.questions.get(route)?.as_ref()
    }

    pub(super) fn keep(&mut self, kept: Kept) {
        self.kept.insert(kept.exchange.id(), kept);
    }

    /// Returns a request whose answer has come.
    pub(super) fn take(&mut self, exchange: ExchangeId) -> Option<Kept> {
        self.kept.remove(&exchange)
    }

    /// Gives the request the fields of the answer, and removes those that its client has sent with these names.
    pub(super) fn admit(&self, kept: &mut Kept, answer: &[(Vec<u8>, Vec<u8>)]) {
        let Some(rule) = self.rule(kept.route) else { return };
        let mut changes = FieldChanges::default();
        for name in &rule.fields {
            // These are names of fields that a filter may set.
            let _ = changes.remove(name);
            for (_, value) in answer.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes())) {
                // A value that is not UTF-8, or that no field can have, is left out.
                let _ = str::from_utf8(value).map(|value| changes.add(name, value.trim_matches([' ', '\t'])));
            }
        }
        if !changes.is_empty() {
            kept.exchange.change_fields(&changes);
        }
    }
}

/// Returns the head of the question about a request.
pub(super) fn question(rule: &AskRule, head: &RequestHead<'_>) -> (Vec<u8>, HeadLayout) {
    let (mut bytes, mut layout) = (head.bytes().to_vec(), head.layout().clone());
    let is_own = |name: &[u8]| METHODS.iter().chain(&TARGETS).any(|own| is_same_variable(own.as_bytes(), name));
    let is_asked = |field: &FieldLayout| {
        let name = field.name.of(head.bytes());
        let is_left_out = NOT_ASKED.iter().any(|left_out| left_out.as_bytes().eq_ignore_ascii_case(name));
        !is_left_out && !is_own(name) && !rule.fields.iter().any(|field| is_same_variable(field.as_bytes(), name))
    };
    layout.fields.retain(is_asked);
    let mut append = |part: &[u8]| {
        let start = bytes.len();
        bytes.extend_from_slice(part);
        Span::new(start, bytes.len())
    };
    layout.method = append(b"GET");
    layout.target = append(rule.path.as_bytes());
    let start = layout.target.start as usize;
    let (path, query) = rule.path.split_once('?').map_or((&*rule.path, None), |(path, query)| (path, Some(query)));
    layout.path = Span::new(start, start + path.len());
    layout.query = query.map(|query| Span::new(start + path.len() + 1, start + path.len() + 1 + query.len()));
    layout.form = TargetForm::Origin;
    if let Some(authority) = layout.authority.take() {
        // The authority of the target overrides Host.
        layout.fields.retain(|field| field.known != Some(KnownField::Host));
        layout.fields.push(FieldLayout { name: append(b"Host"), value: authority, known: Some(KnownField::Host) });
    }
    let told = METHODS.map(|name| (name, head.method())).into_iter().chain(TARGETS.map(|name| (name, head.path_and_query())));
    for (name, value) in told {
        let known = KnownField::lookup(name.as_bytes());
        layout.fields.push(FieldLayout { name: append(name.as_bytes()), value: append(value), known });
    }
    (bytes, layout)
}
