//! The question of the first process to an edge: would the edge answer a readiness probe with *ready*?
//!
//! The first process writes the number of a question and wakes the edge. The edge writes the number back, together with its
//! readiness. So the answer is as new as the question, and an edge that hangs does not answer.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// The readiness of an edge, which decides the answer to `--probe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Readiness {
    /// Workers take requests.
    Ready = 1,
    /// The edge serves, but workers make no progress.
    Alive = 2,
    /// The server is stopping, or is about to stop.
    Draining = 3,
}

/// The bits of an answer that are the readiness. The others are the number of the question.
const BITS: u32 = 2;

/// A question of the first process, and the answer of the edge. Both are 0 before the first question.
#[derive(Clone, Copy, Debug)]
pub struct ReadinessQuestion {
    question: &'static AtomicU32,
    answer: &'static AtomicU32,
}

impl ReadinessQuestion {
    pub(super) const fn new(question: &'static AtomicU32, answer: &'static AtomicU32) -> Self {
        Self { question, answer }
    }

    /// In the first process: asks the question with this number, which is not 0. Only its lower 30 bits count.
    pub fn ask(&self, number: u32) {
        self.question.store(number << BITS, Release);
    }

    /// In the first process: returns the answer to the question with this number; `None` until there is one.
    #[must_use]
    pub fn answer(&self, number: u32) -> Option<Readiness> {
        let answer = self.answer.load(Acquire);
        let readiness = [Readiness::Ready, Readiness::Alive, Readiness::Draining];
        readiness.into_iter().find(|readiness| answer == number << BITS | *readiness as u32)
    }

    /// In the edge: answers the question if it is new.
    #[inline]
    pub fn answer_by(&self, readiness: impl FnOnce() -> Readiness) {
        let question = self.question.load(Acquire);
        if question != self.answer.load(Acquire) >> BITS << BITS {
            self.answer.store(question | readiness() as u32, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_belongs_to_its_question() {
        let asked = ReadinessQuestion::new(Box::leak(Box::default()), Box::leak(Box::default()));
        asked.answer_by(|| unreachable!("there is no question"));
        for (number, readiness) in [(1, Readiness::Alive), (2, Readiness::Ready), (u32::MAX >> 2, Readiness::Draining)] {
            asked.ask(number);
            assert_eq!(asked.answer(number), None);
            asked.answer_by(|| readiness);
            asked.answer_by(|| unreachable!("the question is answered"));
            assert_eq!((asked.answer(number), asked.answer(number - 1)), (Some(readiness), None));
        }
    }
}
