//! Steps 4 and 5, answer and end: the calls of hosts, for whole responses and for pieces.

use super::Intake;
use super::backlog::ResponsePart;
use super::open::{Open, Step};
use oribi_host::{ExchangeId, Piece, ReplyError};
use oribi_io::process::orders::{Mailbox, Run};
use oribi_ipc::slot::{Content, encode_head, encode_interim, encode_prepared, encode_trailers, head_size, write_whole};
use oribi_message::{FieldPair, PreparedFields, ResponseHead};
use oribi_pool::{HEAD_BYTES, NotWritten, Taken, Worker};
use oribi_proto::h1::{InvalidResponse, check_head, check_informational, check_trailers};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

const TRAILERS_TOO_LARGE: ReplyError =
    ReplyError::Invalid("the trailers of the response are larger than the memory for a response");
const HEAD_TOO_LARGE: ReplyError = ReplyError::Invalid("the head of the response is larger than 1 MiB");
const INTERIM_TOO_LARGE: ReplyError =
    ReplyError::Invalid("the head of an informational response is larger than the memory for a response");

impl Intake<'_> {
    /// Sends a whole response.
    #[inline]
    pub(super) fn respond(&mut self, exchange: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError> {
        self.check(exchange, &head)?;
        let mut open = self.begin_whole(exchange)?;
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        let size = bytes as u64;
        if open.backlog.is_empty() {
            let worker = &mut self.pools[open.pool];
            let write = |room: &mut [u8]| write_whole(&head, parts, size, room);
            match worker.respond_in_place(open.taken, head_size(&head), bytes, write) {
                Ok(()) => {
                    self.note_answered(exchange);
                    return Ok(());
                }
                Err(taken) => open.taken = taken,
            }
        }
        self.head.clear();
        encode_head(&head, Content::Whole { size }, &mut self.head);
        self.respond_bytes(exchange, open, size, parts)
    }

    /// Sends a whole response with some of its content in files.
    pub(super) fn respond_pieces(
        &mut self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        pieces: &[Piece<'_>],
    ) -> Result<(), ReplyError> {
        let size = pieces.iter().map(Piece::size).sum();
        self.check(exchange, &head)?;
        self.head.clear();
        encode_head(&head, Content::Whole { size }, &mut self.head);
        let open = self.begin_whole(exchange)?;
        self.finish_with(exchange, open, pieces)
    }

    /// Sends a whole response with status 200 and prepared fields.
    pub(super) fn respond_prepared(
        &mut self,
        exchange: ExchangeId,
        fields: &PreparedFields,
        content: Piece<'_>,
    ) -> Result<(), ReplyError> {
        let size = content.size();
        self.head.clear();
        encode_prepared(fields, Content::Whole { size }, &mut self.head);
        match content {
            Piece::Bytes(bytes) => {
                let open = self.begin_whole(exchange)?;
                self.respond_bytes(exchange, open, size, &[bytes])
            }
            Piece::File { .. } => {
                let open = self.begin_whole(exchange)?;
                self.finish_with(exchange, open, &[content])
            }
        }
    }

    /// Sends the encoded head, and content in memory.
    fn respond_bytes(&mut self, exchange: ExchangeId, mut open: Open, size: u64, parts: &[&[u8]]) -> Result<(), ReplyError> {
        if open.backlog.is_empty() {
            let worker = &mut self.pools[open.pool];
            match worker.respond(open.taken, &self.head, parts) {
                Ok(()) => {
                    self.note_answered(exchange);
                    return Ok(());
                }
                Err(taken) => open.taken = taken,
            }
        }
        match in_file(parts) {
            Ok(file) => self.finish_with(exchange, open, &[Piece::File { file: &Arc::new(file), offset: 0, size }]),
            Err(error) => {
                // The content then waits in the memory of the process.
                log::error!("cannot put a response into a file: {}", oribi_engine::shortage::explain(&error));
                let pieces: Vec<Piece<'_>> = parts.iter().map(|part| Piece::Bytes(part)).collect();
                self.finish_with(exchange, open, &pieces)
            }
        }
    }

    /// Records that the app has answered. From now on the supervisor watches whether the app returns.
    #[inline]
    fn note_answered(&self, exchange: ExchangeId) {
        if let Some(running) = &self.running {
            running.note_progress(exchange);
        }
    }

    /// Removes an exchange that is about to get a whole response. (Inlined, because otherwise it would be copied field by field.)
    #[inline(always)]
    fn begin_whole(&mut self, exchange: ExchangeId) -> Result<Open, ReplyError> {
        let open = self.opened.remove(exchange).ok_or(ReplyError::Gone)?;
        let still = open.check(&self.pools);
        if still.is_ok() && open.step == Step::Unanswered { Ok(open) } else { Err(self.refuse_whole(open, still)) }
    }

    /// Abandons an exchange that cannot get a whole response, or puts it back if its app has finished with it; returns the
    /// reason.
    #[cold]
    fn refuse_whole(&mut self, open: Open, still: Result<(), ReplyError>) -> ReplyError {
        if open.step == Step::Ended {
            self.opened.put_back(open);
        } else {
            self.pools[open.pool].abandon(open.taken);
        }
        still.err().unwrap_or(ReplyError::Invalid("the response has already begun"))
    }

    /// Writes the encoded head and pieces, and ends the response.
    fn finish_with(&mut self, exchange: ExchangeId, mut open: Open, pieces: &[Piece<'_>]) -> Result<(), ReplyError> {
        let worker = &mut self.pools[open.pool];
        if let Err(why) = open.put_head(worker, &self.head) {
            worker.abandon(open.taken);
            return Err(why);
        }
        for piece in pieces {
            match *piece {
                Piece::Bytes(bytes) => open.put_content(worker, bytes),
                Piece::File { file, offset, size } => open.put_file(worker, file, offset, size),
            }
        }
        self.end(exchange, open);
        Ok(())
    }

    /// Ends a response. If a part of it waits for room, the exchange stays open until that is written.
    fn end(&mut self, exchange: ExchangeId, mut open: Open) {
        self.note_answered(exchange);
        let worker = &mut self.pools[open.pool];
        if open.backlog.is_empty() {
            worker.finish(open.taken);
        } else {
            worker.flush(&open.taken);
            open.step = Step::Ended;
            self.opened.put_back(open);
        }
    }

    /// Begins a response whose content follows.
    pub(super) fn start(&mut self, exchange: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        self.check(exchange, &head)?;
        self.head.clear();
        encode_head(&head, Content::Started, &mut self.head);
        self.look_up(exchange, Step::Unanswered, "the response has already begun")?;
        let status = head.status;
        let Self { opened, pools, head, .. } = self;
        let open = opened.get_mut(exchange).ok_or(ReplyError::Gone)?;
        open.step = Step::Started;
        open.bodiless |= matches!(status, 204 | 205 | 304);
        let put = open.put_head(&mut pools[open.pool], head);
        if put.is_err() {
            self.drop_open(exchange);
        }
        put
    }

    /// Sends a piece of content, and returns how many bytes wait for room. Ends a response that must not have any content.
    pub(super) fn write(&mut self, exchange: ExchangeId, piece: &[u8]) -> Result<usize, ReplyError> {
        self.look_up(exchange, Step::Started, "the content came before the response began")?;
        let Self { opened, pools, .. } = self;
        let open = opened.get_mut(exchange).ok_or(ReplyError::Gone)?;
        if open.bodiless && !piece.is_empty() {
            self.finish(exchange)?;
            return Err(ReplyError::Gone);
        }
        let worker = &mut pools[open.pool];
        open.put_content(worker, piece);
        worker.flush(&open.taken);
        Ok(open.backlog.bytes())
    }

    /// Returns the number of exchanges that the app has not answered completely.
    pub(super) fn answering(&self) -> usize {
        self.opened.iter().filter(|open| open.step != Step::Ended).count()
    }

    /// Returns the mailbox in which the edge leaves its orders for the app.
    pub(super) fn mailbox(&self, exchange: ExchangeId) -> Option<Mailbox> {
        let open = self.opened.get(exchange)?;
        let (orders, run) = self.pools[open.pool].order_word(&open.taken);
        Some(Mailbox { orders, run: Run::Fixed(run) })
    }

    /// Sends the edge a new deadline for the app.
    pub(super) fn extend_deadline(&mut self, exchange: ExchangeId, time: Option<Duration>) {
        let Self { opened, pools, running, .. } = self;
        let Some(open) = opened.get_mut(exchange).filter(|open| open.step != Step::Ended) else {
            // The app has answered already.
            return running.iter().for_each(|running| running.extend(exchange, time));
        };
        running.iter().for_each(|running| running.allow(exchange, time));
        let worker = &mut pools[open.pool];
        if worker.deadline(&mut open.taken, time).is_err() {
            log::error!(
                "an app's new deadline for its request is ignored, because its response already waits for the client; the old \
                 one stays"
            );
        }
    }

    /// Returns the number of bytes that wait for room.
    pub(super) fn waiting(&self, exchange: ExchangeId) -> Result<usize, ReplyError> {
        let open = self.opened.get(exchange).ok_or(ReplyError::Gone)?;
        open.check(&self.pools)?;
        Ok(open.backlog.bytes())
    }

    /// Ends the response after its content.
    pub(super) fn finish(&mut self, exchange: ExchangeId) -> Result<(), ReplyError> {
        let open = self.take_started(exchange)?;
        self.end(exchange, open);
        Ok(())
    }

    /// Ends the content, with trailers.
    pub(super) fn finish_with_trailers(&mut self, exchange: ExchangeId, trailers: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        // The same check as in the edge, because the app can get the error only here.
        if let Err(InvalidResponse(why)) = check_trailers(trailers) {
            self.abandon(exchange);
            return Err(ReplyError::Invalid(why));
        }
        let mut open = self.take_started(exchange)?;
        let Self { pools, head, .. } = self;
        head.clear();
        encode_trailers(trailers, head);
        let worker = &mut pools[open.pool];
        let put = open.put(worker, |worker, taken| worker.trailers(taken, head), || ResponsePart::Trailers(head.clone()));
        if put.is_err() {
            worker.abandon(open.taken);
            return Err(TRAILERS_TOO_LARGE);
        }
        self.end(exchange, open);
        Ok(())
    }

    /// Removes an exchange whose content is about to end.
    fn take_started(&mut self, exchange: ExchangeId) -> Result<Open, ReplyError> {
        let open = self.opened.get(exchange).ok_or(ReplyError::Gone)?;
        if open.step == Step::Unanswered {
            return Err(ReplyError::Invalid("the content ended before the response began"));
        }
        self.look_up(exchange, Step::Started, "")?;
        self.opened.remove(exchange).ok_or(ReplyError::Gone)
    }

    /// Ends an exchange without a complete response.
    pub(super) fn abandon(&mut self, exchange: ExchangeId) {
        if self.opened.get(exchange).is_some_and(|open| open.step != Step::Ended) {
            self.drop_open(exchange);
        }
    }

    /// Abandons every exchange that was lent and not answered.
    pub(super) fn abandon_all(&mut self) {
        for open in self.opened.take_all(|open| open.step != Step::Ended) {
            self.pools[open.pool].abandon(open.taken);
        }
    }

    /// Sends an informational response.
    pub(super) fn inform(&mut self, exchange: ExchangeId, status: u16, fields: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        check_informational(status, fields).map_err(|InvalidResponse(why)| ReplyError::Invalid(why))?;
        let Self { opened, pools, head, .. } = self;
        let open = opened.get_mut(exchange).ok_or(ReplyError::Gone)?;
        open.check(pools)?;
        if open.step != Step::Unanswered {
            return Err(ReplyError::Invalid("the response has already begun"));
        }
        head.clear();
        encode_interim(status, fields, head);
        let worker = &mut pools[open.pool];
        open.put(worker, |worker, taken| worker.interim(taken, head), || ResponsePart::Interim(head.clone()))?;
        worker.flush(&open.taken);
        Ok(())
    }

    /// Gives the edge commands for the connection of an exchange.
    pub(super) fn command(&mut self, exchange: ExchangeId, commands: &[u8]) -> Result<(), ReplyError> {
        let Self { opened, pools, .. } = self;
        let open = opened.get_mut(exchange).ok_or(ReplyError::Gone)?;
        open.check(pools)?;
        let worker = &mut pools[open.pool];
        let written = if open.backlog.is_empty() { worker.commands(&mut open.taken, commands) } else { 0 };
        if written < commands.len() {
            open.backlog.push(ResponsePart::Commands(commands[written..].to_vec(), 0));
        }
        worker.flush(&open.taken);
        Ok(())
    }

    /// Sends a message to the log of the web server that sent the request; `false` without such a log, or without room.
    pub(super) fn report(&mut self, exchange: ExchangeId, message: &[u8]) -> bool {
        let Self { opened, pools, .. } = self;
        let Some(open) = opened.get_mut(exchange) else { return false };
        if !open.gateway || open.check(pools).is_err() || !open.backlog.is_empty() {
            return false;
        }
        let worker = &mut pools[open.pool];
        let written = worker.message(&mut open.taken, message).is_ok();
        worker.flush(&open.taken);
        written
    }

    /// Checks a head as the edge does, because the app can get the error only here.
    #[inline]
    fn check(&mut self, exchange: ExchangeId, head: &ResponseHead<'_>) -> Result<(), ReplyError> {
        check_head(head).map_err(|InvalidResponse(why)| {
            self.abandon(exchange);
            ReplyError::Invalid(why)
        })
    }

    /// Checks that the response to an exchange is in the state `step`. Otherwise the app has broken a rule, which `broken`
    /// names, and the exchange is abandoned.
    #[inline]
    fn look_up(&mut self, exchange: ExchangeId, step: Step, broken: &'static str) -> Result<(), ReplyError> {
        let open = self.opened.get(exchange).ok_or(ReplyError::Gone)?;
        if open.check(&self.pools).is_err() {
            if open.step != Step::Ended {
                self.drop_open(exchange);
            }
            return Err(ReplyError::Gone);
        }
        if open.step != step {
            self.drop_open(exchange);
            return Err(ReplyError::Invalid(broken));
        }
        Ok(())
    }

    #[cold]
    fn drop_open(&mut self, exchange: ExchangeId) {
        if let Some(open) = self.opened.remove(exchange) {
            self.pools[open.pool].abandon(open.taken);
        }
    }
}

impl Open {
    /// Writes a part, or stores it in the backlog if there is no room now.
    fn put(
        &mut self,
        worker: &mut Worker,
        write: impl FnOnce(&mut Worker, &mut Taken) -> Result<(), NotWritten>,
        part: impl FnOnce() -> ResponsePart,
    ) -> Result<(), ReplyError> {
        if !self.backlog.is_empty() {
            self.backlog.push(part());
            return Ok(());
        }
        match write(worker, &mut self.taken) {
            Ok(()) => Ok(()),
            Err(NotWritten::Full) => {
                self.backlog.push(part());
                Ok(())
            }
            Err(NotWritten::Never(_)) => Err(INTERIM_TOO_LARGE),
        }
    }

    fn put_head(&mut self, worker: &mut Worker, head: &[u8]) -> Result<(), ReplyError> {
        if head.len() > HEAD_BYTES {
            return Err(HEAD_TOO_LARGE);
        }
        let mut written = 0;
        if self.backlog.is_empty() {
            if worker.head_in_pieces(&mut self.taken, head, &mut written).is_ok() {
                return Ok(());
            }
            // There is room again when the edge has read the pieces.
            worker.flush(&self.taken);
        }
        self.backlog.push(ResponsePart::Head(head.to_vec(), written));
        Ok(())
    }

    fn put_content(&mut self, worker: &mut Worker, bytes: &[u8]) {
        let written = if self.backlog.is_empty() { worker.content(&mut self.taken, bytes) } else { 0 };
        if written < bytes.len() {
            self.backlog.push(ResponsePart::Content(bytes[written..].to_vec(), 0));
        }
    }

    fn put_file(&mut self, worker: &mut Worker, file: &Arc<File>, offset: u64, size: u64) {
        let written = self.backlog.is_empty() && worker.file(&mut self.taken, file.as_fd(), offset, size).is_ok();
        if !written {
            // If the part can never be written, the next attempt fails.
            self.backlog.push(ResponsePart::File { file: Arc::clone(file), offset, size });
        }
    }
}

/// Returns a file in memory with these bytes. The edge sends it from there, even if this worker ends or the client is slow,
/// so a large response occupies no area.
#[cold]
fn in_file(parts: &[&[u8]]) -> io::Result<File> {
    let mut file = File::from(memfd_create("oribi-response", MemfdFlags::CLOEXEC)?);
    parts.iter().try_for_each(|part| file.write_all(part))?;
    Ok(file)
}
