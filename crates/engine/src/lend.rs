//! 4. Lend: hands a complete request to the lane.

use super::answer::Answer;
use super::connection::{Answering, Connection, Departure, EarlyBytes, Fate, Outlook, State};
use super::exchange::Received;
use super::input::Input;
use super::name::{ExchangeIndex, Name};
use super::request_timings::RequestTimings;
use super::{Engine, Exchange};
use oribi_io::Backend;
use oribi_message::{KnownField, RequestHead};

impl<B: Backend> Engine<'_, B> {
    /// Hands out a complete request; `None` if its client has disconnected meanwhile.
    #[inline]
    pub(super) fn lend(&mut self, place: ExchangeIndex) -> Option<Exchange> {
        let exchange = match place {
            ExchangeIndex::Connection(index) => self.lend_request(index),
            ExchangeIndex::Stream(number) => self.lend_stream(number),
        }?;
        if self.observing.routes.is_some() {
            self.note_route(&exchange);
        }
        self.note_span(&exchange);
        Some(exchange)
    }

    /// Takes the next complete request. If the app is slow, connections take turns: no two requests of a connection that
    /// carries many requests are answered in a row while another connection waits.
    #[inline]
    pub(super) fn take_ready(&mut self, is_slow: bool) -> Option<ExchangeIndex> {
        if is_slow && self.run_queue.lent_last.is_some() {
            self.take_ready_of_others()
        } else {
            self.run_queue.ready.pop_front()
        }
    }

    #[cold]
    fn take_ready_of_others(&mut self) -> Option<ExchangeIndex> {
        let connection_of = |place: &ExchangeIndex| match place {
            ExchangeIndex::Connection(_) => None,
            ExchangeIndex::Stream(number) => self.streams.get(*number).map(|stream| stream.connection),
        };
        let of_others = self.run_queue.ready.iter().position(|place| connection_of(place) != self.run_queue.lent_last);
        self.run_queue.ready.remove(of_others.unwrap_or(0))
    }

    #[inline]
    fn lend_request(&mut self, index: u32) -> Option<Exchange> {
        let connection = self.connections.get_mut(index)?;
        let Connection { line, machine, input, state, serial, listener, .. } = connection;
        let State::Queued(received) = state else { return None };
        let more = input.has_unread();
        let timings = RequestTimings::new(received.complete_at, self.backend.now());
        let https = self.server_fields.has_policy() && received.is_https();
        let answering = State::Answering(Answering {
            answer: Answer::new(timings, https, received.id.take()),
            outlook: Outlook {
                fate: Fate::Close,
                departure: if more { Departure::WithNext } else { Departure::AtOnce },
                sends_on: !received.content.is_none() || !machine.must_close(),
                taken: false,
            },
            early: None,
        });
        let State::Queued(mut received) = std::mem::replace(state, answering) else { return None };
        if more && let State::Answering(answering) = state {
            answering.early = early_bytes(input, &received);
        }
        received.content.pass_on();
        received.input = std::mem::take(input);
        received.describe(self.backend.encryption(&line.socket));
        received.listener = *listener;
        received.lent_at = self.backend.now().into();
        *serial = self.serials.next();
        self.answering += 1;
        self.run_queue.lent_last = None;
        Some(Exchange { id: Name { place: ExchangeIndex::Connection(index), serial: *serial }.into(), received })
    }
}

/// The bytes that arrived after a request that asks for another protocol; `None` if the request does not ask for one.
#[inline(never)]
fn early_bytes(input: &Input, received: &Received) -> Option<Box<EarlyBytes>> {
    let bytes = if received.text.is_empty() { input.head_bytes() } else { &received.text };
    let head = RequestHead::new(bytes, &received.layout);
    let upgrade = head.field(KnownField::Upgrade).is_some() || head.method() == b"CONNECT";
    upgrade.then(|| Box::new(EarlyBytes(input.unread().into())))
}
