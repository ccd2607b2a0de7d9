//! Implements the source of a lane for a worker behind edges.

use super::{Intake, IntakeState, Lent, Watcher};
use oribi_host::{ExchangeId, Piece, ReplyError};
use oribi_io::process::orders::Mailbox;
use oribi_message::{FieldPair, PreparedFields, ResponseHead};
use oribi_source::{Next, Source};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

impl Source for Intake<'_> {
    type Exchange = Lent;
    type Waiter = Watcher;

    fn serve_alone(&mut self, _prompt: bool) {
        self.alone = true;
    }

    #[inline]
    fn next_exchange(&mut self) -> io::Result<Option<Lent>> {
        Ok(match self.next(true)? {
            Next::Exchange(lent) => Some(lent),
            Next::Command | Next::Nothing(_) => None,
        })
    }

    #[inline]
    fn next_exchange_now(&mut self) -> io::Result<Next<Lent>> {
        self.next(false)
    }

    fn next_event_now(&mut self) -> io::Result<Next<Lent>> {
        Ok(self.next_event())
    }

    #[inline]
    fn give_back(&mut self, exchange: Lent) {
        self.give_back(exchange);
    }

    fn report_client_changes(&mut self) {
        self.client_changes.reported = true;
    }

    #[inline]
    fn take_client_change(&mut self) -> bool {
        std::mem::take(&mut self.client_changes.seen)
    }

    fn queue_time(&mut self, exchange: ExchangeId) -> Option<Duration> {
        self.opened.get(exchange)?.waited.map(Duration::from_nanos)
    }

    fn waiting_requests(&self) -> usize {
        self.pools.iter().map(oribi_pool::Worker::queued).sum()
    }

    fn answering(&self) -> usize {
        self.answering()
    }

    #[inline]
    fn respond(&mut self, exchange: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError> {
        self.respond(exchange, head, parts)
    }

    fn respond_pieces(&mut self, exchange: ExchangeId, head: ResponseHead<'_>, pieces: &[Piece<'_>]) -> Result<(), ReplyError> {
        self.respond_pieces(exchange, head, pieces)
    }

    fn respond_prepared(
        &mut self,
        exchange: ExchangeId,
        fields: &PreparedFields,
        content: Piece<'_>,
    ) -> Result<(), ReplyError> {
        self.respond_prepared(exchange, fields, content)
    }

    fn start(&mut self, exchange: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        self.start(exchange, head)
    }

    fn write(&mut self, exchange: ExchangeId, piece: &[u8]) -> Result<usize, ReplyError> {
        self.write(exchange, piece)
    }

    fn waiting(&self, exchange: ExchangeId) -> Result<usize, ReplyError> {
        self.waiting(exchange)
    }

    /// Returns zero: nothing may wait beyond the memory for the response. The edge limits the data for a slow client.
    fn output_limit(&self) -> usize {
        0
    }

    fn finish(&mut self, exchange: ExchangeId) -> Result<(), ReplyError> {
        self.finish(exchange)
    }

    fn finish_with_trailers(&mut self, exchange: ExchangeId, trailers: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        self.finish_with_trailers(exchange, trailers)
    }

    fn abandon(&mut self, exchange: ExchangeId) {
        self.abandon(exchange);
    }

    fn abandon_all(&mut self) {
        self.abandon_all();
    }

    fn inform(&mut self, exchange: ExchangeId, status: u16, fields: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        self.inform(exchange, status, fields)
    }

    fn has_live_connections(&self) -> bool {
        true
    }

    fn command(&mut self, exchange: ExchangeId, commands: &[u8]) -> Result<(), ReplyError> {
        self.command(exchange, commands)
    }

    fn report(&mut self, exchange: ExchangeId, message: &[u8]) -> bool {
        self.report(exchange, message)
    }

    fn mailbox(&self, exchange: ExchangeId) -> Option<Mailbox> {
        self.mailbox(exchange)
    }

    fn mailbox_after_answer(&self, exchange: &Lent) -> Option<Mailbox> {
        self.running.as_ref()?.mailbox(exchange.id)
    }

    fn extend_deadline(&mut self, exchange: ExchangeId, time: Option<Duration>) {
        self.extend_deadline(exchange, time);
    }

    fn take_socket(&mut self, exchange: ExchangeId) -> io::Result<OwnedFd> {
        self.take_socket(exchange)
    }

    /// Does nothing: each answer is published at once.
    #[inline]
    fn expect_prompt_answers(&mut self, _prompt: bool) {}

    /// Does nothing: each answer is published at once.
    #[inline]
    fn submit(&mut self) {}

    /// Does nothing: each answer is published at once.
    #[inline]
    fn send_now(&mut self, _exchange: ExchangeId) {}

    /// Does nothing: the edge has the clock and the connection.
    #[inline]
    fn catch_up(&mut self, _stopping: bool) {}

    fn turn(&mut self) -> io::Result<()> {
        self.turn()
    }

    fn do_pending_work(&mut self) -> io::Result<Option<Duration>> {
        Ok(self.do_pending_work())
    }

    fn has_more(&self) -> bool {
        self.has_more()
    }

    /// Returns `None`: the edge keeps all deadlines.
    fn due(&self) -> Option<Duration> {
        None
    }

    fn leave_line(&mut self) {
        self.left = true;
    }

    fn waiter(&self) -> io::Result<Watcher> {
        Ok(self.watcher())
    }

    fn collect(&mut self, waiter: &mut Watcher) {
        self.collect(waiter);
    }

    fn end_wait(&mut self) {
        self.awake();
    }

    fn take_wake(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    fn stop(&mut self, empty_queue: bool) {
        self.stop(empty_queue);
    }

    fn stops(&self) -> bool {
        self.stage != IntakeState::Serving
    }

    fn finished(&self) -> bool {
        self.finished()
    }

    fn reopen_logs(&mut self) {
        if let Err(error) = oribi_log::reopen_error_log(self.settings) {
            log::error!("cannot open the error log again: {error}");
        }
    }
}
