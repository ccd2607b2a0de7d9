//! The engine as the source of a lane in its own thread.

use super::{Engine, Exchange};
use oribi_host::{ExchangeId, Piece, ReplyError, Request};
use oribi_io::Backend;
use oribi_listen::Listener;
use oribi_message::{FieldPair, PreparedFields, RequestHead, ResponseHead};
use oribi_source::{LentRequest, Next, Source};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

impl LentRequest for Exchange {
    #[inline]
    fn id(&self) -> ExchangeId {
        self.id()
    }

    #[inline]
    fn request<'r>(&'r self, listeners: &'r [Listener]) -> Request<'r> {
        self.request(listeners)
    }

    #[inline]
    fn head(&self) -> RequestHead<'_> {
        self.head()
    }

    fn remove_fields(&mut self, unwanted: impl Fn(&[u8]) -> bool) {
        self.remove_fields(unwanted);
    }
}

impl<B: Backend> Source for Engine<'_, B> {
    type Exchange = Exchange;
    type Waiter = B::Waiter;

    #[inline]
    fn serve_alone(&mut self, prompt: bool) {
        self.accept_ahead(prompt);
        self.answer_in_batches();
    }

    #[inline]
    fn next_exchange(&mut self) -> io::Result<Option<Self::Exchange>> {
        self.next_exchange()
    }

    #[inline]
    fn next_exchange_now(&mut self) -> io::Result<Next<Self::Exchange>> {
        self.next_exchange_now()
    }

    fn next_event_now(&mut self) -> io::Result<Next<Self::Exchange>> {
        self.next_event_now()
    }

    #[inline]
    fn give_back(&mut self, exchange: Self::Exchange) {
        self.give_back(exchange);
    }

    fn report_client_changes(&mut self) {
        self.reports_client_changes = true;
    }

    #[inline]
    fn take_client_change(&mut self) -> bool {
        std::mem::take(&mut self.client_changed)
    }

    #[inline]
    fn now(&self) -> Duration {
        self.backend.now()
    }

    fn queue_time(&mut self, exchange: ExchangeId) -> Option<Duration> {
        self.queue_time(exchange)
    }

    fn waiting_requests(&self) -> usize {
        self.waiting_requests()
    }

    #[inline]
    fn answering(&self) -> usize {
        self.answering()
    }

    #[inline]
    fn respond(&mut self, exchange: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError> {
        self.respond(exchange, head, parts)
    }

    #[inline]
    fn respond_pieces(&mut self, exchange: ExchangeId, head: ResponseHead<'_>, pieces: &[Piece<'_>]) -> Result<(), ReplyError> {
        self.respond_pieces(exchange, head, pieces)
    }

    #[inline]
    fn respond_prepared(
        &mut self,
        exchange: ExchangeId,
        fields: &PreparedFields,
        content: Piece<'_>,
    ) -> Result<(), ReplyError> {
        self.respond_prepared(exchange, fields, content)
    }

    #[inline]
    fn start(&mut self, exchange: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        self.start(exchange, head)
    }

    #[inline]
    fn write(&mut self, exchange: ExchangeId, piece: &[u8]) -> Result<usize, ReplyError> {
        self.write(exchange, piece)
    }

    #[inline]
    fn waiting(&self, exchange: ExchangeId) -> Result<usize, ReplyError> {
        self.waiting(exchange)
    }

    #[inline]
    fn output_limit(&self) -> usize {
        self.output_limit()
    }

    #[inline]
    fn is_due_to_look(&mut self) -> bool {
        self.is_due_to_look()
    }

    #[inline]
    fn finish(&mut self, exchange: ExchangeId) -> Result<(), ReplyError> {
        self.read_clock_to_measure();
        self.finish(exchange)
    }

    fn finish_with_trailers(&mut self, exchange: ExchangeId, trailers: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        self.read_clock_to_measure();
        self.finish_with_trailers(exchange, trailers)
    }

    #[inline]
    fn abandon(&mut self, exchange: ExchangeId) {
        self.abandon(exchange);
    }

    fn abandon_late(&mut self, exchange: ExchangeId) {
        self.give_up(exchange, 504);
    }

    #[inline]
    fn abandon_all(&mut self) {
        self.abandon_all();
    }

    #[inline]
    fn inform(&mut self, exchange: ExchangeId, status: u16, fields: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        self.inform(exchange, status, fields)
    }

    #[inline]
    fn report(&mut self, exchange: ExchangeId, message: &[u8]) -> bool {
        self.report(exchange, message)
    }

    #[inline]
    fn take_socket(&mut self, exchange: ExchangeId) -> io::Result<OwnedFd> {
        self.take_socket(exchange)
    }

    #[inline]
    fn expect_prompt_answers(&mut self, prompt: bool) {
        self.expect_prompt_answers(prompt);
    }

    #[inline]
    fn submit(&mut self) {
        self.submit();
    }

    #[inline]
    fn send_now(&mut self, exchange: ExchangeId) {
        self.send_now(exchange);
    }

    #[inline]
    fn catch_up(&mut self, stopping: bool) {
        self.catch_up(stopping);
    }

    #[inline]
    fn turn(&mut self) -> io::Result<()> {
        self.turn()
    }

    #[inline]
    fn do_pending_work(&mut self) -> io::Result<Option<Duration>> {
        self.do_pending_work()
    }

    #[inline]
    fn has_more(&self) -> bool {
        self.has_more()
    }

    #[inline]
    fn due(&self) -> Option<Duration> {
        self.due()
    }

    #[inline]
    fn leave_line(&mut self) {
        self.leave_line();
    }

    fn is_idle_while_it_waits(&self) -> bool {
        self.is_idle_while_it_waits()
    }

    #[inline]
    fn waiter(&self) -> io::Result<Self::Waiter> {
        self.waiter()
    }

    #[inline]
    fn collect(&mut self, waiter: &mut Self::Waiter) {
        self.collect(waiter);
    }

    #[inline]
    fn take_wake(&mut self) -> bool {
        self.take_wake()
    }

    #[inline]
    fn stop(&mut self, empty_queue: bool) {
        self.stop(empty_queue);
    }

    fn part(&mut self) {
        self.part();
    }

    #[inline]
    fn stops(&self) -> bool {
        self.stops()
    }

    #[inline]
    fn finished(&self) -> bool {
        self.finished()
    }

    #[inline]
    fn reopen_logs(&mut self) {
        self.reopen_logs();
    }
}
