//! Changes responses before they are framed, as their routes say.

use super::Engine;
use super::body::Body;
use super::filter::ResponseFilter;
use super::request_timings::Wait;
use super::respond::Target;
use oribi_filter::{RequestFacts, ResponsePlan};
use oribi_host::{ExchangeId, ReplyError};
use oribi_io::Backend;
use oribi_message::{PreparedFields, ResponseHead};

impl<'a, B: Backend> Engine<'a, B> {
    /// Sets the plans that [`Engine::filter`] names.
    pub fn use_plans(&mut self, plans: &'a [ResponsePlan]) {
        self.filtering.plans = plans;
    }

    /// Makes the plan with this number change the response to an exchange, whose request has these facts.
    pub fn filter(&mut self, exchange: ExchangeId, plan: usize, facts: RequestFacts) {
        let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange) else { return };
        let mut filter = self.filtering.spare.pop().unwrap_or_default();
        *filter = ResponseFilter { plan, facts };
        target.response.answer.filter = Some(filter);
    }

    /// Changes a whole response, and sends it.
    #[cold]
    pub(super) fn respond_filtered(
        &mut self,
        exchange: ExchangeId,
        wait: Option<Wait>,
        head: ResponseHead<'_>,
        prepared: Option<&PreparedFields>,
        body: Body<'_>,
    ) -> Result<(), ReplyError> {
        let filter = self.take_filter(exchange)?;
        let mut fields = self.filtering.fields.take();
        fields.extend_from_slice(head.fields);
        fields.extend(prepared.into_iter().flat_map(PreparedFields::pairs));
        if let Some(plan) = self.filtering.plans.get(filter.plan) {
            plan.change(&filter.facts, &mut fields);
        }
        let outcome = self.respond_whole(exchange, wait, ResponseHead { status: head.status, fields: &fields }, None, body);
        self.filtering.fields.keep(fields);
        self.filtering.spare.push(filter);
        outcome
    }

    /// Changes the head of a response, and begins it.
    #[cold]
    pub(super) fn start_filtered(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        size: Option<u64>,
    ) -> Result<(), ReplyError> {
        let filter = self.take_filter(exchange)?;
        let mut fields = self.filtering.fields.take();
        fields.extend_from_slice(head.fields);
        if let Some(plan) = self.filtering.plans.get(filter.plan) {
            plan.change(&filter.facts, &mut fields);
        }
        let outcome = self.start_with_size(exchange, ResponseHead { status: head.status, fields: &fields }, size);
        self.filtering.fields.keep(fields);
        self.filtering.spare.push(filter);
        outcome
    }

    fn take_filter(&mut self, exchange: ExchangeId) -> Result<Box<ResponseFilter>, ReplyError> {
        let target = Target::find(&mut self.connections, &mut self.streams, exchange)?;
        target.response.answer.filter.take().ok_or(ReplyError::Gone)
    }
}
