//! Memory that an edge and the workers of a pool share: complete requests that wait, the owners of requests, and the answers.
//!
//! An *edge* is the process that owns client connections and runs no app. It puts each complete request into a *slot* and the
//! slot into the *queue* of a *pool*. A worker of the pool that has nothing to do takes the oldest request; no request is
//! assigned to a worker before. This crate moves bytes: it knows no protocol, no language and no engine. [`Edge`] and
//! [`Worker`] are its two sides; the process that forks both makes [`Memory`].
//!
//! # Which process may write what
//! | part | written by | holds |
//! |---|---|---|
//! | requests | the edge; workers cannot write there | the bytes of requests, the entries and the tail of the queue, orders |
//! | claims | all | the word of each slot that names its owner; where workers begin to look |
//! | answers, one for each worker | that worker; the edge after its death | frames in ring buffers, its requests, its sleep |
//!
//! Each worker maps writable only the parts that it may write. A *stranger*, which is code that writes to wrong addresses, such
//! as an app with a stray pointer, can therefore reach only its worker's own answers and the claims. The edge trusts neither of
//! these parts: it copies an index before it checks it, accepts the length of a frame only if the worker has published that
//! many words, and copies all bytes out once before it interprets them. It no longer reads from a worker whose frames are
//! invalid ([`Event::Broken`]). The edge also has its own record of every important fact in the claims, or compares the claims
//! with the workers' own notes ([`Edge::audit`]). A stranger that writes to the claims can at worst delay a request of others,
//! have it run twice, or have it lost (its client gets an error); a request is never answered twice, nor to another client.
//!
//! # Who owns a slot
//! One word of the claims for each slot names the owner: the edge, no process (queued), or a worker. Wherever two processes may
//! change the word at the same time, they use compare-and-swap. States that only the edge decides on (free, being filled,
//! withdrawn, forsaken by its client, quarantined) are kept in the edge's own memory. The edge also owns a request that it
//! keeps out of the queue for a while ([`Edge::set_aside`]); the word of the request's slot marks it as waiting, for the
//! inspection. The worker's frames show how much of an answer there is. Each use of a slot has a serial number, so a late
//! process finds a word that does not match.
//!
//! A worker takes a request by a compare-and-swap that writes the worker's index into the slot's word, so each taken request
//! has an owner, wherever the worker dies. The head of the queue is only a hint, which the next worker corrects. (If workers
//! claimed positions of the queue, each worker would need a word "taking position n" for others to resolve.) Before a worker
//! takes a request, it notes the request in its own memory: if a stranger overwrites the slot's word, this note distinguishes a
//! request that may have run from one that has not.
//!
//! # The death of a process
//! * **A worker**: the edge watches the process that has taken a place ([`Edge::arrivals`]). It reads the frames that the
//!   worker had published; a complete response is sent as usual. All other requests of the worker are [lost](Event::Lost),
//!   and its place is free for another ([`Edge::report_death`]). Requests that it had not taken keep waiting.
//! * **A worker that executes another program** no longer has this memory. The process that forked the worker
//!   [reports](Memory::report_executed) it, and the edge [releases](Edge::report_death) its place.
//! * **A worker whose frames are invalid**: its slots and its place are not used again until its process has ended.
//! * **The edge**: another edge [takes over](Edge::take_over) the memory. It drops the requests that no worker has taken,
//!   because their clients have lost their connections, and orders the workers to discard the requests that they are answering.
//!
//! # The inspection
//! The process that made the memory may ask at any time which requests are in it ([`Memory::inspect`]). It maps nothing and
//! stops no process: it copies the words that it needs, and reads the owners of slots before and after all other words, to
//! recognize slots that changed meanwhile. The edge's notes for the inspection are in `progress_note.rs`.
//!
//! # Sleeping and waking
//! Both sides announce that they will sleep and check once more for work before they do ([`Edge::prepare_to_sleep`],
//! [`Worker::prepare_to_sleep`]); a process that publishes something rings only for sleeping processes. The doorbell of each
//! side is an eventfd. An edge that uses [`Edge::prepare_to_rest`] first sleeps for a short time only, so that fewer rings are
//! needed. A futex would cost as many system calls as an eventfd, but cannot be watched together with descriptors, and a worker
//! waits for more than requests: commands of its supervisor, a waker, a timer, and the descriptors that its app watches.
#![deny(unsafe_code)]

mod availability;
#[cfg(test)]
mod deaths;
mod edge;
mod frames;
mod inspection;
mod mapping;
mod memory;
mod orders;
mod passing;
mod progress_note;
mod queue;
mod shape;
mod sleep;
mod step;
mod words;
mod worker;

pub use availability::Availability;
pub use edge::{Arrival, DOZE, Edge, Event, FilePart, Reserved, Rest, Ticket, Waits, Withdrawal, WorkerCounts};
pub use frames::HEAD_BYTES;
pub use inspection::{PooledRequest, RequestState};
pub use memory::Memory;
pub use orders::{DescriptorRequest, Orders};
pub use shape::Shape;
pub use worker::{NotWritten, Taken, Worker};
