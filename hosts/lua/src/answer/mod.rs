//! An answer while a script makes it: memory that is kept from request to request. [`AnswerRoom`] is for those that a handler returns,
//! [`Output`] for those that a script in the style of luafcgid speaks piece by piece.

mod kept_head;
mod numbers;
mod output;
mod room;
mod status;

pub(crate) use numbers::Numbers;
pub(crate) use output::Output;
pub(crate) use room::{AnswerRoom, emptied, emptied_fields};
pub(crate) use status::{final_status, status_of};
