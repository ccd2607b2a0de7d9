//! Changes responses before they are framed, as their routes say.

use super::Engine;
use super::body::Body;
use super::filter::ResponseFilter;
use super::request_timings::Wait;
use super::respond::{Progress, Target};
use oribi_encode::{Coding, Outcome};
use oribi_filter::{RequestFacts, ResponsePlan};
use oribi_host::{ExchangeId, ReplyError};
use oribi_io::Backend;
use oribi_message::{FieldPair, PreparedFields, ResponseHead};
use std::fmt;
use std::sync::Arc;

impl<B: Backend> Engine<'_, B> {
    /// Sets the plans that [`Engine::filter`] names from now on. Responses to earlier requests keep theirs.
    pub fn use_plans(&mut self, plans: Arc<[ResponsePlan]>) {
        self.filtering.is_used |= !plans.is_empty();
        self.filtering.plans = plans;
    }

    /// Makes the plan with this number change the response to an exchange, whose request has these facts.
    pub fn filter(&mut self, exchange: ExchangeId, plan: usize, facts: RequestFacts) {
        let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange) else { return };
        let changes = target.response.answer.changes.get_or_insert_with(|| self.filtering.spare.pop().unwrap_or_default());
        changes.filter = Some(ResponseFilter { plans: Arc::clone(&self.filtering.plans), plan, facts });
    }

    /// Keeps a value until the response to an exchange has been sent, or its client has disconnected; then drops it.
    pub fn keep_with(&mut self, exchange: ExchangeId, value: Box<dyn fmt::Debug>) {
        if let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange) {
            target.response.answer.changes.get_or_insert_default().held.push(value);
        }
    }

    /// Changes a whole response, and sends it.
    #[cold]
    #[inline(never)]
    pub(super) fn respond_filtered(
        &mut self,
        exchange: ExchangeId,
        wait: Option<Wait>,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        body: Body<'_>,
    ) -> Result<(), ReplyError> {
        let filter = self.take_filter(exchange)?;
        // Only the responses of workers report a wait, and only files come in pieces or with prepared fields.
        let is_own = wait.is_none() && prepared.is_none() && matches!(body, Body::Parts(_));
        let plan = filter.plans.get(filter.plan).filter(|_| is_own);
        match plan.and_then(|plan| plan.page(&filter.facts, head.status)) {
            Some(page) => {
                let of_content =
                    |name: &[u8]| name.eq_ignore_ascii_case(b"Content-Type") || name.eq_ignore_ascii_case(b"Content-Length");
                let mut fields: Vec<FieldPair<'_>> =
                    head.fields.iter().copied().filter(|(name, _)| !of_content(name)).collect();
                fields.push((b"Content-Type", page.media_type.as_bytes()));
                let head = ResponseHead { status: head.status, fields: &fields };
                self.respond_changed(exchange, wait, &filter, head, None, Body::Parts(&[&page.content]))
            }
            None => self.respond_changed(exchange, wait, &filter, head, prepared, body),
        }
    }

    #[inline(never)]
    fn respond_changed(
        &mut self,
        exchange: ExchangeId,
        wait: Option<Wait>,
        filter: &ResponseFilter,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        body: Body<'_>,
    ) -> Result<(), ReplyError> {
        let (size, is_head) = (body.size(), filter.facts.is_head());
        let mut encoded = self.filtering.take_encoded();
        let sent = self.change_head(filter, head, prepared, Some(size), |engine, outcome, fields| {
            let outcome = match outcome {
                Outcome::Encode(coding) if !is_head && !engine.encode_whole(coding, body, size, &mut encoded) => Outcome::Vary,
                other => other,
            };
            let is_encoded = matches!(outcome, Outcome::Encode(_));
            engine.write_head_for(outcome, head.status, fields, |engine, head| {
                if is_encoded && is_head {
                    // The size of the encoded content is unknown.
                    wait.into_iter().for_each(|wait| engine.report_wait(exchange, wait));
                    engine.start_framed(exchange, head, None)?;
                    return engine.finish(exchange);
                }
                let parts: [&[u8]; 1] = [&encoded];
                let body = if is_encoded { Body::Parts(&parts) } else { body };
                engine.respond_framed(exchange, wait, head, None, body)
            })
        });
        self.filtering.keep_encoded(encoded);
        sent
    }

    /// Encodes a whole response. Returns `false` if its content should rather be sent as it is.
    fn encode_whole(&mut self, coding: Coding, body: Body<'_>, size: u64, encoded: &mut Vec<u8>) -> bool {
        let encoders = &mut self.filtering.encoders;
        if !encoders.may_encode(self.backend.now(), size) {
            return false;
        }
        match encoders.encode(coding, body, encoded) {
            Ok(()) => (encoded.len() as u64) < size,
            Err(error) => {
                log::error!("a response was not compressed: {error}");
                false
            }
        }
    }

    /// Changes the head of a response, and begins it.
    #[cold]
    #[inline(never)]
    pub(super) fn start_filtered(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        size: Option<u64>,
    ) -> Result<(), ReplyError> {
        let filter = self.take_filter(exchange)?;
        self.change_head(&filter, head, None, size, |engine, outcome, fields| {
            let (outcome, stream) = match outcome {
                Outcome::Encode(coding) if !filter.facts.is_head() => {
                    let size = size.or_else(|| length(fields));
                    match engine.filtering.encoders.begin(coding, size) {
                        Some(stream) => (outcome, Some(stream)),
                        None => (Outcome::Vary, None),
                    }
                }
                other => (other, None),
            };
            let size = size.filter(|_| !matches!(outcome, Outcome::Encode(_)));
            engine.write_head_for(outcome, head.status, fields, |engine, head| engine.start_framed(exchange, head, size))?;
            if let Some(stream) = stream {
                let target = Target::find(&mut engine.connections, &mut engine.streams, exchange)?;
                target.response.answer.changes.get_or_insert_default().stream = Some(stream);
            }
            Ok(())
        })
    }

    /// Whether a filter is to change a response.
    #[inline(always)]
    pub(super) fn filters(&mut self, exchange: ExchangeId) -> bool {
        // Without routes, nothing needs to be looked up.
        self.filtering.is_used && self.is_filtered(exchange)
    }

    #[inline(never)]
    fn is_filtered(&mut self, exchange: ExchangeId) -> bool {
        let target = Target::find(&mut self.connections, &mut self.streams, exchange);
        target.is_ok_and(|target| target.response.answer.is_filtered())
    }

    /// Whether the content of a response is encoded piece by piece.
    #[inline]
    pub(super) fn encodes(&mut self, exchange: ExchangeId) -> bool {
        // Without routes, nothing needs to be looked up.
        self.filtering.is_used
            && Target::find(&mut self.connections, &mut self.streams, exchange)
                .is_ok_and(|target| target.response.answer.encoded_stream().is_some())
    }

    /// Sends a piece of content that is encoded. See [`Engine::write_up_to_end`].
    #[cold]
    #[inline(never)]
    pub(super) fn write_encoded(&mut self, exchange: ExchangeId, body: Body<'_>, ends: bool) -> Result<Progress, ReplyError> {
        let target = Target::find(&mut self.connections, &mut self.streams, exchange)?;
        let Some(stream) = target.response.answer.encoded_stream() else { return Err(ReplyError::Gone) };
        let excess = stream.left.is_some_and(|left| left < body.size());
        let mut encoded = self.filtering.take_encoded();
        let written = stream.write(body, &mut encoded);
        let is_complete = stream.left == Some(0);
        let sent = match written {
            Err(error) => {
                log::error!("a response was cut off: {error}");
                self.abandon(exchange);
                Err(ReplyError::Gone)
            }
            Ok(()) => self.write_framed(exchange, Body::Parts(&[&encoded]), false),
        };
        self.filtering.keep_encoded(encoded);
        let sent = sent?;
        if excess || (ends && is_complete) {
            self.finish(exchange)?;
            return Ok(Progress::Finished);
        }
        Ok(sent)
    }

    /// Sends the last bytes of content that is encoded. Returns whether the response is whole; otherwise it has been cut off.
    ///
    /// # Errors
    /// [`ReplyError::Gone`]: the exchange is over.
    #[cold]
    #[inline(never)]
    pub(super) fn end_encoded(&mut self, exchange: ExchangeId) -> Result<bool, ReplyError> {
        let target = Target::find(&mut self.connections, &mut self.streams, exchange)?;
        let changes = target.response.answer.changes.as_mut();
        let Some(stream) = changes.and_then(|changes| changes.stream.take()) else { return Ok(true) };
        let missing = stream.left.unwrap_or_default();
        if missing > 0 {
            log::error!("a response was cut off: {missing} bytes short of its Content-Length");
            self.abandon(exchange);
            return Ok(false);
        }
        let mut encoded = self.filtering.take_encoded();
        let ended = self.filtering.encoders.end(stream, &mut encoded);
        let sent = match ended {
            Ok(()) => self.write_framed(exchange, Body::Parts(&[&encoded]), false).map(|_| true),
            Err(error) => {
                log::error!("a response was cut off: {error}");
                self.abandon(exchange);
                Ok(false)
            }
        };
        self.filtering.keep_encoded(encoded);
        sent
    }

    /// Passes the changed fields of a response to `then`, with the decision about its content.
    fn change_head<T>(
        &mut self,
        filter: &ResponseFilter,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        size: Option<u64>,
        then: impl FnOnce(&mut Self, Outcome, &[FieldPair<'_>]) -> T,
    ) -> T {
        let mut fields = self.filtering.fields.take();
        fields.extend_from_slice(head.fields);
        fields.extend(prepared.into_iter().flat_map(PreparedFields::pairs));
        let mut outcome = Outcome::Skip;
        if let Some(plan) = filter.plans.get(filter.plan) {
            plan.change(&filter.facts, head.status, &mut fields);
            // Content of another size than announced must be cut off, and the encoded content would not show it.
            let is_wrong = size.is_some_and(|size| length(&fields).is_some_and(|length| length != size));
            if !is_wrong || filter.facts.is_head() {
                outcome = plan.decide(&filter.facts, head.status, &fields, size);
            }
        }
        let result = then(self, outcome, &fields);
        self.filtering.fields.keep(fields);
        result
    }

    /// Passes the head of a response with this decision about its content to `then`.
    fn write_head_for<T>(
        &mut self,
        outcome: Outcome,
        status: u16,
        fields: &[FieldPair<'_>],
        then: impl FnOnce(&mut Self, ResponseHead<'_>) -> T,
    ) -> T {
        let mut heads = std::mem::take(&mut self.filtering.heads);
        let result = heads.write(outcome, ResponseHead { status, fields }, |head| then(self, head));
        self.filtering.heads = heads;
        result
    }

    #[inline(never)]
    fn take_filter(&mut self, exchange: ExchangeId) -> Result<ResponseFilter, ReplyError> {
        let target = Target::find(&mut self.connections, &mut self.streams, exchange)?;
        let changes = &mut target.response.answer.changes;
        let filter = changes.as_mut().and_then(|changes| changes.filter.take());
        self.filtering.spare.extend(changes.take_if(|changes| changes.is_empty()));
        filter.ok_or(ReplyError::Gone)
    }
}

/// Returns the announced size of the content. It is valid: otherwise the content would not be encoded.
fn length(fields: &[FieldPair<'_>]) -> Option<u64> {
    let length = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"Content-Length"))?.1;
    std::str::from_utf8(length).ok()?.trim().parse().ok()
}
