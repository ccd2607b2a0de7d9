//! An answer that a script is making, in memory that is reused for the next request. [`AnswerRoom`] is for answers that a
//! handler returns, [`LuafcgidAnswer`] for those that a script in the style of luafcgid writes piece by piece.

mod kept_head;
mod luafcgid;
mod numbers;
mod room;
mod status;

pub(crate) use kept_head::KeptHead;
pub(crate) use luafcgid::LuafcgidAnswer;
pub(crate) use numbers::Numbers;
pub(crate) use room::{AnswerRoom, emptied, emptied_fields};
pub(crate) use status::{final_status, status_of};
