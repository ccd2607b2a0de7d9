//! 4. Lend: a complete request goes out to the lane.

use super::answer::Answer;
use super::connection::{Answering, Connection, Departure, Fate, State};
use super::name::{Name, Place};
use super::{Engine, Exchange};
use oribi_io::Backend;
use oribi_message::{KnownField, RequestHead};

impl<B: Backend> Engine<'_, B> {
    /// Hands a request out that is complete; `None` if its client has gone meanwhile.
    #[inline]
    pub(super) fn lend(&mut self, place: Place) -> Option<Exchange> {
        match place {
            Place::Connection(index) => self.lend_request(index),
            Place::Stream(number) => self.lend_stream(number),
        }
    }

    #[inline]
    fn lend_request(&mut self, index: u32) -> Option<Exchange> {
        let connection = self.connections.get_mut(index)?;
        if !matches!(connection.state, State::Queued(_)) {
            return None;
        }
        let serial = self.serials.next();
        let Connection { machine, input, state, remote, listener, .. } = connection;
        let State::Queued(received) = &mut *state else { return None };
        let content = !received.content.is_none();
        let more = input.has_unread();
        let early = more.then(|| {
            let head = RequestHead::new(input.head_bytes(), &received.layout);
            let upgrade = head.field(KnownField::Upgrade).is_some() || head.method() == b"CONNECT";
            upgrade.then(|| Box::from(input.unread()))
        });
        let answering = State::Answering(Answering {
            answer: Answer::new(received.complete_at),
            fate: Fate::Close,
            departure: if more { Departure::WithNext } else { Departure::AtOnce },
            sends_on: content || !machine.must_close(),
            taken: false,
            early: early.flatten(),
        });
        let State::Queued(mut received) = std::mem::replace(state, answering) else { return None };
        std::mem::swap(&mut received.input, input);
        received.remote = *remote;
        received.listener = *listener;
        connection.serial = serial;
        self.answering += 1;
        Some(Exchange { id: Name { place: Place::Connection(index), serial }.into(), received })
    }
}
