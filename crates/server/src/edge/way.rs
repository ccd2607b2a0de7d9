//! How an edge gives way: it lets the worker that it has just woken run before it rests.
//!
//! Where both share a processor, the worker then answers at once, and neither must the edge sleep for that answer nor the worker
//! wake it: two system calls less, for one. Where they do not, the call returns at once and is of no use. So the edge
//! counts how often it was, and only gives way to a worker that has all that the edge waits for.

use super::EdgeLoop;
use oribi_io::Backend;

/// How many times at most the edge does not give way, after giving way was of no use.
const MOST_LEFT_OUT: u32 = 255;

/// Whether giving way is worth its system call.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// How many times it will not give way, and the number with which it began to count down.
    left_out: u32,
    leaves_out: u32,
}

impl Way {
    /// Whether to give way this time.
    const fn is_worth_it(&mut self) -> bool {
        if self.left_out == 0 {
            return true;
        }
        self.left_out -= 1;
        false
    }

    /// The edge has given way; `answered`: a worker has answered meanwhile.
    fn note(&mut self, answered: bool) {
        self.leaves_out = if answered { 0 } else { (self.leaves_out * 2 + 1).min(MOST_LEFT_OUT) };
        self.left_out = self.leaves_out;
    }
}

impl<B: Backend> EdgeLoop<'_, B> {
    /// Gives way to the worker that was woken for the only request in the pool, and passes its answer on.
    pub(super) fn give_way(&mut self) {
        if self.pool.take_rung() && self.table.used() == 1 && self.way.is_worth_it() {
            rustix::thread::sched_yield();
            let answered = self.handle_answers(true);
            self.way.note(answered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Way;

    /// How many of that many times it gives way, if each is answered or not.
    fn times(way: &mut Way, most: usize, answered: bool) -> usize {
        (0..most).filter(|_| way.is_worth_it().then(|| way.note(answered)).is_some()).count()
    }

    #[test]
    fn it_gives_way_while_that_is_of_use_and_hardly_ever_otherwise() {
        let mut way = Way::default();
        assert_eq!(times(&mut way, 1000, true), 1000);
        assert_eq!(times(&mut way, 2560, false), 8 + 9, "after 0, 1, 3 and so on up to 127, then one of 256");
        assert!(times(&mut way, 2560, true) > 2300);
    }
}
