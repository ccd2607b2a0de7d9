//! An exchange whose request is kept, because its script may wait and the server takes the request back meanwhile.

use crate::exchange::{Exchange, Progress};
use crate::script_path::Found;
use crate::shared::Shared;
use crate::vm::Slot;
use oribi_host::{Content, Endpoint, ExchangeId, Gateway, Outlet, Piece, Reply, ReplyError, Request};
use oribi_message::{FieldPair, HeadLayout, RequestHead, ResponseHead, Role, Trailers, Variable};
use std::cell::Cell;
use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A copy of a content.
enum KeptContent {
    None,
    Memory(Box<[u8]>),
    File(OwnedFd, u64),
}

impl KeptContent {
    fn of(content: Content<'_>) -> io::Result<Self> {
        Ok(match content {
            Content::None => Self::None,
            Content::Memory(bytes) => Self::Memory(bytes.into()),
            Content::File { file, size } => Self::File(file.try_clone_to_owned()?, size),
        })
    }

    fn lend(&self) -> Content<'_> {
        match self {
            Self::None => Content::None,
            Self::Memory(bytes) => Content::Memory(bytes),
            Self::File(file, size) => Content::File { file: file.as_fd(), size: *size },
        }
    }
}

struct KeptGateway {
    role: Role,
    data: KeptContent,
    own: bool,
    bytes: Box<[u8]>,
    variables: Box<[Variable]>,
}

/// A copy of a request.
struct KeptRequest {
    head: Box<[u8]>,
    layout: HeadLayout,
    content: KeptContent,
    trailers: Option<Trailers>,
    endpoints: [Box<[u8]>; 4],
    gateway: Option<KeptGateway>,
    flags: [bool; 4],
}

impl KeptRequest {
    fn of(request: &Request<'_>) -> io::Result<Self> {
        let gateway = match &request.gateway {
            Some(gateway) => Some(KeptGateway {
                role: gateway.role,
                data: KeptContent::of(gateway.data)?,
                own: gateway.is_own(),
                bytes: gateway.bytes().into(),
                variables: gateway.list().into(),
            }),
            None => None,
        };
        Ok(Self {
            head: request.head.bytes().into(),
            layout: request.head.layout().clone(),
            content: KeptContent::of(request.content)?,
            trailers: request.trailers.cloned(),
            endpoints: [request.remote.address, request.remote.port, request.server.address, request.server.port]
                .map(Box::from),
            gateway,
            flags: [request.forwarded_port, request.chosen_name, request.https, request.underscores],
        })
    }

    fn lend(&self) -> Request<'_> {
        let [remote_address, remote_port, address, port] = &self.endpoints;
        let [forwarded_port, chosen_name, https, underscores] = self.flags;
        let gateway = self.gateway.as_ref().map(|gateway| match gateway.own {
            true => Gateway::own(&gateway.bytes, &gateway.variables),
            false => Gateway::new(gateway.role, &gateway.bytes, &gateway.variables, gateway.data.lend()),
        });
        Request {
            head: RequestHead::new(&self.head, &self.layout),
            content: self.content.lend(),
            trailers: self.trailers.as_ref(),
            remote: Endpoint { address: remote_address, port: remote_port },
            server: Endpoint { address, port },
            forwarded_port,
            chosen_name,
            https,
            underscores,
            gateway,
        }
    }
}

/// The outlet of a lane while its host is bound to it; none afterwards, although exchanges of tasks may still refer to it.
#[derive(Default)]
pub(super) struct LaneOutlet(Cell<Option<*const dyn Outlet>>);

impl LaneOutlet {
    /// Sets the outlet until [`LaneOutlet::unset`], which must be called before the outlet is moved or dropped.
    pub(super) fn set(&self, outlet: &dyn Outlet) {
        // SAFETY: only the lifetime changes, and `get` shortens it again.
        self.0.set(Some(unsafe { mem::transmute::<*const (dyn Outlet + '_), *const (dyn Outlet + 'static)>(outlet) }));
    }

    pub(super) fn unset(&self) {
        self.0.set(None);
    }

    fn get(&self) -> Option<&dyn Outlet> {
        // SAFETY: as promised by the caller of `set`.
        self.0.get().map(|outlet| unsafe { &*outlet })
    }
}

/// The lane's outlet for scripts that must not wait in it: a piece is kept as a whole, even if there is no room for it.
struct PatientOutlet {
    of_lane: Rc<LaneOutlet>,
    /// The time limit that the script has set, if it has set one.
    deadline: Cell<Option<Option<Duration>>>,
}

impl PatientOutlet {
    fn lane(&self) -> Result<&dyn Outlet, ReplyError> {
        self.of_lane.get().ok_or(ReplyError::Gone)
    }
}

impl Outlet for PatientOutlet {
    fn respond(&self, exchange: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError> {
        self.lane()?.respond(exchange, head, parts)
    }

    fn respond_pieces(&self, exchange: ExchangeId, head: ResponseHead<'_>, pieces: &[Piece<'_>]) -> Result<(), ReplyError> {
        self.lane()?.respond_pieces(exchange, head, pieces)
    }

    fn start(&self, exchange: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        self.lane()?.start(exchange, head)
    }

    fn write(&self, exchange: ExchangeId, piece: &[u8]) -> Result<(), ReplyError> {
        self.lane()?.offer(exchange, piece).map(|_| ())
    }

    fn finish(&self, exchange: ExchangeId) -> Result<(), ReplyError> {
        self.lane()?.finish(exchange)
    }

    fn finish_with_trailers(&self, exchange: ExchangeId, trailers: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        self.lane()?.finish_with_trailers(exchange, trailers)
    }

    fn abandon(&self, exchange: ExchangeId) {
        if let Some(lane) = self.of_lane.get() {
            lane.abandon(exchange);
        }
    }

    fn inform(&self, exchange: ExchangeId, status: u16, fields: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        self.lane()?.inform(exchange, status, fields)
    }

    fn has_room(&self, exchange: ExchangeId) -> Result<bool, ReplyError> {
        self.lane()?.has_room(exchange)
    }

    fn extend_deadline(&self, exchange: ExchangeId, time: Option<Duration>) {
        self.deadline.set(Some(time));
        if let Some(lane) = self.of_lane.get() {
            lane.extend_deadline(exchange, time);
        }
    }

    fn queue_time(&self, exchange: ExchangeId) -> Option<Duration> {
        self.of_lane.get()?.queue_time(exchange)
    }

    fn has_live_connections(&self) -> bool {
        self.of_lane.get().is_some_and(Outlet::has_live_connections)
    }

    fn command(&self, exchange: ExchangeId, commands: &[u8]) -> Result<(), ReplyError> {
        self.lane()?.command(exchange, commands)
    }

    fn report(&self, exchange: ExchangeId, message: &[u8]) -> bool {
        self.of_lane.get().is_some_and(|lane| lane.report(exchange, message))
    }

    fn waiting(&self) -> usize {
        self.of_lane.get().map_or(0, Outlet::waiting)
    }

    fn take_socket(&self, exchange: ExchangeId) -> io::Result<OwnedFd> {
        self.of_lane.get().ok_or(io::ErrorKind::NotConnected)?.take_socket(exchange)
    }
}

/// An exchange that owns everything that its script may use. The fields are dropped in this order: each borrows those after
/// it.
pub(super) struct KeptExchange {
    exchange: Exchange<'static>,
    id: ExchangeId,
    _request: Box<Request<'static>>,
    outlet: Box<PatientOutlet>,
    _found: Box<Found>,
    _kept: Box<KeptRequest>,
    _slot: Arc<Slot>,
    _shared: Arc<Shared>,
}

impl KeptExchange {
    /// Keeps an exchange of the lane with this outlet.
    ///
    /// # Errors
    /// The process has too many descriptors for another one of the content's file. The client gets a 500.
    pub(super) fn new(
        request: &Request<'_>,
        found: &Found,
        shared: &Arc<Shared>,
        slot: &Arc<Slot>,
        lane: &Rc<LaneOutlet>,
        reply: Reply<'_>,
    ) -> io::Result<Self> {
        let kept = Box::new(KeptRequest::of(request)?);
        let (_, id) = reply.detach();
        let outlet = Box::new(PatientOutlet { of_lane: Rc::clone(lane), deadline: Cell::new(None) });
        let found = Box::new(found.clone());
        // SAFETY: these borrow from boxes and shared values that this exchange owns and drops after the borrowers. Neither the
        // exchange nor the request is passed on with this lifetime.
        let exchange = unsafe {
            let lent = Box::new(mem::transmute::<Request<'_>, Request<'static>>(kept.lend()));
            let request = &*std::ptr::from_ref::<Request<'static>>(&*lent);
            let (outlet_of, found_of) = (&*std::ptr::from_ref(&*outlet), &*std::ptr::from_ref(&*found));
            let (settings, slot_of) = (&*std::ptr::from_ref(&*shared.settings), &*Arc::as_ptr(slot));
            (Exchange::new(request, found_of, settings, slot_of, Reply::new(outlet_of, id)), lent)
        };
        let (exchange, lent) = exchange;
        let (slot, shared) = (Arc::clone(slot), Arc::clone(shared));
        Ok(Self { exchange, id, _request: lent, outlet, _found: found, _kept: kept, _slot: slot, _shared: shared })
    }

    pub(super) fn exchange(&self) -> &Exchange<'_> {
        &self.exchange
    }

    /// The time limit that the script has set for itself, if it has set one.
    pub(super) fn deadline(&self) -> Option<Option<Duration>> {
        self.outlet.deadline.get()
    }

    /// Whether there is room for more content. `None`: no client waits for the answer.
    pub(super) fn has_room(&self) -> Option<bool> {
        self.outlet.has_room(self.id).ok()
    }

    /// Answers without a script.
    pub(super) fn answer_by(&self, answer: impl FnOnce(&Request<'_>, Reply<'_>)) {
        self.exchange.forget();
        answer(self.exchange.request, Reply::new(&*self.outlet, self.id));
    }

    /// Gives the exchange up, unless its answer is complete.
    pub(super) fn end(&self) {
        if self.exchange.progress() != Progress::Done {
            self.exchange.forget();
            self.outlet.abandon(self.id);
        }
    }

    /// Ends the use of the outlet, because the lane gives up its exchanges itself.
    pub(super) fn forget(&self) {
        self.exchange.forget();
    }
}
