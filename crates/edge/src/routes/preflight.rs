//! Preflight requests: a browser asks whether a page of another origin may send a request.

use super::actions::{Outcome, refuse};
use oribi_engine::{Engine, Exchange};
use oribi_filter::{Cors, Preflight};
use oribi_io::Backend;
use oribi_source::LentRequest;
use oribi_worker::lane::Lane;

/// Answers a preflight request.
pub(super) fn answer<B: Backend>(cors: &Cors, lane: &Lane<'_, Engine<'_, B>>, exchange: Exchange) -> Outcome {
    if cors.preflight(&exchange.head()) == Preflight::Refused {
        return refuse(lane, exchange, 403, "the origin is not allowed");
    }
    let wanted = Cors::wanted(&exchange.head()).map(<[u8]>::to_vec);
    lane.answer_with(exchange, 204, cors.permit(wanted.as_deref()), b"");
    Outcome::Answered
}
