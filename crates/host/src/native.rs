//! The native host: a fixed reply. It is the baseline for measuring the language hosts.

use crate::{After, Host, Piece, Reply, Request, Runtime};
use oribi_message::PreparedFields;

/// Answers every request with the same text.
#[derive(Clone, Debug)]
pub struct Native {
    text: Vec<u8>,
    fields: PreparedFields,
}

impl Native {
    /// Answers 200 with `text` as `text/plain`.
    #[must_use]
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        let fields = PreparedFields::new(&[(b"Content-Type", b"text/plain")]);
        Self { text: text.into(), fields: fields.unwrap_or_default() }
    }

    /// Answers 200 with `text` and no field that describes it except its length.
    #[must_use]
    pub fn bare(text: impl Into<Vec<u8>>) -> Self {
        Self { text: text.into(), fields: PreparedFields::default() }
    }
}

impl Runtime for Native {
    fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
        Ok(Box::new(self.clone()))
    }
}

impl Host for Native {
    fn answer(&mut self, _request: &Request<'_>, reply: Reply<'_>) -> After {
        // It fails only if the client has gone.
        let _ = reply.send_prepared(&self.fields, Piece::Bytes(&self.text));
        After::default()
    }

    fn is_prompt(&self) -> bool {
        true
    }
}
