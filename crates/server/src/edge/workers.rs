//! The processes of workers: the edge watches them, because nobody else may say that their memory is free.

use super::EdgeLoop;
use crate::keeper::Reason;
use oribi_io::Backend;
use oribi_pool::Arrival;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, OwnedFd};

/// The worker in a place.
#[derive(Debug)]
struct Occupant {
    process: u32,
    /// Readable when the process has ended.
    life: OwnedFd,
}

/// The workers of the pool.
#[derive(Debug)]
pub(super) struct Workers {
    places: Vec<Option<Occupant>>,
}

impl Workers {
    pub(super) fn new(places: u32) -> Self {
        Self { places: (0..places).map(|_| None).collect() }
    }

    /// The process id of the worker in a place, as it says.
    pub(super) fn process(&self, place: u32) -> Option<u32> {
        self.places.get(place as usize)?.as_ref().map(|occupant| occupant.process)
    }

    /// The places whose workers have ended.
    fn take_dead(&mut self) -> Vec<u32> {
        let numbers: Vec<usize> = (0..self.places.len()).filter(|number| self.places[*number].is_some()).collect();
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(numbers.len());
        for occupant in self.places.iter().flatten() {
            polled.push(PollFd::new(&occupant.life, PollFlags::IN));
        }
        if poll(&mut polled, Some(&Timespec::default())).is_err() {
            return Vec::new();
        }
        let has_ended: Vec<bool> = polled.iter().map(|life| !life.revents().is_empty()).collect();
        let dead: Vec<usize> =
            numbers.into_iter().zip(has_ended).filter(|(_, ended)| *ended).map(|(number, _)| number).collect();
        for number in &dead {
            self.places[*number] = None;
        }
        dead.into_iter().map(|number| number as u32).collect()
    }
}

impl<B: Backend> EdgeLoop<'_, B> {
    /// Begins to watch the workers that have come.
    #[inline]
    pub(super) fn see_to_arrivals(&mut self) {
        for arrival in self.pool.arrivals() {
            self.watch(arrival);
        }
    }

    pub(super) fn watch(&mut self, Arrival { place, process }: Arrival) {
        let process_id = i32::try_from(process).ok().and_then(Pid::from_raw);
        let life = process_id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
        let watched = life.filter(|life| self.lane.attention().is_some_and(|attention| attention.watch(life.as_fd()).is_ok()));
        match watched {
            Some(life) => self.workers.places[place as usize] = Some(Occupant { process, life }),
            // It has ended already, or nobody can tell when it will.
            None => self.bury(&[place]),
        }
    }

    /// Looks which workers have ended.
    pub(super) fn bury_the_dead(&mut self) {
        let dead = self.workers.take_dead();
        self.bury(&dead);
    }

    fn bury(&mut self, dead: &[u32]) {
        dead.iter().for_each(|place| self.pool.bury(*place));
        if !dead.is_empty() {
            // Their last words, and what is lost with them, wait to be read.
            self.handle_answers();
        }
    }

    /// A worker has written nonsense into its memory: it may have broken anything in its own, too.
    pub(super) fn handle_breach(&mut self, place: u32) {
        let process = self.workers.process(place);
        log::error!(
            "worker {} has written what makes no sense into the memory that it shares with this process, and is to be ended: a \
             module written in C that writes beyond its memory is the usual cause",
            process.map_or_else(|| format!("at place {place}"), |process| process.to_string())
        );
        self.end_worker(place, Reason::Broken);
    }

    /// Asks for the end of a worker.
    pub(super) fn end_worker(&mut self, place: u32, reason: Reason) {
        let (Some(process), Some(keeper)) = (self.workers.process(place), self.keeper) else { return };
        if !keeper.end_worker(process, reason) {
            log::error!("cannot ask for the end of worker {process}: whoever ends workers does not listen");
        }
    }
}
