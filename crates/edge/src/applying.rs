//! Changes the routes and the apps of a running edge, between two requests.
//!
//! The parent process sends the memory of new apps, which become places without requests, then a plan. The edge compiles the plan
//! and reports whether it can serve by it. Only when all edges can, the parent commits the plan, and each edge swaps its routes
//! and settings. Connections do not notice. Requests that have arrived keep the app, the filters and the counts of before.
//! The memory of an app that disappears stays as a place, for another app.

use super::EdgeLoop;
use crate::app::AppPool;
use crate::parent_link::{POOL_WORDS, Reason};
use crate::plan::{PlanFile, PlanReader, unpack};
use crate::routes::router::Router;
use crate::routes::{LimitMemory, Routes};
use oribi_config::Settings;
use oribi_io::Backend;
use oribi_io::process::words_of_file;
use oribi_listen::{ReceivedListeners, Shard};
use oribi_pool::{Memory, Shape};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

/// The state of changes.
#[derive(Debug)]
pub(super) struct Applying<'a> {
    reader: Option<&'a dyn PlanReader>,
    /// The number of this edge, and its part of the sockets of each listener.
    edge: usize,
    pub(super) shard: Shard,
    /// The change of listeners that belongs to the next plan.
    pub(super) listeners: Option<Vec<OwnedFd>>,
    /// The memory of the limits of this and all earlier plans.
    limits: Option<LimitMemory>,
    /// The memory for the limits of the next plan that have none yet.
    room: Option<OwnedFd>,
    /// The descriptors of the memory of the next app that have arrived.
    pool: Vec<OwnedFd>,
    next: Option<NextPlan>,
}

/// A plan that can be committed.
#[derive(Debug)]
struct NextPlan {
    number: u32,
    router: Option<Router>,
    limits: LimitMemory,
    apps: Vec<Rc<Settings>>,
    listeners: Option<ReceivedListeners>,
}

impl<'a> Applying<'a> {
    /// Creates the value for an edge that is never changed.
    pub(super) const fn never() -> Self {
        let shard = Shard::ONLY;
        Self { reader: None, edge: 0, shard, listeners: None, limits: None, room: None, pool: Vec::new(), next: None }
    }

    pub(super) fn by(reader: Option<&'a dyn PlanReader>, (edge, shard): (usize, Shard), limits: &LimitMemory) -> Self {
        Self { reader, edge, shard, limits: Some(limits.clone()), ..Self::never() }
    }
}

impl<B: Backend> EdgeLoop<'_, '_, B> {
    /// Keeps the memory for the limits of the next plan.
    pub(super) fn keep_limit_memory(&mut self, memory: OwnedFd) {
        self.applying.room = Some(memory);
    }

    /// Adds descriptors of the memory of one more app; with the last one, adds a place for the app. No request leads there before
    /// a plan does. If that fails, no later plan with this app can be prepared.
    pub(super) fn add_place(&mut self, numbers: [u32; POOL_WORDS], descriptors: Vec<OwnedFd>) {
        let [app, slots, request_bytes, workers, areas, area_bytes, total] = numbers;
        self.applying.pool.extend(descriptors);
        if self.applying.pool.len() < total as usize {
            return;
        }
        let (shape, pool) =
            (Shape { slots, request_bytes, workers, areas, area_bytes }, std::mem::take(&mut self.applying.pool));
        let added = if app as usize == self.apps.len() {
            self.place(shape, pool)
        } else {
            Err(io::Error::other(format!("it is for place {app}, and there are {}", self.apps.len())))
        };
        if let Err(error) = added {
            log::error!("cannot use the memory of another app: {error}");
        }
    }

    fn place(&mut self, shape: Shape, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let pool = oribi_pool::Edge::new(&Memory::adopt_for_edge(shape, descriptors)?)?;
        let settings = Rc::new(self.settings.clone());
        let mut app = AppPool::new(self.lane, settings, (self.listeners, self.slot), pool, &self.live)?;
        app.parent_link = self.parent_link;
        app.index = u32::try_from(self.apps.len()).unwrap_or(u32::MAX);
        app.use_cache(self.store.as_ref().map(|(_, store)| store), self.apps.len());
        self.apps.push(app);
        Ok(())
    }

    /// Prepares a plan, and reports whether this edge can serve by it.
    pub(super) fn prepare_plan(&mut self, file: OwnedFd) {
        let (room, listeners) = (self.applying.room.take(), self.applying.listeners.take());
        let (number, plan) = match PlanFile::read(file) {
            Ok(read) => read,
            Err(error) => return log::error!("cannot read the plan from the master: {error}"),
        };
        let read = self.read_plan(number, &plan, room.as_ref()).and_then(|next| {
            let listeners = listeners.map(|descriptors| self.read_listeners(descriptors)).transpose()?;
            Ok(NextPlan { listeners, ..next })
        });
        let (next, reason) = match read {
            Ok(next) => (Some(next), Reason::Prepared),
            Err(why) => {
                log::error!("this edge cannot change its routes or addresses: {why}");
                (None, Reason::Refused)
            }
        };
        self.applying.next = next;
        self.parent_link.into_iter().for_each(|link| _ = link.report(number, reason));
    }

    fn read_plan(&self, number: u32, plan: &[u8], room: Option<&OwnedFd>) -> Result<NextPlan, String> {
        let Applying { reader: Some(reader), edge, limits: Some(limits), .. } = &self.applying else {
            return Err("it has no file".to_owned());
        };
        let parts = unpack(plan).unwrap_or_default();
        let [plan, users] = parts[..] else { return Err("the plan from the master is not whole".to_owned()) };
        let read = reader.read(plan)?;
        if read.routes.as_ref().is_some_and(|routes| !routes.take_users(users)) {
            return Err("the users of the plan from the master cannot be understood".to_owned());
        }
        if read.apps.len() > self.apps.len() {
            return Err(format!("the memory of {} apps is missing", read.apps.len() - self.apps.len()));
        }
        let mut words = |count| room.map_or(Err(io::ErrorKind::InvalidData.into()), |room| words_of_file(room, count));
        let (routes, limits) = match read.routes {
            None => (None, limits.clone()),
            Some(routes) => {
                let bound = routes.bind(limits, &mut words);
                let (routes, limits) = bound.map_err(|error| format!("no memory for the limits of routes: {error}"))?;
                (Some(routes), limits)
            }
        };
        let router = routes.map(|routes| Router::open(Arc::new(routes), self.settings, *edge));
        Ok(NextPlan { number, router, limits, apps: read.apps.into_iter().map(Rc::new).collect(), listeners: None })
    }

    /// Serves by the prepared plan with this number from now on, and reports that.
    pub(super) fn commit_plan(&mut self, number: u32) {
        let Some(NextPlan { router, limits, apps, listeners, .. }) = self.applying.next.take_if(|next| next.number == number)
        else {
            return log::error!("the plan that the master has committed is not the prepared one");
        };
        self.use_router(router);
        self.applying.limits = Some(limits);
        if let Some(listeners) = listeners {
            self.change_listeners(listeners);
        }
        for (place, (app, settings)) in self.apps.iter_mut().zip(apps).enumerate() {
            if !app.is_named(&settings.app_name) {
                self.live.borrow_mut().leave_app(&mut self.lane.source(), place);
            }
            app.use_settings(settings);
        }
        if self.apps.len() > 1 {
            self.apps.iter_mut().for_each(AppPool::named);
        }
        self.parent_link.into_iter().for_each(|link| _ = link.report(number, Reason::Swapped));
    }

    /// Forgets the prepared plan. Places for apps stay.
    pub(super) fn cancel_plan(&mut self) {
        (self.applying.next, self.applying.room, self.applying.listeners) = (None, None, None);
    }

    /// Routes requests from the start of the edge.
    pub(super) fn route_by(&mut self, routes: Option<&Arc<Routes>>, number: usize) {
        self.use_router(routes.map(|routes| Router::open(Arc::clone(routes), self.settings, number)));
    }
}
