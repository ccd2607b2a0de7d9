//! Requests the replacement of workers that are old or use much memory: sets the state by which a worker also asks for it after
//! its number of requests.

use super::super::member::Member;
use super::super::memory_use::{proportional, resident, resident_of_its_own};
use super::Workers;
use oribi_stats::scoreboard::WorkerState;
use oribi_stats::totals::Counter;
use std::io;
use std::time::{Duration, Instant};

/// The interval at which the memory of each worker is checked. For a worker below its limit, the check reads one small file.
const LOOK: Duration = Duration::from_millis(100);

/// After an exact measurement of a worker, the next one waits for this many times the duration of the measurement. So measuring
/// takes 2 % of a processor. The pause ends early if the worker has grown so much that it may have reached its limit.
const PAUSE_FACTOR: u32 = 50;

/// The longest pause after an exact measurement: shared pages may become a worker's own although the worker does not grow.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Returns the age at which a worker is due, drawn between three quarters of `most` and `most`.
pub(super) fn draw_lifetime(most: Duration) -> Duration {
    let mut random = [0; 4];
    // Without random numbers all workers live for `most`.
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::NONBLOCK);
    most - most.mul_f64(f64::from(u32::from_ne_bytes(random)) / f64::from(u32::MAX) / 4.0)
}

impl Workers<'_> {
    /// Requests the replacement of workers that are too old or too large.
    pub(super) fn replace_aged(&mut self) {
        let now = Instant::now();
        let limit = self.settings.life.max_memory;
        for member in &mut self.members {
            if member.serving() != Some(WorkerState::Ready) {
                continue;
            }
            let (number, pid) = (member.number, member.pid);
            if member.due.is_some_and(|due| now >= due) && member.slot.ask_for_replacement() {
                member.cause = Some(Counter::EndedByLifetime);
                let lived = now.saturating_duration_since(member.started_at).as_secs_f64();
                log::info!("worker {number} (pid {pid}) is replaced: it has lived for {lived:.1} s (--max-lifetime)");
            }
            if let Some(limit) = limit
                && now >= member.next_measurement
                && let Some(usage) = measure(member, limit, now, &mut self.estimates_memory)
                && usage > limit
                && member.slot.ask_for_replacement()
            {
                member.cause = Some(Counter::EndedByMemory);
                let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
                let (usage, limit) = (mebibytes(usage), mebibytes(limit));
                log::info!("worker {number} (pid {pid}) is replaced: it uses {usage:.1} MiB (--max-memory {limit} MiB)");
            }
        }
    }

    /// Returns the time until the next worker may be due.
    pub(super) fn next_aged(&self, now: Instant) -> Option<Duration> {
        let measures = self.settings.life.max_memory.is_some();
        let ready = self.members.iter().filter(|member| member.serving() == Some(WorkerState::Ready));
        let times = ready.flat_map(|member| member.due.into_iter().chain(measures.then_some(member.next_measurement)));
        times.map(|time| time.saturating_duration_since(now)).min()
    }
}

/// Returns the memory use of a worker in bytes. The number is exact, or is that of the last exact measurement, if the worker
/// may use more than `limit`. `None` if the worker has ended. Sets `estimates` when the system refuses exact numbers; then the
/// number is estimated.
fn measure(member: &mut Member, limit: u64, now: Instant, estimates: &mut bool) -> Option<u64> {
    let process = member.pid.as_raw_nonzero().get().unsigned_abs();
    member.next_measurement = now + LOOK;
    let resident_now = resident(process).ok()?;
    if resident_now <= limit {
        return Some(resident_now);
    }
    if !*estimates {
        if let Some((until, resident_then, usage)) = member.last_measurement
            && now < until
            && usage + resident_now.saturating_sub(resident_then) <= limit
        {
            return Some(usage);
        }
        let begun = Instant::now();
        let last_measurement = proportional(process);
        let pause = (begun.elapsed() * PAUSE_FACTOR).min(LONGEST_PAUSE);
        match last_measurement {
            Ok(usage) => {
                member.last_measurement = Some((now + pause, resident_now, usage));
                return Some(usage);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                *estimates = true;
                log::warn!(
                    "cannot read the PSS of workers that run as another user ({error}): --max-memory counts their resident memory \
                     without files, which is more (the capability CAP_SYS_PTRACE would help)"
                );
            }
            Err(_) => return None,
        }
    }
    resident_of_its_own(process).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_differ_and_are_bounded() {
        let most = Duration::from_secs(1000);
        let drawn: Vec<Duration> = (0..200).map(|_| draw_lifetime(most)).collect();
        assert!(drawn.iter().all(|time| (Duration::from_secs(750)..=most).contains(time)), "{drawn:?}");
        let (least, longest) = (drawn.iter().min().expect("some"), drawn.iter().max().expect("some"));
        assert!(*longest - *least > Duration::from_secs(100), "{least:?} {longest:?}");
    }
}
