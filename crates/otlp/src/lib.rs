//! Exports spans of requests to collectors of OpenTelemetry, by OTLP/HTTP.
//!
//! The process that answers a request describes the request in a [`Record`], and an [`Outbox`] gathers the records of a moment
//! into one message. An [`Exporter`], in a process of its own, reads the messages, makes four spans of each record
//! ([`request`]), and sends the spans to a collector. The exporter trusts no message, because the processes that send them run
//! apps, and clients may have taken over such a process.
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
