//! Changes responses on their way to clients, as the routes of a configuration say: fields, cross-origin sharing, compression.
#![forbid(unsafe_code)]

mod changes;
mod cors;
mod plan;

pub use changes::{FieldChanges, ResponseFields};
pub use cors::{Cors, CorsOptions, Preflight};
pub use plan::{ErrorPage, RequestFacts, ResponsePlan};

pub use oribi_encode::{Coding, Filter as Compression, MediaRange, Settings as CompressionSettings};
