//! What an edge and the workers of a pool share: memory in which complete requests wait, who takes them, and the answers.
//!
//! An *edge* is the process that owns client connections and runs no app. It puts each complete request into a *slot* and the
//! slot into the *queue* of a *pool*, whose workers take the oldest when they have nothing to do; nothing is assigned before.
//! This crate moves bytes: it knows no protocol, no language and no engine. [`Edge`] and [`Worker`] are its two sides, and
//! [`Memory`] is made by the process that forks both.
//!
//! # Who may write what
//! | part | written by | holds |
//! |---|---|---|
//! | requests | the edge; workers cannot write there | the bytes of requests, the entries and the tail of the queue, orders |
//! | claims | all | the word of each slot that says to whom it belongs; where workers begin to look |
//! | answers, one for each worker | that worker | frames, in areas that are used in a circle; what it holds; whether it sleeps |
//!
//! Each worker maps what it may write and nothing else, so a stray pointer in an app reaches its own answers and the claims. The edge
//! reads both as if a stranger had written them: an index is checked against a copy, a frame is as long as it says only if so
//! much was published, and everything is copied out once before it is looked at. A worker whose frames make no sense is not read
//! from any more ([`Event::Broken`]). What stands in the claims, the edge knows itself as far as it matters, and where it does not
//! it compares them with what workers say of themselves ([`Edge::audit`]). The worst that somebody can do who writes into the
//! claims is that a request of others is late, or is run twice; it is never answered twice, nor to another client.
//!
//! # Who owns a slot
//! One word of the claims for each slot, changed by compare-and-swap: the edge's, queued, or taken by a worker. What only the
//! edge decides (free, being filled, withdrawn, forsaken by its client, quarantined) is no business of other processes and
//! stands in the edge's own memory. How far an answer has come stands in its worker's frames. Each use of a slot has a serial
//! number, so that whoever is late finds a word that does not match.
//!
//! The swap that takes a request writes the worker's number, so there is no claim without an owner, wherever a worker dies, and the
//! head of the queue is a mere hint that the next one mends. (Had workers claimed positions of the queue, each would need a word
//! "taking position n" for others to resolve.) What a worker takes it nevertheless says beforehand in its own memory: should a
//! stranger overwrite a slot's word, that is what tells a request that may have been run from one that has not.
//!
//! # Who dies, and what the others do
//! * **A worker**: the edge reads what it had published; a response that is complete there is as good as any. All else that it had
//!   is [lost](Event::Lost), and its place is free for another ([`Edge::bury`]). What it had not taken waits for the others.
//! * **A worker that does not end**: its slots and its area are not used again until it is gone.
//! * **The edge**: another one [takes over](Edge::take_over) the memory. Requests that nobody has taken are dropped, for their
//!   clients are gone; those that are being answered are forsaken, and their workers, who need not know, are told so.
//!
//! # Who sleeps
//! Both sides say that they will sleep and look once more before they do ([`Edge::prepare_to_sleep`],
//! [`Worker::prepare_to_sleep`]); who publishes something rings only for sleepers. What rings is an eventfd on both sides. A futex
//! costs as many system calls, but nobody can wait for one together with descriptors, and a worker waits for more than requests:
//! commands of its supervisor, a waker, a timer, what its app has it watch.
#![deny(unsafe_code)]

#[cfg(test)]
mod deaths;
mod edge;
mod frames;
mod mapping;
mod memory;
mod orders;
mod passing;
mod queue;
mod shape;
mod sleep;
mod step;
mod words;
mod worker;

pub use edge::{Edge, Event, FilePart, Reserved, Ticket, Withdrawal};
pub use memory::Memory;
pub use orders::{Orders, Wish};
pub use shape::Shape;
pub use worker::{Taken, Unfit, Worker};
