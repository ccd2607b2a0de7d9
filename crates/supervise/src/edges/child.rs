//! The process of an edge, from its fork to its end. It never runs code of the app or of its language.

use super::super::privileges::Privileges;
use super::super::signals;
use super::CurrentPlan;
use oribi_config::{Settings, Timeouts};
use oribi_edge::parent_link::{EdgeApp, EdgeSetup, ParentLink};
use oribi_edge::plan::PlanReader;
use oribi_edge::routes::{LimitMemory, Routes};
use oribi_edge::sandbox::Sandbox;
use oribi_io::process::{Effect, Heirs, LastResort, Watch, exit_now, watch};
use oribi_ipc::handover::Receiver;
use oribi_ipc::posts::PostBoxes;
use oribi_listen::{Listener, Shard, take_listen_sockets};
use oribi_stats::scoreboard::{WorkerCommand, WorkerSlot};
use oribi_worker::lane::LaneSetup;
use rustix::process::{Pid, Signal};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// The parameters of a new edge.
pub(in super::super) struct ForkedEdge {
    /// The index of the edge.
    pub(super) number: usize,
    pub(super) slot: WorkerSlot,
    /// Whether an earlier edge has used its memory.
    pub(super) takes_over: bool,
    /// The pipe that makes the edge read its command.
    pub(super) wake: OwnedFd,
    pub(super) waker: OwnedFd,
    /// The edge's end of the socket to its parent process.
    pub(super) parent_link: ParentLink,
    /// The source of connections that the previous server's edges hand over, if there is a previous server.
    pub(super) handed: Option<Receiver>,
    pub(super) parent: Pid,
    pub(super) heirs: Heirs,
}

/// Returns `edge`, or `edge 2` where there are several: `number` is the index of the edge, and `of` the number of edges.
pub(super) fn name(number: usize, of: usize) -> String {
    if of > 1 { format!("edge {}", number + 1) } else { "edge".to_owned() }
}

/// The signals that are meant for the parent process, which stops the edges itself. An edge ignores them.
const OF_PARENT: [Signal; 7] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1, Signal::USR2, Signal::TTIN, Signal::TTOU];

/// The counter of ignored signals, which is never read.
static DISREGARDED: AtomicU32 = AtomicU32::new(0);

/// The plan of one edge: its apps, the routes, the memory of limits, the reader of later plans, and the boxes of all edges.
type PlanOfEdge<'s> = (&'s [EdgeApp<'s>], Option<&'s Arc<Routes>>, &'s LimitMemory, Option<&'s dyn PlanReader>, &'s PostBoxes);

impl ForkedEdge {
    /// Runs the edge, and ends the process. `set_title` sets its title.
    pub(in super::super) fn run_and_exit(
        self,
        settings: &Settings,
        mut listeners: Vec<Listener>,
        plan: CurrentPlan<'_>,
        privileges: &Privileges,
        parent_signals: &mut signals::Signals,
        set_title: impl FnOnce(&str),
    ) -> ! {
        let name = name(self.number, settings.edges_wanted());
        let CurrentPlan { apps, routes, limit_memory, posts, plan_reader } = plan;
        let memory: Vec<_> = apps.into_iter().map(|mut app| (app.settings, app.pools.swap_remove(self.number))).collect();
        let apps: Vec<_> = memory.iter().map(|(settings, memory)| EdgeApp { settings, memory }).collect();
        set_title(&name);
        let plan = (&apps[..], routes.as_ref(), &limit_memory, plan_reader, &*posts);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.serve(settings, &mut listeners, plan, privileges, parent_signals)));
        let status = match outcome {
            Ok(Ok(())) => 0,
            Ok(Err(message)) => {
                log::error!("{name}: {message}");
                1
            }
            Err(_) => {
                log::error!("{name} has failed because of a fault in Oribi; please report this with the message of the panic");
                1
            }
        };
        // The exit handlers of the app and of its language must not run here.
        exit_now(status)
    }

    fn serve(
        self,
        settings: &Settings,
        listeners: &mut [Listener],
        (apps, routes, limit_memory, plan_reader, posts): PlanOfEdge<'_>,
        privileges: &Privileges,
        parent_signals: &mut signals::Signals,
    ) -> Result<(), String> {
        let Self { number, slot, takes_over, wake, waker, parent_link, handed, parent, heirs } = self;
        let _watches = take_over_signals(settings, slot, &waker, parent_signals, heirs)
            .map_err(|error| format!("cannot watch signals: {error}"))?;
        let sandbox = Sandbox::of_edge(settings)?;
        privileges.drop_in_edge()?;
        follow(parent)?;
        // The last edge of a stop has the sockets of all edges.
        let shard = match slot.command() {
            WorkerCommand::Serve => Shard { number, of: settings.edges_wanted() },
            _ => Shard::ONLY,
        };
        let listen_sockets = RefCell::new(take_listen_sockets(listeners, shard));
        let lane = LaneSetup {
            settings,
            listeners,
            listen_sockets: &[],
            slot: &slot,
            running: &[],
            wake: wake.as_fd(),
            must_log: !takes_over,
        };
        oribi_edge::run(&EdgeSetup {
            lane,
            listen_sockets: &listen_sockets,
            shard,
            apps,
            routes,
            limit_memory,
            plan_reader,
            number,
            takes_over,
            parent_link: &parent_link,
            handed: handed.as_ref(),
            posts,
            sandbox: sandbox.as_ref(),
        })
        .map_err(|error| oribi_engine::shortage::explain(&error))
    }
}

/// Makes the edge stop when its parent dies: it then answers the requests that have arrived, and ends.
fn follow(parent: Pid) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::QUIT))
        .map_err(|error| format!("cannot ask for a signal when the parent dies: {error}"))?;
    if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err("the parent has died".to_owned()) }
}

/// Replaces the parent's signal handlers by those of an edge.
fn take_over_signals(
    settings: &Settings,
    slot: WorkerSlot,
    waker: &OwnedFd,
    parent_signals: &mut signals::Signals,
    heirs: Heirs,
) -> io::Result<Vec<Watch>> {
    // The parent may be dead, so this timer ends an edge whose requests are never answered.
    let graceful = settings.timeouts.graceful;
    let last_resort = (graceful < Timeouts::NEVER).then(|| LastResort::new(graceful)).transpose()?;
    let effect = Effect::Exchange { from: WorkerCommand::Serve as u32, to: WorkerCommand::Drain as u32 };
    let mut watches = vec![watch(Signal::QUIT, slot.command, effect, vec![waker.try_clone()?], last_resort)?];
    for signal in OF_PARENT {
        watches.push(watch(signal, &DISREGARDED, Effect::Nothing, Vec::new(), None)?);
    }
    watches.extend(signals::survive_failing_writes()?);
    parent_signals.release();
    drop(heirs);
    Ok(watches)
}
