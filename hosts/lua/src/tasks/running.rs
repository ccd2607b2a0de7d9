//! Runs the coroutines of a lane: resumes those whose wait is over, and notes why each of them waits next.

use super::kept_exchange::KeptExchange;
use super::kept_states::KeptStates;
use super::out_of_memory::OutOfMemory;
use super::poller::{Poller, TaskId};
use crate::error_page::Fault;
use crate::exchange::Progress;
use crate::host::{log_failure, refuse_for, send_failure};
use crate::pool::Refusal;
use crate::shared::Shared;
use crate::state::{Coroutine, Step};
use crate::state_context::{Ending, Failure, Turn};
use crate::vm::Slot;
use crate::waits::blocking::duration;
use crate::waits::{Direction, Outcome, Wish};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time that a request waits for a state while all of them are busy.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two looks for a state that another lane may have given back.
const LOOK: Duration = Duration::from_millis(20);
/// The time after which the lane looks for commands and requests, although further tasks can run.
const TURN: Duration = Duration::from_millis(10);
/// The shortest time between two looks for clients that have gone: each looks at all tasks, of which there may be thousands.
const GONE: Duration = Duration::from_millis(10);

/// The reason why a task does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// It is in the queue of those that run next.
    Queued,
    /// Only for time.
    Time,
    Descriptor(RawFd, Direction),
    /// For another task.
    Parked,
    /// For its client.
    Room,
}

/// A coroutine with its request.
struct Task {
    coroutine: Coroutine,
    /// The index of its state.
    state: usize,
    turn: Turn,
    exchange: Option<Rc<KeptExchange>>,
    /// Whether it answers its exchange; a task that a script has spawned only reads the request.
    answers: bool,
    waiting: Waiting,
    /// The number of its wait: a timer of an earlier wait has no effect.
    wait: u64,
    /// Whether its wait has a time limit.
    limited: bool,
    /// The reason why it must end; taken when the coroutine has been told.
    ending: Option<Outcome>,
    /// Whether the coroutine has been told to end: at its next wait it is closed.
    told: bool,
}

/// A request that waits for a state of its script.
struct Pending {
    exchange: Rc<KeptExchange>,
    script: Arc<Path>,
    until: Instant,
}

/// The tasks of a lane.
pub(super) struct Tasks {
    tasks: HashMap<TaskId, Task>,
    states: KeptStates,
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    poller: Poller,
    queue: VecDeque<(TaskId, Outcome)>,
    timers: BinaryHeap<Reverse<(Instant, TaskId, u64)>>,
    pending: VecDeque<Pending>,
    /// The tasks that wait for others, each after the index of its state.
    parked: BTreeSet<(usize, TaskId)>,
    /// The last number of a task.
    issued: TaskId,
    /// The time of the last look for clients that have gone, and whether another one is wanted.
    looked: Instant,
    looks: bool,
    /// Whether the lane has ended.
    ends: bool,
    out_of_memory: OutOfMemory,
}

impl Tasks {
    /// # Errors
    /// The operating system refused a call.
    pub(super) fn new(shared: Arc<Shared>, slot: Arc<Slot>) -> io::Result<Self> {
        Ok(Self {
            tasks: HashMap::new(),
            states: KeptStates::default(),
            shared,
            slot,
            poller: Poller::new()?,
            queue: VecDeque::new(),
            timers: BinaryHeap::new(),
            pending: VecDeque::new(),
            parked: BTreeSet::new(),
            issued: 0,
            looked: Instant::now(),
            looks: false,
            ends: false,
            out_of_memory: OutOfMemory::default(),
        })
    }

    /// Prepares for a lane, which may have another descriptor than the one before.
    pub(super) fn begin(&mut self) {
        self.poller.forget_lane();
    }

    /// Answers a request as far as its script does not wait.
    pub(super) fn answer(&mut self, exchange: KeptExchange) {
        let script = Arc::clone(&exchange.exchange().found.script);
        let pending = Pending { exchange: Rc::new(exchange), script, until: Instant::now() + PATIENCE };
        if let Some(pending) = self.try_answer(pending) {
            self.pending.push_back(pending);
        }
    }

    /// Answers a request if there is a state for it; otherwise returns it.
    fn try_answer(&mut self, pending: Pending) -> Option<Pending> {
        // A lane with coroutines must not block: one of them may have the state that is missing.
        let patience = if self.states.is_empty() { PATIENCE } else { Duration::ZERO };
        let Pending { exchange, script, until } = &pending;
        let state = match self.states.take(&self.shared.pool, script, patience) {
            Ok(state) => state,
            Err(Refusal::Busy) if !self.states.is_empty() && Instant::now() < *until => return Some(pending),
            Err(refusal) => {
                exchange.answer_by(|request, reply| refuse_for(&self.shared, request, reply, script, &refusal));
                return None;
            }
        };
        let begun = self.states.get(state).map(|state| (state.answering_coroutine(), state.new_turn()));
        match begun {
            Some((Ok(coroutine), turn)) => {
                let exchange = Some(Rc::clone(exchange));
                let id = self.add(Task { answers: true, ..Task::new(coroutine, state, turn, exchange) });
                self.run(id, Outcome::Start(0));
            }
            Some((Err(failure), _)) => {
                self.fail(exchange, &failure);
                self.states.spoil(state);
                self.states.end_coroutine(&self.shared.pool, state);
            }
            None => {}
        }
        None
    }

    fn add(&mut self, task: Task) -> TaskId {
        self.issued += 1;
        self.tasks.insert(self.issued, task);
        self.issued
    }

    /// Waits until `lane` is readable, `timeout` is over or a task can run, and runs the tasks that can: as many as begin within a
    /// [`TURN`], and the others next time.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(super) fn come_round(&mut self, lane: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> io::Result<()> {
        let due = if self.queue.is_empty() { self.next_timer() } else { Some(Duration::ZERO) };
        let soonest = |due: Option<Duration>, other| Some(due.map_or(other, |due| due.min(other)));
        let due = if self.pending.is_empty() { due } else { soonest(due, LOOK) };
        let due = if self.looks { soonest(due, GONE.saturating_sub(self.looked.elapsed())) } else { due };
        let timeout = match (timeout, due) {
            (Some(timeout), Some(due)) => Some(timeout.min(due)),
            (timeout, due) => timeout.or(due),
        };
        if timeout != Some(Duration::ZERO) || self.poller.is_watching() {
            let Self { poller, tasks, queue, .. } = self;
            poller.wait(lane, timeout, |id| {
                if let Some(task) = tasks.get_mut(&id) {
                    task.waiting = Waiting::Queued;
                    queue.push_back((id, Outcome::Happened(true)));
                }
            })?;
        }
        self.queue_due();
        if self.looks && self.looked.elapsed() >= GONE {
            self.note_clients();
        }
        // Tasks that become ready meanwhile run next time, after the lane has looked for requests.
        let begun = Instant::now();
        for _ in 0..self.queue.len() {
            if let Some((id, outcome)) = self.queue.pop_front() {
                self.run(id, outcome);
            }
            if begun.elapsed() >= TURN {
                return Ok(());
            }
        }
        for _ in 0..self.pending.len() {
            if let Some(pending) = self.pending.pop_front()
                && let Some(pending) = self.try_answer(pending)
            {
                self.pending.push_front(pending);
                break;
            }
            if begun.elapsed() >= TURN {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The time until the next timer. Removes those whose tasks no longer wait for them.
    fn next_timer(&mut self) -> Option<Duration> {
        while let Some(Reverse((time, id, wait))) = self.timers.peek() {
            if self.tasks.get(id).is_some_and(|task| task.wait == *wait && task.waiting != Waiting::Queued) {
                return Some(time.saturating_duration_since(Instant::now()));
            }
            self.timers.pop();
        }
        None
    }

    fn queue_due(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(&Reverse((time, id, wait))) = self.timers.peek()
            && time <= now
        {
            self.timers.pop();
            if self.tasks.get(&id).is_some_and(|task| task.wait == wait) {
                self.wake(id, Outcome::Happened(false));
            }
        }
    }

    /// Ends the wait of a task, if it waits.
    fn wake(&mut self, id: TaskId, outcome: Outcome) {
        let Some(task) = self.tasks.get_mut(&id).filter(|task| task.waiting != Waiting::Queued) else { return };
        if let Waiting::Descriptor(descriptor, direction) = task.waiting {
            self.poller.remove(descriptor, direction);
        }
        self.parked.remove(&(task.state, id));
        task.waiting = Waiting::Queued;
        self.queue.push_back((id, outcome));
    }

    /// Continues answers whose clients have taken content, and ends those whose clients have gone; the latter at intervals.
    pub(super) fn note_clients(&mut self) {
        self.looks = self.looked.elapsed() < GONE;
        if !self.looks {
            self.looked = Instant::now();
        }
        let mut changed = Vec::new();
        let wanted = |task: &Task| task.waiting == Waiting::Room || !self.looks;
        for (&id, task) in self.tasks.iter().filter(|(_, task)| wanted(task) && task.answers && !task.is_ending()) {
            match task.exchange.as_ref().map(|exchange| exchange.has_room()) {
                Some(None) => changed.push((id, Outcome::CLIENT_GONE)),
                Some(Some(true)) if task.waiting == Waiting::Room => changed.push((id, Outcome::Happened(true))),
                _ => {}
            }
        }
        for (id, outcome) in changed {
            self.order(id, outcome);
        }
        self.pending.retain(|pending| pending.exchange.has_room().is_some());
    }

    /// Wakes a task; if `outcome` is the end of its waits, it gets that even if it is in the queue already.
    fn order(&mut self, id: TaskId, outcome: Outcome) {
        if let (Outcome::Ended(_), Some(task)) = (outcome, self.tasks.get_mut(&id)) {
            task.ending = Some(outcome);
        }
        self.wake(id, outcome);
    }

    /// Runs a task until it waits or ends.
    fn run(&mut self, id: TaskId, mut outcome: Outcome) {
        let Some(mut task) = self.tasks.remove(&id) else { return };
        loop {
            if let Some(ending) = task.ending.take() {
                task.told = true;
                if matches!(outcome, Outcome::Start(_)) {
                    return self.close(task);
                }
                outcome = ending;
            }
            self.slot.start_afresh();
            if let Some(time) = task.exchange.as_ref().and_then(|exchange| exchange.deadline()) {
                self.slot.allow(time);
            }
            let Some(state) = self.states.get(task.state) else { return };
            let exchange = task.exchange.as_ref().map(|exchange| exchange.exchange());
            match state.resume(&task.coroutine, outcome, &mut task.turn, exchange, &self.slot) {
                Step::Waits(wish) if task.told && !may_wait(&task, wish, self.ends) => return self.close(task),
                Step::Waits(wish) => match self.wait(id, &mut task, wish) {
                    Some(next) => outcome = next,
                    None => {
                        self.tasks.insert(id, task);
                        return;
                    }
                },
                Step::Ended => {
                    state.reuse(task.coroutine);
                    self.finish(task.state, task.exchange.filter(|_| task.answers));
                    return;
                }
                Step::Badly(ending) => return self.end_badly(task, ending),
            }
        }
    }

    /// Makes a task wait. Returns the result of a wait that is over at once.
    fn wait(&mut self, id: TaskId, task: &mut Task, wish: Wish) -> Option<Outcome> {
        task.wait += 1;
        let (waiting, seconds) = match wish {
            Wish::Myself => return Some(Outcome::Number(id)),
            Wish::IsStopping => return Some(Outcome::Happened(self.ends)),
            Wish::Wake(other) => {
                let waiting = self.tasks.get(&other).map(|task| task.waiting);
                if waiting == Some(Waiting::Parked) {
                    self.wake(other, Outcome::Happened(true));
                }
                return Some(Outcome::Happened(waiting.is_some()));
            }
            Wish::Forget(descriptor) => {
                for waiter in self.poller.waiters(descriptor).into_iter().flatten() {
                    self.wake(waiter, Outcome::Happened(true));
                }
                return Some(Outcome::Happened(true));
            }
            Wish::Spawn(count) => return Some(self.spawn(task, count)),
            Wish::Sleep(seconds) => (Waiting::Time, Some(seconds)),
            Wish::Park => {
                self.parked.insert((task.state, id));
                (Waiting::Parked, None)
            }
            Wish::Room => match task.exchange.as_ref().map(|exchange| exchange.has_room()) {
                Some(Some(false)) => (Waiting::Room, None),
                Some(None) => return Some(Outcome::CLIENT_GONE),
                _ => return Some(Outcome::Happened(true)),
            },
            Wish::Descriptor(descriptor, direction, seconds) => match self.poller.add(descriptor, direction, id) {
                Ok(true) => (Waiting::Descriptor(descriptor, direction), seconds),
                // The call that follows has the reason.
                Ok(false) | Err(_) => return Some(Outcome::Happened(true)),
            },
        };
        task.waiting = waiting;
        task.limited = seconds.is_some() && waiting != Waiting::Time;
        if let Some(seconds) = seconds {
            let now = Instant::now();
            let time = now.checked_add(duration(seconds)).unwrap_or(now);
            self.timers.push(Reverse((time, id, task.wait)));
        }
        None
    }

    fn spawn(&mut self, parent: &Task, count: i32) -> Outcome {
        let Some(state) = self.states.get(parent.state) else { return Outcome::NO_MEMORY };
        match state.spawned_coroutine(&parent.coroutine, count) {
            Ok(coroutine) => {
                let turn = parent.turn.for_task();
                self.states.add_coroutine(parent.state);
                let id = self.add(Task::new(coroutine, parent.state, turn, parent.exchange.clone()));
                self.queue.push_back((id, Outcome::Start(count - 1)));
                Outcome::Number(id)
            }
            Err(failure) => {
                self.out_of_memory.log(state.script(), &failure);
                Outcome::NO_MEMORY
            }
        }
    }

    /// Ends a task that does not run.
    fn close(&mut self, mut task: Task) {
        if let Some(state) = self.states.get(task.state) {
            let exchange = task.exchange.as_ref().map(|exchange| exchange.exchange());
            state.close(&task.coroutine, &mut task.turn, exchange, &self.slot);
        }
        if !task.answers {
            self.wake_parked(task.state);
        }
        self.finish(task.state, task.exchange.filter(|_| task.answers));
    }

    /// Lets the tasks of a state that wait for others see which of these have ended.
    fn wake_parked(&mut self, state: usize) {
        let ids: Vec<TaskId> = self.parked.range((state, 0)..=(state, TaskId::MAX)).map(|&(_, id)| id).collect();
        ids.into_iter().for_each(|id| self.wake(id, Outcome::Happened(false)));
    }

    /// Ends a task whose script has failed or was stopped.
    #[cold]
    fn end_badly(&mut self, mut task: Task, ending: Ending) {
        let exchange = task.exchange.clone().filter(|_| task.answers);
        let failure = match ending {
            Ending::Returned | Ending::Late => None,
            Ending::Exited => match &exchange {
                Some(exchange) => {
                    if let Some(state) = self.states.get(task.state) {
                        state.ends_answer(&mut task.turn, exchange.exchange());
                    }
                    let answered = exchange.exchange().progress() == Progress::Done;
                    let words = "the script has called os.exit before it had answered";
                    (!answered).then(|| Failure::new(Fault::Runtime, words))
                }
                None => None,
            },
            Ending::Failed(failure) => {
                if !matches!(failure.fault, Fault::Time | Fault::Memory) {
                    // The state can go on.
                    self.report(&task, exchange.as_deref(), &failure);
                    return self.close(task);
                }
                Some(failure)
            }
        };
        self.states.spoil(task.state);
        if let Some(failure) = failure {
            self.report(&task, exchange.as_deref(), &failure);
        }
        self.close(task);
    }

    /// Logs a failure, unless the task was told to end, and sends its page to the client.
    fn report(&mut self, task: &Task, exchange: Option<&KeptExchange>, failure: &Failure) {
        match exchange {
            _ if task.told => {}
            Some(exchange) => self.fail(exchange, failure),
            None => self.log(task.state, failure),
        }
    }

    fn fail(&self, exchange: &KeptExchange, failure: &Failure) {
        let exchange = exchange.exchange();
        log_failure(&exchange.found.script, failure);
        exchange.close_as_failed();
        // After the answer has begun, a page would look like a part of it: then the connection is cut.
        if exchange.progress() == Progress::Nothing {
            let show = self.shared.settings.show_errors;
            send_failure(exchange.request, failure, show, |head, page| exchange.respond(head, &[page]));
        }
    }

    fn log(&mut self, state: usize, failure: &Failure) {
        let Some(state) = self.states.get(state) else { return };
        if failure.fault == Fault::Memory {
            self.out_of_memory.log(state.script(), failure);
        } else {
            log_failure(state.script(), failure);
        }
    }

    fn finish(&mut self, state: usize, exchange: Option<Rc<KeptExchange>>) {
        if let Some(exchange) = exchange {
            exchange.end();
        }
        self.states.end_coroutine(&self.shared.pool, state);
    }

    /// Ends all tasks, because the lane ends and has given up its exchanges. A task that waits for a descriptor with a time
    /// limit is in the middle of something, and goes on until it sleeps or waits without a limit; the supervisor limits the
    /// time for that.
    pub(super) fn end(&mut self) {
        self.ends = true;
        self.pending.drain(..).for_each(|pending| pending.exchange.forget());
        for exchange in self.tasks.values().filter_map(|task| task.exchange.as_ref()) {
            exchange.forget();
        }
        while !self.tasks.is_empty() {
            let ended = |task: &Task| {
                let goes_on =
                    matches!(task.waiting, Waiting::Descriptor(..)) && task.limited || task.waiting == Waiting::Queued;
                (task.answers || !goes_on) && !task.is_ending()
            };
            let ids: Vec<TaskId> = self.tasks.iter().filter(|(_, task)| ended(task)).map(|(&id, _)| id).collect();
            ids.into_iter().for_each(|id| self.order(id, Outcome::WORKER_ENDS));
            if let Err(error) = self.come_round(None, None) {
                log::error!("tasks of scripts are cut off: {error}");
                return;
            }
        }
    }
}

/// Whether a task that has been told to end may wait: at the end of the worker, it may finish its work with other servers.
const fn may_wait(task: &Task, wish: Wish, worker_ends: bool) -> bool {
    wish.is_immediate() || worker_ends && !task.answers && matches!(wish, Wish::Descriptor(_, _, Some(_)))
}

impl Task {
    const fn new(coroutine: Coroutine, state: usize, turn: Turn, exchange: Option<Rc<KeptExchange>>) -> Self {
        Self {
            coroutine,
            state,
            turn,
            exchange,
            answers: false,
            waiting: Waiting::Queued,
            wait: 0,
            limited: false,
            ending: None,
            told: false,
        }
    }

    /// Whether it must end.
    const fn is_ending(&self) -> bool {
        self.ending.is_some() || self.told
    }
}
