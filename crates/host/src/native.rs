//! The native host: a fixed reply. It is the floor that the language hosts are measured against.

use crate::{After, Host, Reply, Request, Runtime};
use oribi_message::{FieldPair, ResponseHead};

/// Answers every request with the same text.
#[derive(Clone, Debug)]
pub struct Native {
    text: Vec<u8>,
    fields: &'static [FieldPair<'static>],
}

impl Native {
    /// Answers 200 with `text` as `text/plain`.
    #[must_use]
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Self { text: text.into(), fields: &[(b"Content-Type", b"text/plain")] }
    }

    /// Answers 200 with `text` and no field that says more of it than its length.
    #[must_use]
    pub fn bare(text: impl Into<Vec<u8>>) -> Self {
        Self { text: text.into(), fields: &[] }
    }
}

impl Runtime for Native {
    fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
        Ok(Box::new(self.clone()))
    }
}

impl Host for Native {
    fn answer(&mut self, _request: &Request<'_>, reply: Reply<'_>) -> After {
        let head = ResponseHead { status: 200, fields: self.fields };
        // A client that has gone needs no answer, and the head above is valid.
        let _ = reply.send(head, &[&self.text]);
        After::default()
    }

    fn is_prompt(&self) -> bool {
        true
    }
}
