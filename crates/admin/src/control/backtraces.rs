//! Asks workers for the backtraces of their apps, on behalf of clients.
//!
//! The first process never waits for a worker. It collects backtraces in rounds. A round asks the workers, checks their
//! answers in shared memory from time to time, and answers the clients after [`PATIENCE`] at the latest. For workers that
//! have not answered by then, it reports only the kernel's view of their threads. Clients that arrive during a round share
//! the next round, for two reasons: a worker answers only one question at a time, and an answer must not be older than the
//! request of its client.

use super::clients::Caller;
use super::report::ProcessReport;
use super::requests::harmless;
use super::steering::Steered;
use oribi_control_api as api;
use oribi_control_api::{Answer, Request, WorkerBacktrace, to_json};
use oribi_io::process::asking::ask;
use oribi_stats::backtrace::{
    AskPolicy, BacktraceAnswer, LINES, SystemThread, ThreadBacktrace, is_running, state_of, threads_of,
};
use std::time::{Duration, Instant};

/// The longest duration of a round. Two rounds fit into a tenth of a second, which people perceive as immediate.
const PATIENCE: Duration = Duration::from_millis(40);
/// The interval at which a round checks for answers.
const LOOKS: Duration = Duration::from_millis(2);
/// The longest time for reading the threads of all workers of a round from /proc. Thousands of threads would take long.
const SYSTEM: Duration = Duration::from_millis(20);
/// The most bytes of frames in an answer.
const BYTES: usize = 1 << 20;

/// The clients that wait for backtraces, and the current round.
#[derive(Debug, Default)]
pub(super) struct Backtraces {
    waiting: Vec<BacktraceRequest>,
    round: Option<Round>,
    /// The number that identifies the last question.
    question: u32,
}

/// A client, and the worker of which it wants backtraces, by number or process id. `worker` is `None` for all workers.
#[derive(Clone, Copy, Debug)]
struct BacktraceRequest {
    caller: Caller,
    worker: Option<u32>,
}

#[derive(Debug)]
struct Round {
    question: u32,
    until: Instant,
    wishes: Vec<BacktraceRequest>,
    workers: Vec<Worker>,
}

/// A worker in a round.
#[derive(Debug)]
struct Worker {
    process: ProcessReport,
    parent: Option<u32>,
    stage: AnswerState,
}

#[derive(Debug)]
enum AnswerState {
    /// The worker was not asked, because its app was in a system call at each check.
    Waiting,
    /// The worker was asked.
    Asked,
    /// The worker has answered completely.
    Answered(BacktraceAnswer),
    /// The worker cannot be asked: a word for the reason, and its explanation.
    Not(&'static str, String),
}

impl Backtraces {
    pub(super) fn wish(&mut self, caller: Caller, worker: Option<u32>) {
        self.waiting.push(BacktraceRequest { caller, worker });
    }

    /// Returns the longest time that this process may sleep; `None` without a limit.
    pub(super) fn patience(&self) -> Option<Duration> {
        (self.round.is_some() || !self.waiting.is_empty()).then_some(LOOKS)
    }

    /// Removes clients that have disconnected.
    pub(super) fn retain(&mut self, knows: impl Fn(Caller) -> bool) {
        self.waiting.retain(|wish| knows(wish.caller));
        if let Some(round) = &mut self.round {
            round.wishes.retain(|wish| knows(wish.caller));
        }
    }

    /// Drops the round at the end of this process; returns the clients that still wait.
    pub(super) fn left(&mut self) -> Vec<Caller> {
        let round = self.round.take().map(|round| round.wishes).unwrap_or_default();
        std::mem::take(&mut self.waiting).into_iter().chain(round).map(|wish| wish.caller).collect()
    }

    /// Begins a round if clients wait and none is in progress, and advances it. Returns the answers that are due, each with
    /// its client.
    pub(super) fn go_on(&mut self, server: &impl Steered, now: Instant) -> Vec<(Caller, String)> {
        if self.round.is_none() && !self.waiting.is_empty() {
            self.question = self.question.wrapping_add(1).max(1);
            let wishes = std::mem::take(&mut self.waiting);
            self.round = Some(Round::begin(server, wishes, self.question, now));
        }
        let Some(round) = &mut self.round else { return Vec::new() };
        round.look(server);
        if now < round.until && !round.workers.iter().all(Worker::is_settled) {
            return Vec::new();
        }
        self.round.take().map(|round| round.end(server)).unwrap_or_default()
    }
}

impl BacktraceRequest {
    fn means(&self, process: &ProcessReport) -> bool {
        self.worker.is_none_or(|worker| process.row.pid == worker || process.row.number == worker as usize)
    }
}

impl Round {
    fn begin(server: &impl Steered, wishes: Vec<BacktraceRequest>, question: u32, now: Instant) -> Self {
        let is_meant = |process: &ProcessReport| process.kind == "worker" && wishes.iter().any(|wish| wish.means(process));
        let worker = |process: ProcessReport| {
            let parent = server.parent_process(&process);
            Worker { process, parent, stage: AnswerState::Waiting }
        };
        let workers = server.processes().into_iter().filter(is_meant).map(worker).collect();
        Self { question, until: now + PATIENCE, wishes, workers }
    }

    fn look(&mut self, server: &impl Steered) {
        for worker in &mut self.workers {
            if matches!(worker.stage, AnswerState::Waiting) {
                worker.ask(server, self.question);
            }
            if matches!(worker.stage, AnswerState::Asked) {
                let told = worker.told(server, self.question, 1);
                if told.expected == Some(0) || told.expected.is_some() && worker.told(server, self.question, LINES).is_whole() {
                    worker.stage = AnswerState::Answered(worker.told(server, self.question, LINES));
                }
            }
        }
    }

    fn end(self, server: &impl Steered) -> Vec<(Caller, String)> {
        let requests = server.requests().ok().map(|requests| requests.requests);
        let now = server.processes();
        let until = Instant::now() + SYSTEM;
        let mut room = BYTES;
        let shown: Vec<(&Worker, WorkerBacktrace)> = self
            .workers
            .iter()
            .map(|worker| {
                let row = now.iter().map(|process| &process.row).find(|row| row.pid == worker.process.row.pid);
                let idle = row.is_some_and(|row| row.idle > 0);
                let told = worker.told_at_last(server, self.question);
                (worker, worker.backtrace(&told, requests.as_deref(), idle, until, &mut room))
            })
            .collect();
        let answer = |wish: &BacktraceRequest| {
            let meant: Vec<_> = shown.iter().filter(|(worker, _)| wish.means(&worker.process)).collect();
            let answer = match wish.worker {
                Some(worker) if meant.is_empty() => Answer::failed(format!("there is no worker {worker}")),
                _ => {
                    let workers = meant.into_iter().map(|(_, backtrace)| backtrace.clone()).collect();
                    Answer::Done(api::Backtraces { workers })
                }
            };
            (wish.caller, answer.to_json())
        };
        self.wishes.iter().map(answer).collect()
    }
}

impl Worker {
    const fn is_settled(&self) -> bool {
        matches!(self.stage, AnswerState::Answered(_) | AnswerState::Not(..))
    }

    fn told(&self, server: &impl Steered, question: u32, lines: usize) -> BacktraceAnswer {
        BacktraceAnswer::read(&server.backtraces(&self.process, lines), question)
    }

    fn ask(&mut self, server: &impl Steered, question: u32) {
        let row = &self.process.row;
        let way = AskPolicy::read(&server.backtraces(&self.process, 1));
        let first = state_of(row.pid, row.pid);
        let stage = match (way, first) {
            (_, None) => AnswerState::Not("gone", "the process has ended".to_owned()),
            (_, Some('T' | 't')) => AnswerState::Not("stopped", "the process is stopped by a signal".to_owned()),
            (_, Some('Z' | 'X')) => AnswerState::Not("gone", "the process has ended".to_owned()),
            (AskPolicy::NotYet, _) => AnswerState::Not("starting", "the worker does not serve yet".to_owned()),
            (AskPolicy::Mute, _) => AnswerState::Not("mute", "its language has no backtraces".to_owned()),
            (AskPolicy::WhileRunning, Some(state)) if !is_running(state) => return,
            (AskPolicy::Anytime | AskPolicy::WhileRunning, Some(_)) => {
                let parents: Vec<u32> = self.parent.into_iter().chain([std::process::id()]).collect();
                match ask(row.pid, &parents, question) {
                    Ok(true) => AnswerState::Asked,
                    Ok(false) => AnswerState::Not("mute", "the process does not read questions".to_owned()),
                    Err(error) => AnswerState::Not("unreachable", format!("the process cannot be asked: {error}")),
                }
            }
        };
        self.stage = stage;
    }

    /// Returns the outcome for this worker as a word, and its explanation. `told` are the answers of the worker's threads,
    /// and `idle` says whether the worker waits for a request.
    fn outcome(&self, told: &BacktraceAnswer, idle: bool) -> (&'static str, String) {
        let busy = "it may be in a system call, or in code that cannot be interrupted";
        match &self.stage {
            AnswerState::Not(name, why) => (*name, why.clone()),
            AnswerState::Answered(told) if told.threads.iter().any(|thread| thread.runs) => ("told", String::new()),
            AnswerState::Answered(_) => ("idle", "it runs no app".to_owned()),
            AnswerState::Waiting if idle => ("idle", "it waits for a request".to_owned()),
            AnswerState::Waiting => {
                ("waits", "its only thread is in a system call, which a question would interrupt".to_owned())
            }
            AnswerState::Asked if told.threads.iter().any(|thread| thread.runs) => {
                ("partly", format!("a thread has not answered within {PATIENCE:?}: {busy}"))
            }
            AnswerState::Asked => ("silent", format!("no answer within {PATIENCE:?}: {busy}")),
        }
    }

    /// Returns the answers of the worker's threads so far.
    fn told_at_last(&self, server: &impl Steered, question: u32) -> BacktraceAnswer {
        match &self.stage {
            AnswerState::Answered(told) => told.clone(),
            AnswerState::Asked => self.told(server, question, LINES),
            AnswerState::Waiting | AnswerState::Not(..) => BacktraceAnswer::default(),
        }
    }

    fn backtrace(
        &self,
        told: &BacktraceAnswer,
        requests: Option<&[Request]>,
        idle: bool,
        until: Instant,
        room: &mut usize,
    ) -> WorkerBacktrace {
        let row = &self.process.row;
        let own = requests.map(|requests| {
            let of_it = |request: &&Request| request.pid == Some(row.pid);
            requests.iter().filter(of_it).cloned().collect::<Vec<_>>()
        });
        let idle = idle || own.as_ref().is_some_and(Vec::is_empty);
        let (outcome, note) = self.outcome(told, idle);
        let (seen, more) = if Instant::now() < until { threads_of(row.pid) } else { (Vec::new(), 0) };
        let mut threads = Vec::new();
        for thread in &seen {
            let told = told.threads.iter().find(|told| told.thread == thread.thread && told.runs);
            threads.push(thread_backtrace(thread.thread, Some(thread), told, room));
        }
        for told in told.threads.iter().filter(|told| told.runs && !seen.iter().any(|thread| thread.thread == told.thread)) {
            threads.push(thread_backtrace(told.thread, None, Some(told), room));
        }
        WorkerBacktrace {
            number: row.number,
            pid: row.pid,
            app: self.process.app.clone(),
            generation: self.process.generation,
            state: row.state.into(),
            trace: outcome.into(),
            note,
            requests: own,
            threads,
            more,
        }
    }
}

/// Describes a thread by the kernel's view, `seen`, and the answer of its app, `told`. Frames beyond `room` bytes of JSON are
/// omitted and counted.
fn thread_backtrace(
    thread: u32,
    seen: Option<&SystemThread>,
    told: Option<&ThreadBacktrace>,
    room: &mut usize,
) -> api::ThreadBacktrace {
    let escaped = |text: &String| harmless(text.as_bytes());
    let mut backtrace = api::ThreadBacktrace { thread, ..api::ThreadBacktrace::default() };
    if let Some(SystemThread { name, state, call, place, .. }) = seen {
        backtrace.name = Some(escaped(name));
        backtrace.state = Some(state.clone());
        backtrace.call = call.as_ref().map(escaped);
        backtrace.place = place.as_ref().map(escaped);
    }
    let Some(told) = told else { return backtrace };
    backtrace.request = harmless(&told.about);
    let (mut frames, mut left_out) = (Vec::new(), told.more as usize);
    for frame in &told.frames {
        let frame = harmless(frame);
        match room.checked_sub(to_json(&frame).len()) {
            Some(left) => {
                *room = left;
                frames.push(frame);
            }
            None => left_out += 1,
        }
    }
    (backtrace.frames, backtrace.left_out) = (Some(frames), Some(left_out));
    backtrace
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> SystemThread {
        let (call, place) = (Some("read".to_owned()), Some("do\u{1b}".to_owned()));
        SystemThread { thread: 5, name: "ruby\"\u{9b}".to_owned(), state: "sleeping".to_owned(), call, place }
    }

    #[test]
    fn a_thread_has_these_bytes() {
        let frames = vec![b"a.rb:3 in \x1b[2J\"\\\xff".to_vec(), b"b".to_vec(), b"too long".to_vec(), b"c".to_vec()];
        let told = ThreadBacktrace { thread: 5, runs: true, about: b"GET /\x1b\n".to_vec(), frames, more: 2 };
        let first = "\"a.rb:3 in \\\\x1b[2J\\\\\\\"\\\\\\\\\\\\xff\"";
        let mut room = first.len() + 3 + 3 + 1;
        assert_eq!(
            to_json(&thread_backtrace(5, Some(&seen()), Some(&told), &mut room)),
            format!(
                "{{\"thread\":5,\"name\":\"ruby\\\\\\\"\\\\xc2\\\\x9b\",\"state\":\"sleeping\",\
                 \"call\":\"read\",\"place\":\"do\\\\x1b\",\
                 \"request\":\"GET /\\\\x1b\\\\n\",\"frames\":[{first},\"b\",\"c\"],\"left_out\":3}}"
            )
        );
        assert_eq!(room, 1, "frames count with their quotes and escapes");
    }

    #[test]
    fn what_is_unknown_of_a_thread_is_left_out() {
        let bare = SystemThread { name: String::new(), call: None, place: None, ..seen() };
        let room = &mut { BYTES };
        assert_eq!(
            to_json(&thread_backtrace(5, Some(&bare), None, room)),
            "{\"thread\":5,\"name\":\"\",\"state\":\"sleeping\"}"
        );
        let told = ThreadBacktrace { thread: 6, runs: true, ..ThreadBacktrace::default() };
        assert_eq!(to_json(&thread_backtrace(6, None, Some(&told), room)), "{\"thread\":6,\"frames\":[],\"left_out\":0}");
    }
}
