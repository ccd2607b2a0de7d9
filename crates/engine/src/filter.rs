//! The filters of responses.

use oribi_filter::{RequestFacts, ResponsePlan};
use oribi_message::FieldMemory;

/// The plans of all routes, and memory for the responses that are changed.
#[derive(Debug, Default)]
pub(super) struct Filtering<'a> {
    pub(super) plans: &'a [ResponsePlan],
    pub(super) fields: FieldMemory,
    #[expect(clippy::vec_box, reason = "a box goes out with a response and comes back")]
    pub(super) spare: Vec<Box<ResponseFilter>>,
}

/// The changes of one response.
#[derive(Debug, Default)]
pub(super) struct ResponseFilter {
    /// The number of the plan.
    pub(super) plan: usize,
    pub(super) facts: RequestFacts,
}
