//! The backend of a [model](crate::Model) that is chosen when the program runs.
//!
//! It is one type for all models, so that the engine and all that is generic over its backend is compiled once: a copy for each
//! model would be a sixth of the program. Each call compares a number or two, which the processor predicts.

#[cfg(feature = "libevent")]
use crate::libevent;
use crate::{Accepted, Attempt, Backend, Direction, Event, KernelBackend, Model, Restricted, Token, Waiter, epoll, uring};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// A backend of any model.
pub struct AnyBackend {
    /// The time of the backend, here so that it is read without a look at the model.
    now: Duration,
    model: OfModel,
}

#[expect(clippy::large_enum_variant, reason = "a process has few of them, and each call would follow another pointer")]
enum OfModel {
    Epoll(epoll::Epoll),
    Uring(uring::Uring),
    #[cfg(feature = "libevent")]
    Libevent(libevent::Libevent),
}

/// A socket of such a backend.
#[derive(Debug)]
pub enum AnySocket {
    /// Of the model of this name, as the others.
    Epoll(<epoll::Epoll as Backend>::Socket),
    #[allow(missing_docs)]
    Uring(<uring::Uring as Backend>::Socket),
    #[allow(missing_docs)]
    #[cfg(feature = "libevent")]
    Libevent(<libevent::Libevent as Backend>::Socket),
}

/// A waiter of such a backend.
pub enum AnyWaiter {
    /// Of the model of this name, as the others.
    Epoll(<epoll::Epoll as Backend>::Waiter),
    #[allow(missing_docs)]
    Uring(<uring::Uring as Backend>::Waiter),
    #[allow(missing_docs)]
    #[cfg(feature = "libevent")]
    Libevent(<libevent::Libevent as Backend>::Waiter),
}

/// Calls the backend, the socket or the waiter that an enum has.
macro_rules! of {
    ($enum:ident, $value:expr, $inner:ident => $call:expr) => {
        match $value {
            $enum::Epoll($inner) => $call,
            $enum::Uring($inner) => $call,
            #[cfg(feature = "libevent")]
            $enum::Libevent($inner) => $call,
        }
    };
}

/// Calls a backend with something of its own: `$enum` is the type of the latter.
macro_rules! with {
    ($self:expr, $enum:ident, $value:expr, $backend:ident, $inner:ident => $call:expr) => {
        match ($self, $value) {
            (OfModel::Epoll($backend), $enum::Epoll($inner)) => $call,
            (OfModel::Uring($backend), $enum::Uring($inner)) => $call,
            #[cfg(feature = "libevent")]
            (OfModel::Libevent($backend), $enum::Libevent($inner)) => $call,
            _ => unreachable!("it belongs to a backend of another model"),
        }
    };
}

/// Calls a backend that returns something of its own, and wraps that: `$wrap` is its variant of `$enum`.
macro_rules! wrapped {
    ($self:expr, $enum:ident, $backend:ident, $wrap:ident => $call:expr) => {
        match $self {
            OfModel::Epoll($backend) => {
                let $wrap = $enum::Epoll;
                $call
            }
            OfModel::Uring($backend) => {
                let $wrap = $enum::Uring;
                $call
            }
            #[cfg(feature = "libevent")]
            OfModel::Libevent($backend) => {
                let $wrap = $enum::Libevent;
                $call
            }
        }
    };
}

impl Model {
    /// Opens a backend of this model.
    ///
    /// # Errors
    /// The system refuses it: see [`KernelBackend::create`]. `Unsupported`: the model is not built in.
    pub fn open(self, restricted: Restricted) -> io::Result<AnyBackend> {
        match self {
            Self::Epoll => epoll::Epoll::create(restricted).map(AnyBackend::from),
            Self::Uring => uring::Uring::create(restricted).map(AnyBackend::from),
            #[cfg(feature = "libevent")]
            Self::Libevent => libevent::Libevent::create(restricted).map(AnyBackend::from),
            #[cfg(not(feature = "libevent"))]
            Self::Libevent => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The same as [`Model::open`], for connections that threads share.
    ///
    /// # Errors
    /// The same as for [`Model::open`]. `Unsupported`: [`Model::threads_share`] is false.
    pub fn open_for_threads(self) -> io::Result<AnyBackend> {
        if self.threads_share() { self.open(Restricted::No) } else { Err(io::ErrorKind::Unsupported.into()) }
    }
}

impl AnyBackend {
    /// The words for the backend in the log: see [`KernelBackend::title`].
    #[must_use]
    pub fn title(&self) -> String {
        of!(OfModel, &self.model, backend => backend.title())
    }

    #[inline(never)]
    fn receive_otherwise(&mut self, socket: &mut AnySocket, buffer: &mut [u8]) -> Attempt {
        with!(&mut self.model, AnySocket, socket, backend, socket => backend.receive(socket, buffer))
    }

    #[inline(never)]
    fn submit_otherwise(&mut self) {
        of!(OfModel, &mut self.model, backend => backend.submit());
    }

    #[inline(never)]
    fn send_otherwise(&mut self, socket: &mut AnySocket, buffer: &[u8]) -> Attempt {
        with!(&mut self.model, AnySocket, socket, backend, socket => backend.send(socket, buffer))
    }
}

impl From<epoll::Epoll> for AnyBackend {
    fn from(backend: epoll::Epoll) -> Self {
        Self { now: backend.now(), model: OfModel::Epoll(backend) }
    }
}

impl From<uring::Uring> for AnyBackend {
    fn from(backend: uring::Uring) -> Self {
        Self { now: backend.now(), model: OfModel::Uring(backend) }
    }
}

#[cfg(feature = "libevent")]
impl From<libevent::Libevent> for AnyBackend {
    fn from(backend: libevent::Libevent) -> Self {
        Self { now: backend.now(), model: OfModel::Libevent(backend) }
    }
}

impl fmt::Debug for AnyBackend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Backend for AnyBackend {
    type Socket = AnySocket;
    type Waiter = AnyWaiter;

    #[inline]
    fn sends_at_once(&self) -> bool {
        of!(OfModel, &self.model, backend => backend.sends_at_once())
    }

    #[inline]
    fn tells_one(&self) -> bool {
        of!(OfModel, &self.model, backend => backend.tells_one())
    }

    #[inline]
    fn tells_ends(&self) -> bool {
        of!(OfModel, &self.model, backend => backend.tells_ends())
    }

    fn name(&self) -> &'static str {
        of!(OfModel, &self.model, backend => backend.name())
    }

    #[inline]
    fn now(&self) -> Duration {
        self.now
    }

    #[inline]
    fn read_clock(&mut self) {
        of!(OfModel, &mut self.model, backend => {
            backend.read_clock();
            self.now = backend.now();
        });
    }

    fn wall_clock(&self) -> Duration {
        of!(OfModel, &self.model, backend => backend.wall_clock())
    }

    fn listen(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        of!(OfModel, &mut self.model, backend => backend.listen(listener, socket))
    }

    fn unlisten(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        of!(OfModel, &mut self.model, backend => backend.unlisten(listener, socket))
    }

    fn watch(&mut self, pipe: BorrowedFd<'_>) -> io::Result<()> {
        of!(OfModel, &mut self.model, backend => backend.watch(pipe))
    }

    fn watch_doorbell(&mut self, doorbell: BorrowedFd<'_>) -> io::Result<()> {
        of!(OfModel, &mut self.model, backend => backend.watch_doorbell(doorbell))
    }

    fn accept_ahead(&mut self, listener: usize, most: usize) -> bool {
        of!(OfModel, &mut self.model, backend => backend.accept_ahead(listener, most))
    }

    fn be_cautious(&mut self) {
        of!(OfModel, &mut self.model, backend => backend.be_cautious());
    }

    fn take_accepted(&mut self, listener: usize, socket: BorrowedFd<'_>) -> Accepted<AnySocket> {
        wrapped!(&mut self.model, AnySocket, backend, wrap => backend.take_accepted(listener, socket).map(wrap))
    }

    fn is_waited_at(&self, listener: usize, socket: BorrowedFd<'_>) -> bool {
        of!(OfModel, &self.model, backend => backend.is_waited_at(listener, socket))
    }

    fn accept(&mut self, listener: usize, socket: BorrowedFd<'_>) -> Accepted<AnySocket> {
        wrapped!(&mut self.model, AnySocket, backend, wrap => backend.accept(listener, socket).map(wrap))
    }

    fn open(&mut self, socket: &mut AnySocket, token: Token) -> io::Result<()> {
        with!(&mut self.model, AnySocket, socket, backend, socket => backend.open(socket, token))
    }

    fn put_off(&mut self, socket: &mut AnySocket, token: Token) -> bool {
        with!(&mut self.model, AnySocket, socket, backend, socket => backend.put_off(socket, token))
    }

    // The model by default, for which this must be as fast as if it were the only one.
    #[inline(always)]
    fn receive(&mut self, socket: &mut AnySocket, buffer: &mut [u8]) -> Attempt {
        match (&mut self.model, &mut *socket) {
            (OfModel::Epoll(backend), AnySocket::Epoll(socket)) => backend.receive(socket, buffer),
            _ => self.receive_otherwise(socket, buffer),
        }
    }

    // The model by default, for which this must be as fast as if it were the only one.
    #[inline(always)]
    fn send(&mut self, socket: &mut AnySocket, buffer: &[u8]) -> Attempt {
        match (&mut self.model, &mut *socket) {
            (OfModel::Epoll(backend), AnySocket::Epoll(socket)) => backend.send(socket, buffer),
            _ => self.send_otherwise(socket, buffer),
        }
    }

    fn send_last(&mut self, socket: &mut AnySocket, buffer: &[u8]) -> Attempt {
        with!(&mut self.model, AnySocket, socket, backend, socket => backend.send_last(socket, buffer))
    }

    fn send_gathered(&mut self, socket: &mut AnySocket, buffers: &[IoSlice<'_>]) -> Attempt {
        with!(&mut self.model, AnySocket, socket, backend, socket => backend.send_gathered(socket, buffers))
    }

    fn send_file(&mut self, socket: &mut AnySocket, file: BorrowedFd<'_>, offset: u64, size: usize) -> Attempt {
        with!(&mut self.model, AnySocket, socket, backend, socket => backend.send_file(socket, file, offset, size))
    }

    // As in `receive`. epoll postpones nothing.
    #[inline(always)]
    fn submit(&mut self) {
        if !matches!(self.model, OfModel::Epoll(_)) {
            self.submit_otherwise();
        }
    }

    fn guard(&mut self, socket: &mut AnySocket, on: bool) {
        with!(&mut self.model, AnySocket, socket, backend, socket => backend.guard(socket, on));
    }

    fn shutdown(&mut self, socket: &mut AnySocket, direction: Direction) {
        with!(&mut self.model, AnySocket, socket, backend, socket => backend.shutdown(socket, direction));
    }

    fn close(&mut self, socket: AnySocket) {
        with!(&mut self.model, AnySocket, socket, backend, socket => backend.close(socket));
    }

    fn give_away(&mut self, socket: &mut AnySocket) -> io::Result<(OwnedFd, Vec<u8>)> {
        with!(&mut self.model, AnySocket, socket, backend, socket => backend.give_away(socket))
    }

    fn adopt(&mut self, connection: OwnedFd) -> io::Result<AnySocket> {
        wrapped!(&mut self.model, AnySocket, backend, wrap => backend.adopt(connection).map(wrap))
    }

    fn local_address(&self, socket: &AnySocket) -> Option<SocketAddr> {
        with!(&self.model, AnySocket, socket, backend, socket => backend.local_address(socket))
    }

    fn can_move(&self, socket: &AnySocket) -> bool {
        with!(&self.model, AnySocket, socket, backend, socket => backend.can_move(socket))
    }

    fn has_news(&self) -> bool {
        of!(OfModel, &self.model, backend => backend.has_news())
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        of!(OfModel, &mut self.model, backend => {
            let result = backend.wait(timeout, events);
            self.now = backend.now();
            result
        })
    }

    fn waiter(&self) -> io::Result<AnyWaiter> {
        wrapped!(&self.model, AnyWaiter, backend, wrap => backend.waiter().map(wrap))
    }

    fn collect(&mut self, waiter: &mut AnyWaiter, events: &mut Vec<Event>) {
        with!(&mut self.model, AnyWaiter, waiter, backend, waiter => {
            backend.collect(waiter, events);
            self.now = backend.now();
        });
    }
}

impl Waiter for AnyWaiter {
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        of!(Self, self, waiter => waiter.wait(timeout))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        of!(Self, self, waiter => waiter.descriptor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_the_name_of_its_backend_or_is_not_built_in() {
        for &model in Model::ALL {
            let opened = model.open(Restricted::No);
            assert_eq!(model.remedy().is_none(), model.is_built_in());
            if model.is_built_in() {
                let backend = opened.expect("the kernel has it");
                assert_eq!(backend.name(), model.name());
                assert!(backend.title().starts_with(model.name()), "{}", backend.title());
            } else {
                assert_eq!(opened.expect_err("it is missing").kind(), io::ErrorKind::Unsupported);
                assert!(model.remedy().is_some_and(|remedy| remedy.contains(model.name())));
            }
        }
    }

    #[test]
    fn threads_share_only_models_that_allow_it() {
        for model in Model::built_in() {
            match model.open_for_threads() {
                Ok(backend) => assert!(model.threads_share(), "{}", backend.name()),
                Err(error) => assert_eq!((model.threads_share(), error.kind()), (false, io::ErrorKind::Unsupported)),
            }
        }
    }
}
