//! The filters of responses.

use super::encoders::{EncodedStream, Encoders};
use oribi_encode::HeadWriter;
use oribi_filter::{RequestFacts, ResponsePlan};
use oribi_message::FieldMemory;
use std::fmt;
use std::sync::Arc;

/// The most memory that is kept for encoded content.
const KEPT_BYTES: usize = 256 << 10;

/// The plans of all routes, and memory for the responses that are changed.
#[derive(Debug, Default)]
pub(super) struct Filtering {
    pub(super) plans: Arc<[ResponsePlan]>,
    /// Whether any plans have been set. Responses to earlier requests keep theirs when others are set.
    pub(super) is_used: bool,
    pub(super) fields: FieldMemory,
    pub(super) heads: HeadWriter,
    pub(super) encoders: Encoders,
    /// Memory for the encoded content that is being sent.
    encoded: Vec<u8>,
    #[expect(clippy::vec_box, reason = "a box goes out with a response and comes back")]
    pub(super) spare: Vec<Box<Changes>>,
}

impl Filtering {
    /// Takes the memory for encoded content.
    pub(super) fn take_encoded(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.encoded)
    }

    /// Empties the memory for encoded content, and keeps it unless it is large.
    pub(super) fn keep_encoded(&mut self, mut encoded: Vec<u8>) {
        if encoded.capacity() <= KEPT_BYTES {
            encoded.clear();
            self.encoded = encoded;
        }
    }
}

/// The changes of one response.
#[derive(Debug)]
pub(super) struct ResponseFilter {
    /// The plans when the request arrived, and the number of its own.
    pub(super) plans: Arc<[ResponsePlan]>,
    pub(super) plan: usize,
    pub(super) facts: RequestFacts,
}

/// The changes of a response that have not been made yet, and values that last as long as it does.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Those of the head and of the content; `None` once the head has been written.
    pub(super) filter: Option<ResponseFilter>,
    /// The encoder of the content; `None` if the content is not encoded.
    pub(super) stream: Option<Box<EncodedStream>>,
    /// Values that are dropped with the exchange.
    pub(super) held: Vec<Box<dyn fmt::Debug>>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.filter.is_none() && self.stream.is_none() && self.held.is_empty()
    }
}
