//! The rates of clients, in shared memory.

use crate::rule::COST;
use crate::set::{Sets, WAYS};
use crate::{InvalidRule, Key, Rule};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

/// The bits of an entry that hold the tag of its key; the others hold a time.
const TAG_BITS: u32 = 24;
const TIME_BITS: u32 = u64::BITS - TAG_BITS;
const TIME: u64 = (1 << TIME_BITS) - 1;

/// How far the times of two processes may be apart, because a process may read the clock once for many requests. An entry whose
/// time is further ahead than a burst and this is a very old one: times begin anew after 2^40 units, which is the time of 2^32
/// requests.
const SKEW: Duration = Duration::from_secs(10);

/// The rates of the clients of some rules. All processes that share the memory must have the same rules, in the same order, the
/// same [`Keys`](crate::Keys) and the same clock. Memory of zeros has no clients.
///
/// An entry is one word: a tag of the key, and the time at which the client has no debt left. One atomic operation reads and
/// changes both, so that no request is counted twice or lost, and a process that dies at any moment leaves nothing behind that
/// others would have to mend. No lock is taken.
///
/// One moment is not covered: if two processes add the same new client within the same fraction of a microsecond, while an
/// entry of that set changes or runs out, each may choose another entry, and the client gets a second burst.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    rules: Box<[Limit<'a>]>,
}

/// A rule, its constants, and its clients.
#[derive(Clone, Debug)]
struct Limit<'a> {
    rule: Rule,
    sets: Sets<'a>,
    /// The debt of a client that has sent a burst, in units.
    most: u64,
    /// [`SKEW`] in units.
    skew: u64,
}

/// The answer to a request. Times are rounded up to a 256th of the time for which a request counts, so that a client that waits
/// as long as it is told is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request is within the limit.
    pub allowed: bool,
    /// How many more requests would be allowed now.
    pub remaining: u32,
    /// The time until a request is allowed; zero if this one is.
    pub retry_after: Duration,
    /// The time until one more request than `remaining` is allowed; zero if that is the whole burst.
    pub reset: Duration,
}

impl<'a> Table<'a> {
    /// The number of words of a table with at least so many entries for each rule. An entry has 8 bytes. The words should begin
    /// at a multiple of 64 bytes.
    #[must_use]
    pub const fn words(entries: usize, rules: &[Rule]) -> usize {
        Sets::words(entries) * rules.len()
    }

    /// The table in these words, of which each rule gets an equal share.
    ///
    /// # Errors
    /// A rule is invalid, or there are too few words.
    pub fn new(words: &'a [AtomicU64], rules: &[Rule]) -> Result<Self, InvalidRule> {
        let sets = Sets::new(words);
        let share = sets.count().checked_div(rules.len()).unwrap_or_default();
        if share == 0 && !rules.is_empty() {
            return Err(InvalidRule::Memory);
        }
        let limit = |(index, rule): (usize, &Rule)| {
            rule.check()?;
            let most = u64::from(rule.burst) * COST;
            Ok(Limit { rule: *rule, sets: sets.part(index, share), most, skew: rule.units(SKEW).min(TIME / 4) })
        };
        Ok(Self { rules: rules.iter().enumerate().map(limit).collect::<Result<_, _>>()? })
    }

    /// Counts a request of `key` for the rule with this index, unless it is over the limit. `now` is the time since any fixed
    /// moment, by a clock that is never set. A request for a rule that does not exist is allowed.
    #[must_use]
    pub fn take(&self, rule: usize, key: Key, now: Duration) -> Verdict {
        let open = Verdict { allowed: true, remaining: 0, retry_after: Duration::ZERO, reset: Duration::ZERO };
        let Some(limit) = self.rules.get(rule) else { return open };
        let Some(set) = limit.sets.of(key) else { return open };
        limit.take(set, key.tag(TAG_BITS), limit.rule.units(now) & TIME)
    }

    /// Undoes [`Table::take`] for a request that was allowed, because it is refused for another reason.
    pub fn give_back(&self, rule: usize, key: Key, now: Duration) {
        if let Some(limit) = self.rules.get(rule)
            && let Some(set) = limit.sets.of(key)
        {
            limit.give_back(set, key.tag(TAG_BITS), limit.rule.units(now) & TIME);
        }
    }
}

impl Limit<'_> {
    /// Takes the cost of a request off the debt of a client. If another client has got the entry meanwhile, there is nothing to undo.
    fn give_back(&self, set: &[AtomicU64; WAYS], tag: u64, now: u64) {
        for entry in set {
            let mut found = entry.load(Relaxed);
            while found >> TIME_BITS == tag
                && let Some(debt) = self.debt(found, now)
            {
                // Time has already taken off some of the cost if the debt is smaller.
                let free = now + debt.saturating_sub(COST);
                match entry.compare_exchange_weak(found, tag << TIME_BITS | (free & TIME), Relaxed, Relaxed) {
                    Ok(_) => return,
                    Err(changed) => found = changed,
                }
            }
        }
    }

    fn take(&self, set: &[AtomicU64; WAYS], tag: u64, now: u64) -> Verdict {
        loop {
            let entries = set.each_ref().map(|entry| entry.load(Relaxed));
            let found = entries.iter().position(|entry| entry >> TIME_BITS == tag);
            // Two processes that add the same client choose by the same order, so that one of them fails and looks again.
            let index = found.unwrap_or_else(|| self.least_debt(&entries, now));
            let debt = if found.is_some() { self.debt(entries[index], now).unwrap_or(0).min(self.most) } else { 0 };
            if debt + COST > self.most {
                return self.verdict(false, debt);
            }
            let free = now + debt + COST;
            let entry = tag << TIME_BITS | (free & TIME);
            if set[index].compare_exchange_weak(entries[index], entry, Relaxed, Relaxed).is_ok() {
                return self.verdict(true, debt + COST);
            }
        }
    }

    /// The debt of an entry in units; `None` if it has none, or is a very old one.
    fn debt(&self, entry: u64, now: u64) -> Option<u64> {
        let ahead = entry.wrapping_sub(now) & TIME;
        (entry != 0 && ahead <= self.most + self.skew).then_some(ahead)
    }

    /// The index of the entry with the least debt: the first one that is empty or has none, if there is one.
    fn least_debt(&self, entries: &[u64; WAYS], now: u64) -> usize {
        let debts = entries.iter().map(|entry| self.debt(*entry, now)).enumerate();
        debts.min_by_key(|(_, debt)| *debt).map_or(0, |(index, _)| index)
    }

    fn verdict(&self, allowed: bool, debt: u64) -> Verdict {
        let left = self.most - debt;
        let remaining = (left / COST) as u32;
        // The debt falls by one unit in each unit of time.
        let reset = if debt == 0 { 0 } else { COST - left % COST };
        let reset = self.rule.time(reset.min(debt));
        Verdict { allowed, remaining, retry_after: if allowed { Duration::ZERO } else { reset }, reset }
    }
}
