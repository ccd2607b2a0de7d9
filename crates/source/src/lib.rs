//! A source of requests for a lane, which also takes the lane's answers.
//!
//! A lane knows no connection and no queue. An engine is a source: it owns the connections of clients, and the lane answers for
//! it in the same thread. With an edge, the engine is in another process; there the worker's side of the pool is the source.
#![forbid(unsafe_code)]

use oribi_host::{ExchangeId, Piece, ReplyError, Request};
use oribi_io::Waiter;
use oribi_io::process::orders::Mailbox;
use oribi_listen::Listener;
use oribi_message::{FieldPair, PreparedFields, RequestHead, ResponseHead};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A complete request that was lent to a lane, with everything that its host may read. It does not borrow the source, so the
/// lane can use the source meanwhile.
pub trait LentRequest {
    /// The id of the exchange.
    fn id(&self) -> ExchangeId;

    /// The request in the form for hosts. `listeners` are the server's.
    fn request<'r>(&'r self, listeners: &'r [Listener]) -> Request<'r>;

    /// The head of the request.
    fn head(&self) -> RequestHead<'_>;

    /// Removes the fields whose names are `unwanted`, except those with a well-known name.
    fn remove_fields(&mut self, unwanted: impl Fn(&[u8]) -> bool);
}

/// The next task of a lane.
#[derive(Debug)]
pub enum Next<X> {
    /// Answer a complete request.
    Exchange(X),
    /// Check [`Source::take_wake`] and [`Source::finished`].
    Command,
    /// Wait at most this long for events; `None` for no limit.
    Nothing(Option<Duration>),
}

/// A source of requests, which also takes their answers.
pub trait Source {
    /// A request that is lent to the lane until [`Source::give_back`].
    type Exchange: LentRequest;

    /// An object that waits for events in a thread that must not use the source now.
    type Waiter: Waiter;

    // ---- Requests --------------------------------------------------------------------------------------------------------

    /// Announces that the lane has one thread, which waits in [`Source::next_exchange`]. `prompt` says that the host of the
    /// lane answers at once.
    fn serve_alone(&mut self, prompt: bool);

    /// Waits for the next complete request. After `None`, check [`Source::take_wake`] and [`Source::finished`], then call
    /// again.
    ///
    /// # Errors
    /// The source can no longer wait.
    fn next_exchange(&mut self) -> io::Result<Option<Self::Exchange>>;

    /// Returns the next complete request, if there is one without waiting.
    ///
    /// # Errors
    /// The same as for [`Source::next_exchange`].
    fn next_exchange_now(&mut self) -> io::Result<Next<Self::Exchange>>;

    /// Like [`Source::next_exchange_now`], but lends no request and leaves new ones to other workers, because the lane has as
    /// many unfinished exchanges as it may have.
    ///
    /// # Errors
    /// The same as for [`Source::next_exchange`].
    fn next_event_now(&mut self) -> io::Result<Next<Self::Exchange>>;

    /// Takes back a request whose host has returned. The answer to the request may arrive later.
    fn give_back(&mut self, exchange: Self::Exchange);

    /// The number of complete requests that wait for an answer.
    fn waiting_requests(&self) -> usize;

    /// The time of the last wait, on a clock that all processes share and that is never set. Zero if the source is behind an
    /// edge, which keeps the time.
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    /// The time that the request of an exchange had waited when the lane took it; `None` if unknown.
    fn queue_time(&mut self, exchange: ExchangeId) -> Option<Duration>;

    /// From now on, returns `None` from [`Source::next_exchange`] also when [`Source::take_client_change`] would be true.
    fn report_client_changes(&mut self);

    /// Whether a client has taken content that waited for it, or no longer waits for its answer, since the last call. There may
    /// be false alarms. `false` without [`Source::report_client_changes`].
    fn take_client_change(&mut self) -> bool;

    /// The number of exchanges that were lent and whose responses are not finished.
    fn answering(&self) -> usize;

    // ---- Answers: the same as in `oribi_host::Outlet`, but without waiting -----------------------------------------------

    /// Sends a whole response.
    ///
    /// # Errors
    /// See [`ReplyError`].
    fn respond(&mut self, exchange: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError>;

    /// Sends a whole response whose content lies partly in files.
    ///
    /// # Errors
    /// See [`ReplyError`].
    fn respond_pieces(&mut self, exchange: ExchangeId, head: ResponseHead<'_>, pieces: &[Piece<'_>]) -> Result<(), ReplyError>;

    /// Sends a whole response with status 200 and prepared fields.
    ///
    /// # Errors
    /// See [`ReplyError`].
    fn respond_prepared(&mut self, exchange: ExchangeId, fields: &PreparedFields, content: Piece<'_>)
    -> Result<(), ReplyError>;

    /// Begins a response whose content follows. The head is sent with the first piece.
    ///
    /// # Errors
    /// See [`ReplyError`].
    fn start(&mut self, exchange: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError>;

    /// Sends a piece of content and returns how many bytes wait for the client now. An empty piece sends the head alone.
    ///
    /// # Errors
    /// See [`ReplyError`].
    fn write(&mut self, exchange: ExchangeId, piece: &[u8]) -> Result<usize, ReplyError>;

    /// The number of bytes that wait for the client.
    ///
    /// # Errors
    /// [`ReplyError::Gone`]: the exchange is over, or its client has gone.
    fn waiting(&self, exchange: ExchangeId) -> Result<usize, ReplyError>;

    /// The most bytes of a response that may wait for a slow client before its app must also wait.
    fn output_limit(&self) -> usize;

    /// Returns whether apps have written so much without waiting that the lane should look for events of clients. The next call
    /// returns `false` until they have done so again.
    fn is_due_to_look(&mut self) -> bool {
        false
    }

    /// Ends the content.
    ///
    /// # Errors
    /// See [`ReplyError`].
    fn finish(&mut self, exchange: ExchangeId) -> Result<(), ReplyError>;

    /// Ends the content, with trailers.
    ///
    /// # Errors
    /// See [`oribi_host::Outlet::finish_with_trailers`].
    fn finish_with_trailers(&mut self, exchange: ExchangeId, trailers: &[FieldPair<'_>]) -> Result<(), ReplyError>;

    /// Gives an exchange up: see [`oribi_host::Outlet::abandon`].
    fn abandon(&mut self, exchange: ExchangeId);

    /// Gives up an exchange whose app was interrupted for taking too long.
    fn abandon_late(&mut self, exchange: ExchangeId) {
        self.abandon(exchange);
    }

    /// Gives up every exchange that was lent, because the context that held them ends.
    fn abandon_all(&mut self);

    /// Sends an informational response.
    ///
    /// # Errors
    /// See [`ReplyError`].
    fn inform(&mut self, exchange: ExchangeId, status: u16, fields: &[FieldPair<'_>]) -> Result<(), ReplyError>;

    /// Whether connections may stay open without the app: see [`Source::command`].
    fn has_live_connections(&self) -> bool {
        false
    }

    /// Gives commands for the connection of an exchange: see [`oribi_host::Outlet::command`].
    ///
    /// # Errors
    /// See there.
    fn command(&mut self, exchange: ExchangeId, commands: &[u8]) -> Result<(), ReplyError> {
        let _ = (exchange, commands);
        Err(ReplyError::NOT_LIVE)
    }

    /// Passes a message on to the log of the web server that sent the request; returns `false` without a web server.
    fn report(&mut self, exchange: ExchangeId, message: &[u8]) -> bool;

    /// Returns a descriptor of the client's connection for a host that uses the socket itself.
    ///
    /// # Errors
    /// See [`oribi_host::Outlet::take_socket`].
    fn take_socket(&mut self, exchange: ExchangeId) -> io::Result<OwnedFd>;

    // ---- While an app runs or waits ----------------------------------------------------------------------------------------

    /// Sets whether the next requests go to a host that answers at once. If so, the answers may be sent together with later
    /// ones.
    fn expect_prompt_answers(&mut self, prompt: bool);

    /// Sends pending output now instead of with the next wait, if the host may take long.
    fn submit(&mut self);

    /// Sends the response to an exchange that was given back, before its host does anything else.
    fn send_now(&mut self, exchange: ExchangeId);

    /// Updates the clock before a response, for a lane whose app may have taken long. With `stopping`, the worker has the
    /// order to stop, but [`Source::stop`] has not been called yet.
    fn catch_up(&mut self, stopping: bool);

    /// Waits for events and handles them without lending a request: for a lane whose app waits for its client.
    ///
    /// # Errors
    /// The source can no longer wait.
    fn turn(&mut self) -> io::Result<()>;

    /// Handles everything that needs no waiting, without lending a request. Returns the time until something else is due,
    /// `None` if nothing is.
    ///
    /// # Errors
    /// The source can no longer look for events.
    fn do_pending_work(&mut self) -> io::Result<Option<Duration>>;

    /// Whether there is work that needs no waiting.
    fn has_more(&self) -> bool;

    /// The time at which work is due even without events, on the source's own clock; `None` if no work will be due.
    fn due(&self) -> Option<Duration>;

    /// Leaves new work to other workers until the lane asks for a request again. Call it when every thread of the lane is busy.
    fn leave_line(&mut self);

    /// Whether a lane that waits for events counts as idle, so that other lanes leave new clients to it. `false` if the lane
    /// takes no new clients.
    fn is_idle_while_it_waits(&self) -> bool {
        true
    }

    /// Returns an object that waits for events instead of the source.
    ///
    /// # Errors
    /// An error of the system.
    fn waiter(&self) -> io::Result<Self::Waiter>;

    /// Takes the events that a waiter has found.
    fn collect(&mut self, waiter: &mut Self::Waiter);

    /// Announces that the lane no longer waits, although it has announced a wait by [`Next::Nothing`]. For a lane with one
    /// thread.
    fn end_wait(&mut self) {}

    // ---- Deadlines of apps -------------------------------------------------------------------------------------------------

    /// The mailbox for orders to the app of an exchange. `None` if the sender of the request does not enforce the deadline of
    /// the app.
    fn mailbox(&self, exchange: ExchangeId) -> Option<Mailbox> {
        let _ = exchange;
        None
    }

    /// The mailbox for orders to the app after it has answered. `None` unless the sender of the request enforces the deadline
    /// of the app only until the answer.
    fn mailbox_after_answer(&self, exchange: &Self::Exchange) -> Option<Mailbox> {
        let _ = exchange;
        None
    }

    /// See [`oribi_host::Outlet::extend_deadline`].
    fn extend_deadline(&mut self, exchange: ExchangeId, time: Option<Duration>) {
        let _ = (exchange, time);
    }

    // ---- Commands ----------------------------------------------------------------------------------------------------------

    /// Whether the lane was woken since the last call.
    fn take_wake(&mut self) -> bool;

    /// Makes the source take no new work. It is finished when the requests that it has are answered. With `empty_queue`, it
    /// first takes the work that no other worker would take.
    fn stop(&mut self, empty_queue: bool);

    /// Continues, but each response is the last on its connection, because the server is about to end.
    fn part(&mut self) {}

    /// Whether the source has the order to stop.
    fn stops(&self) -> bool;

    /// Whether the source has the order to stop and has answered everything.
    fn finished(&self) -> bool;

    /// Reopens the log files.
    fn reopen_logs(&mut self);
}
