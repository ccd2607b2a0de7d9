//! Spans of requests for collectors of OpenTelemetry, by OTLP/HTTP.
//!
//! Whoever answers a request describes it in a [`Record`], and puts the records of a moment into one message ([`Outbox`]). An
//! [`Exporter`], in a process of its own, takes these messages, makes four spans of each record ([`request`]), and sends them to a
//! collector. It believes nothing of what messages say: they come from processes that run apps, or that clients may have broken.
//!
//! What is written to a collector and read from it is in [`wire`], [`request`] and `response`, which do no I/O.
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
pub mod wire;

pub use collector::Collector;
pub use exporter::Exporter;
pub use message::{LARGEST_MESSAGE, Message, Outbox};
pub use record::{Record, Version};
pub use settings::{Settings, endpoint, endpoint_of_environment};
