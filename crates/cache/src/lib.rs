//! The rules of a shared cache (RFC 9111), and a store of bounded size, for an accelerator in front of apps.
//!
//! Nothing here reads a clock: each function gets the time. [`Request`] says how the cache treats a request and forms its key;
//! [`Rules::judge`] decides whether a response may be stored, and for how long it is fresh; [`Store`] keeps responses and
//! evicts those that are used least; [`Response`] knows its age, its conditions and its update by a 304.
#![forbid(unsafe_code)]

mod conditions;
mod control;
mod date;
mod fields;
mod key;
mod request;
mod response;
mod rules;
mod selection;
mod sieve;
mod store;
mod vary;

pub use conditions::Conditions;
pub use control::{RequestControl, ResponseControl};
pub use fields::Fields;
pub use key::same_site;
pub use request::{Class, Request};
pub use response::{Answer, Response};
pub use rules::{Judgement, Refusal, Rules, Times};
pub use selection::Selection;
pub use store::{Found, Scope, Store};
pub use vary::{Vary, secondary_key};
