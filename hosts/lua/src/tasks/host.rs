//! The context of a lane whose scripts wait without holding it.

use super::kept_exchange::{KeptExchange, LaneOutlet};
use super::running::Tasks;
use crate::host::refuse;
use crate::script_path::PathCache;
use crate::shared::Shared;
use crate::vm::Slot;
use oribi_host::{After, Host, Interruption, Outlet, Reply, Request};
use oribi_message::KnownVariable;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The context of a lane.
pub(crate) struct WaitingHost {
    tasks: Tasks,
    /// The outlet of the lane, and its address, by which the same lane is known when it begins again.
    lane: Rc<LaneOutlet>,
    address: usize,
    paths: PathCache,
    shared: Arc<Shared>,
    slot: Arc<Slot>,
}

// SAFETY: a context changes threads only while it has no task, or between `leave` and `enter`; its coroutines and exchanges
// are used by the thread that has entered it alone.
unsafe impl Send for WaitingHost {}

impl WaitingHost {
    /// # Errors
    /// The operating system refused a call.
    pub(crate) fn new(shared: Arc<Shared>) -> io::Result<Self> {
        let slot = shared.slot();
        let tasks = Tasks::new(Arc::clone(&shared), Arc::clone(&slot))?;
        Ok(Self { tasks, lane: Rc::default(), address: 0, paths: PathCache::default(), shared, slot })
    }
}

impl Host for WaitingHost {
    fn enter(&mut self) {
        self.slot.enter();
    }

    fn begin(&mut self, outlet: &dyn Outlet) {
        let address = ptr::from_ref(outlet).addr();
        // Exchanges of another outlet, such as that of the boot request, are over.
        if self.address != address {
            self.lane = Rc::default();
            self.address = address;
        }
        self.lane.set(outlet);
        self.tasks.begin();
    }

    fn has_loop(&self) -> bool {
        true
    }

    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
        let named = request.gateway.as_ref().and_then(|gateway| gateway.get(KnownVariable::ScriptFilename));
        let found = match self.shared.scripts.find(&mut self.paths, request.head.path(), named) {
            Ok(found) => found,
            Err(missing) => {
                refuse(request, reply, missing);
                return After::default();
            }
        };
        match KeptExchange::new(request, found, &self.shared, &self.slot, &self.lane, reply) {
            Ok(exchange) => self.tasks.answer(exchange),
            Err(error) => log::error!("{}: the request cannot be kept: {error}", found.script.display()),
        }
        After::default()
    }

    fn attend(&mut self, _: &dyn Outlet) -> After {
        self.tasks.note_clients();
        After::default()
    }

    fn run_loop(&mut self, descriptor: BorrowedFd<'_>, timeout: Option<Duration>) -> After {
        if let Err(error) = self.tasks.come_round(Some(descriptor), timeout) {
            log::error!("cannot wait for the events of scripts: {error}");
        }
        After::default()
    }

    fn interruption(&self) -> Option<Arc<dyn Interruption>> {
        Some(Arc::clone(&self.slot) as Arc<dyn Interruption>)
    }

    fn leave(&mut self) {
        self.lane.unset();
        self.slot.leave();
    }
}

impl Drop for WaitingHost {
    fn drop(&mut self) {
        // After a panic, no state is in order.
        if std::thread::panicking() {
            return;
        }
        self.slot.enter();
        self.tasks.end();
        self.slot.leave();
    }
}
