//! What an engine counts for each request, until it tells others.

use super::{Account, Counter};

/// The counters that change with each request, in their order in memory.
const EACH_REQUEST: [Counter; 8] = [
    Counter::Responses2xx,
    Counter::BytesReceived,
    Counter::BytesSent,
    Counter::RequestsQueued,
    Counter::Responses1xx,
    Counter::Responses3xx,
    Counter::Responses4xx,
    Counter::Responses5xx,
];

/// Numbers that no other thread sees before [`Tally::settle`].
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// `None`: nobody wants to know.
    account: Option<Account>,
    numbers: [u64; EACH_REQUEST.len()],
}

impl Tally {
    pub(crate) fn of(account: Account) -> Self {
        Self { account: Some(account), ..Self::default() }
    }

    /// Counts what does not happen for each request.
    pub(crate) fn count(&self, counter: Counter) {
        if let Some(account) = self.account {
            account.count(counter);
        }
    }

    /// A final response has begun.
    #[inline]
    pub(crate) fn responded(&mut self, status: u16) {
        if (200..300).contains(&status) { self.numbers[0] += 1 } else { self.responded_otherwise(status) }
    }

    #[cold]
    fn responded_otherwise(&mut self, status: u16) {
        let class = match status {
            0..200 => Counter::Responses1xx,
            200..300 => Counter::Responses2xx,
            300..400 => Counter::Responses3xx,
            400..500 => Counter::Responses4xx,
            500.. => Counter::Responses5xx,
        };
        self.numbers[class as usize] += 1;
    }

    #[inline]
    pub(crate) fn received(&mut self, bytes: usize) {
        self.numbers[Counter::BytesReceived as usize] += bytes as u64;
    }

    /// Where the bytes are counted that sockets have taken.
    #[inline]
    pub(crate) fn sent(&mut self) -> &mut u64 {
        &mut self.numbers[Counter::BytesSent as usize]
    }

    #[inline]
    pub(crate) fn queued(&mut self) {
        self.numbers[Counter::RequestsQueued as usize] += 1;
    }

    /// Tells others.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.numbers != [0; EACH_REQUEST.len()] {
            self.settle_all();
        }
    }

    #[inline(never)]
    fn settle_all(&mut self) {
        let Some(account) = self.account else { return };
        for (counter, number) in EACH_REQUEST.into_iter().zip(&mut self.numbers) {
            if *number > 0 {
                account.add(counter, std::mem::take(number));
            }
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_learn_of_everything_once() {
        let account = Account::unshared();
        let mut tally = Tally::of(account);
        for status in [101, 200, 206, 304, 404, 499, 502, 999] {
            tally.responded(status);
        }
        tally.received(1000);
        *tally.sent() += 70;
        tally.queued();
        assert_eq!(account.read(), Account::unshared().read(), "nothing is known yet");
        for _ in 0..2 {
            tally.settle();
            let counts = account.read();
            assert_eq!(EACH_REQUEST.map(|counter| counts.of(counter)), [2, 1000, 70, 1, 1, 1, 2, 2]);
        }
        tally.responded(200);
        drop(tally);
        assert_eq!(account.read().of(Counter::Responses2xx), 3, "an engine that ends has told everything");
        for (index, counter) in EACH_REQUEST.into_iter().enumerate() {
            assert_eq!(counter as usize, index);
        }
    }
}
