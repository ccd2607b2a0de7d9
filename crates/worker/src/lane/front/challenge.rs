//! Challenges, by which an authority verifies that the server that orders a certificate controls the domain (RFC 8555,
//! section 8.3).

use super::Handler;
use crate::lane::Lane;
use oribi_acme::Challenge;
use oribi_config::Settings;
use oribi_listen::Listener;
use oribi_message::RequestHead;
use oribi_source::{LentRequest, Source};

/// Answers challenges with the thumbprint of the account's key.
pub(super) struct Challenges;

impl Challenges {
    pub(super) fn of(settings: &Settings) -> Option<Self> {
        (!settings.acme.certificates.is_empty() && settings.acme.challenge == Challenge::Http).then_some(Self)
    }
}

impl<S: Source> Handler<S> for Challenges {
    fn answer(&self, lane: &Lane<'_, S>, exchange: S::Exchange, listeners: &[Listener]) -> Option<S::Exchange> {
        let Some(answer) = answer(&exchange, listeners) else { return Some(exchange) };
        lane.send_text(exchange, 200, None, b"application/octet-stream", &answer);
        None
    }
}

/// The answer, if the request is a challenge and there is an account.
fn answer(exchange: &impl LentRequest, listeners: &[Listener]) -> Option<String> {
    let token = token(&exchange.head())?;
    let thumbprint = listeners.iter().find_map(|listener| listener.thumbprint.as_deref())?;
    Some(oribi_acme::answer(token, thumbprint))
}

/// The token of a challenge; `None` for any other request.
pub(super) fn token<'a>(head: &RequestHead<'a>) -> Option<&'a str> {
    oribi_acme::token(head.path()).filter(|_| matches!(head.method(), b"GET" | b"HEAD"))
}
