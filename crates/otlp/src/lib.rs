//! Exports spans of requests to collectors of OpenTelemetry, by OTLP/HTTP.
//!
//! The process that answers a request describes it in a [`Record`], and an [`Outbox`] gathers the records of a moment into
//! one message. An [`Exporter`], in a process of its own, reads these messages, makes four spans of each record
//! ([`request`]), and sends them to a collector. It trusts no message: senders run apps, and may have been taken over by
//! clients.
//!
//! The formats are in [`request`] and `response`, which do no I/O; [`oribi_protobuf`] encodes the fields.
#![forbid(unsafe_code)]

mod account;
mod collector;
mod exporter;
mod message;
mod patience;
mod queue;
mod record;
pub mod request;
mod response;
mod settings;

pub use collector::Collector;
pub use exporter::Exporter;
pub use message::{LARGEST_MESSAGE, Message, Outbox};
pub use record::{Record, Version};
pub use settings::{Settings, endpoint, endpoint_of_environment};
