//! The context of a lane: finds the script of a request, takes one of its states from the pool, and lets that state answer.

use crate::error_page::ErrorPage;
use crate::exchange::{Exchange, Progress};
use crate::pool::{LaneCache, Refusal, Verdict};
use crate::script_path::{Missing, PathCache};
use crate::shared::{ScriptLoader, Shared};
use crate::state::Condition;
use crate::state_context::Failure;
use crate::vm::Slot;
use oribi_host::{After, Host, Interruption, Reply, Request};
use oribi_message::{KnownField, KnownVariable, ResponseHead};
use std::path::Path;
use std::sync::Arc;

/// The time after which a client that found every state busy may retry, in seconds.
const RETRY_AFTER: &[u8] = b"1";

/// The context of a lane.
pub(crate) struct LuaHost {
    shared: Arc<Shared>,
    paths: PathCache,
    states: LaneCache<ScriptLoader>,
    slot: Arc<Slot>,
}

impl LuaHost {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let slot = shared.slot();
        Self { shared, paths: PathCache::default(), states: LaneCache::default(), slot }
    }

    /// If the worker serves a single script, loads it into a state that will answer. Called when a worker starts: a worker that
    /// cannot load the script must not replace one that has loaded it.
    ///
    /// # Errors
    /// The script cannot be loaded.
    pub(crate) fn load_only_script(&self) -> Result<(), String> {
        let Some(script) = self.shared.scripts.only() else { return Ok(()) };
        self.slot.enter();
        let outcome = self.shared.pool.preload(script);
        self.slot.leave();
        match outcome {
            Err(Refusal::LoadFailed(failure)) => {
                Err(format!("{} cannot be loaded: {}: {}", script.display(), failure.fault.title(), failure.message))
            }
            // If there is no room for this state, other lanes have already loaded the script.
            Ok(()) | Err(Refusal::Busy) => Ok(()),
        }
    }
}

impl Host for LuaHost {
    fn enter(&mut self) {
        self.slot.enter();
    }

    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
        let shared = &*self.shared;
        self.slot.start_afresh();
        let named = request.gateway.as_ref().and_then(|gateway| gateway.get(KnownVariable::ScriptFilename));
        let found = match shared.scripts.find(&mut self.paths, request.head.path(), named) {
            Ok(found) => found,
            Err(missing) => {
                refuse(request, reply, missing);
                return After::default();
            }
        };
        let mut state = match shared.pool.take(&mut self.states, &found.script) {
            Ok(state) => state,
            Err(refusal) => {
                refuse_for(shared, request, reply, &found.script, &refusal);
                return After::default();
            }
        };
        let exchange = Exchange::new(request, found, &shared.settings, &self.slot, reply);
        let (condition, result) = state.answer(&exchange);
        if let Err(failure) = result {
            log_failure(&found.script, &failure);
            exchange.close_as_failed();
            // After the answer has begun, a page would look like a part of it: then the connection is cut.
            if exchange.progress() == Progress::Nothing {
                send_failure(request, &failure, shared.settings.show_errors, |head, page| exchange.respond(head, &[page]));
            }
        }
        drop(exchange);
        let loaded = state.take_loaded();
        let verdict = if condition == Condition::Good { Verdict::Keep } else { Verdict::Discard };
        shared.pool.give_back(state, verdict, &loaded);
        After::default()
    }

    fn interruption(&self) -> Option<Arc<dyn Interruption>> {
        Some(Arc::clone(&self.slot) as Arc<dyn Interruption>)
    }

    fn leave(&mut self) {
        self.slot.leave();
    }
}

#[cold]
pub(crate) fn log_failure(script: &Path, failure: &Failure) {
    let Failure { fault, message, status } = failure;
    match status {
        // The script has sent this status deliberately.
        Some(status) if *status < 500 => log::info!("{}: {status}: {message}", script.display()),
        _ => log::error!("{}: {}: {message}", script.display(), fault.title()),
    }
}

/// Sends the page of a failure.
#[cold]
pub(crate) fn send_failure(request: &Request<'_>, failure: &Failure, show: bool, send: impl FnOnce(ResponseHead<'_>, &[u8])) {
    if let Some(status) = failure.status {
        // `error({404, "no such article"})`: the text is meant for the client.
        let head = ResponseHead { status, fields: &[(b"Content-Type", ErrorPage::TEXT_TYPE.as_bytes())] };
        return send(head, failure.message.as_bytes());
    }
    send_page(request, &ErrorPage::failure(failure.fault, &failure.message, show), send);
}

/// Sends a page in a format that the client accepts.
fn send_page(request: &Request<'_>, page: &ErrorPage<'_>, send: impl FnOnce(ResponseHead<'_>, &[u8])) {
    let accepted = request.head.field(KnownField::Accept).unwrap_or_default();
    let (kind, text) = if memchr::memmem::find(accepted, b"text/html").is_some() {
        (ErrorPage::HTML_TYPE, page.html())
    } else {
        (ErrorPage::TEXT_TYPE, page.text())
    };
    let fields = [(&b"Content-Type"[..], kind.as_bytes()), (b"Retry-After", RETRY_AFTER)];
    let fields = if page.status == ErrorPage::BUSY.status { &fields[..] } else { &fields[..1] };
    send(ResponseHead { status: page.status, fields }, text.as_bytes());
}

/// Answers a request whose script has no state to answer with.
#[cold]
pub(crate) fn refuse_for(shared: &Shared, request: &Request<'_>, reply: Reply<'_>, script: &Path, refusal: &Refusal<Failure>) {
    // In each case: it fails only if the client has gone.
    match refusal {
        Refusal::LoadFailed(failure) => {
            log_failure(script, failure);
            send_failure(request, failure, shared.settings.show_errors, |head, page| {
                let _ = reply.send(head, &[page]);
            });
        }
        Refusal::Busy => {
            log::warn!("{}: all states were busy for too long", script.display());
            send_page(request, &ErrorPage::BUSY, |head, page| {
                let _ = reply.send(head, &[page]);
            });
        }
    }
}

/// Answers a request without a script.
#[cold]
pub(crate) fn refuse(request: &Request<'_>, reply: Reply<'_>, missing: Missing) {
    // In each case: it fails only if the client has gone.
    match missing {
        Missing::SlashMissing => {
            let mut location = request.head.path().to_vec();
            location.push(b'/');
            if !request.head.query().is_empty() {
                location.push(b'?');
                location.extend_from_slice(request.head.query());
            }
            let _ = reply.send(ResponseHead { status: 308, fields: &[(b"Location", &location)] }, &[]);
        }
        Missing::NotFound | Missing::NoScriptFilename => {
            if missing == Missing::NoScriptFilename {
                log::warn!("the web server names no script: SCRIPT_FILENAME is missing");
            }
            send_page(request, &ErrorPage::NOT_FOUND, |head, page| {
                let _ = reply.send(head, &[page]);
            });
        }
    }
}
