//! The process of the edge, whose end a worker must notice itself when no other edge follows.
//!
//! A process id is given to another process some time after the end of the first one, and a worker that then opened the descriptor
//! of that process would wait for its end. So the worker opens the descriptor as soon as it can know of the edge: when it
//! attaches itself, and before each sleep, because an edge that takes over the memory wakes all workers.

use super::Worker;
use crate::shape::Layout;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;

/// The process of the edge.
#[derive(Debug, Default)]
pub(super) struct EdgeProcess {
    /// The content of the edge's word when the process was looked for.
    word: u64,
    process: Process,
}

#[derive(Debug, Default)]
enum Process {
    /// It has ended, or there was none.
    #[default]
    None,
    /// A pidfd, readable when the process has ended.
    Watched(OwnedFd),
    /// The kernel gives no descriptor of it; before Linux 5.3 there are none.
    Unwatched,
}

impl Worker {
    /// Begins to watch the process of the edge, if another edge has begun to use the memory since the last call. Returns `false` if
    /// this process may open no more files: the next call tries again.
    pub(super) fn watch_edge(&mut self) -> bool {
        let mut word = self.requests.load(Layout::EDGE, SeqCst);
        while word != self.edge.word {
            let id = i32::try_from(word).ok().and_then(Pid::from_raw);
            let process = match id.map(|id| pidfd_open(id, PidfdFlags::empty())) {
                Some(Ok(process)) => Process::Watched(process),
                None | Some(Err(Errno::SRCH)) => Process::None,
                Some(Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => return false,
                Some(Err(_)) => Process::Unwatched,
            };
            self.edge = EdgeProcess { word, process };
            // The edge may have ended before its process was found.
            word = self.requests.load(Layout::EDGE, SeqCst);
        }
        true
    }

    /// Whether every edge that could put requests into the queue has ended. An edge whose end could not be noticed counts as one that
    /// has ended.
    pub fn edge_is_gone(&mut self) -> bool {
        self.watch_edge() && self.has_edge_ended(true)
    }

    /// Whether the edge has ended, and no other one has taken its memory over yet, so that no client waits for an answer any more.
    pub fn clients_are_gone(&mut self) -> bool {
        self.watch_edge() && self.has_edge_ended(false)
    }

    fn has_edge_ended(&self, if_unknown: bool) -> bool {
        match &self.edge.process {
            Process::None => true,
            Process::Unwatched => if_unknown,
            Process::Watched(process) => {
                let mut polled = [PollFd::new(process, PollFlags::IN)];
                match poll(&mut polled, Some(&Timespec::default())) {
                    Ok(ready) => ready > 0,
                    Err(_) => if_unknown,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edge, Memory, Shape};
    use rustix::process::{Signal, kill_process, set_parent_process_death_signal};
    use std::io::{self, Read, Write};

    const SHAPE: Shape = Shape { slots: 4, request_bytes: 64, workers: 1, areas: 1, area_bytes: 512 };

    /// Starts a process that becomes the edge, and returns when it is.
    #[allow(unsafe_code)]
    fn start(edge: fn(&Memory) -> io::Result<Edge>, memory: &Memory) -> libc::pid_t {
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        // SAFETY: the child uses shared memory, descriptors and memory of its own, and is killed. The C library's allocator may be
        // used after a fork.
        match unsafe { libc::fork() } {
            0 => {
                // A test that fails kills it as well.
                set_parent_process_death_signal(Some(Signal::KILL)).expect("a signal that there is");
                let _edge = edge(memory).expect("memory");
                writer.write_all(b"x").expect("it is read");
                loop {
                    std::thread::park();
                }
            }
            process => {
                drop(writer);
                assert_eq!(reader.read(&mut [0]).expect("a pipe"), 1, "there is an edge");
                process
            }
        }
    }

    /// Kills a child, and collects its exit status: from then on, another process may get its id.
    #[allow(unsafe_code)]
    fn kill(process: libc::pid_t) {
        kill_process(Pid::from_raw(process).expect("an id"), Signal::KILL).expect("a child");
        let mut status = 0;
        // SAFETY: the process is a child of this one, and `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
    }

    fn is_watched(worker: &Worker) -> bool {
        let EdgeProcess { word, process } = &worker.edge;
        *word == worker.requests.load(Layout::EDGE, SeqCst) && matches!(process, Process::Watched(_))
    }

    #[test]
    fn each_edge_is_watched_before_it_ends() {
        let memory = Memory::new(SHAPE).expect("memory");
        let first = start(Edge::new, &memory);
        let mut worker = Worker::attach_free(&memory).expect("a place");
        assert!(is_watched(&worker) && !worker.edge_is_gone() && !worker.clients_are_gone());
        kill(first);
        assert!(worker.edge_is_gone() && worker.clients_are_gone());
        worker.announce_sleep(true, false);
        let second = start(Edge::take_over, &memory);
        let mut rung = [PollFd::from_borrowed_fd(worker.descriptor(), PollFlags::IN)];
        assert_eq!(poll(&mut rung, Some(&Timespec::default())), Ok(1), "the worker is asleep, and is woken");
        worker.announce_sleep(true, false);
        assert!(is_watched(&worker) && !worker.edge_is_gone());
        kill(second);
        assert!(worker.edge_is_gone() && worker.clients_are_gone());
    }

    #[test]
    fn an_edge_that_cannot_be_watched_counts_as_gone_for_requests_only() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let mut worker = Worker::attach_free(&memory).expect("a place");
        worker.edge.process = Process::Unwatched;
        assert!(worker.edge_is_gone() && !worker.clients_are_gone());
        edge.leave();
        assert!(worker.edge_is_gone() && worker.clients_are_gone());
    }
}
