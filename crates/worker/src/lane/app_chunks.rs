//! Removes the chunks of apps that frame their own content. Such apps were written for servers that pass everything through;
//! their heads contain `Transfer-Encoding: chunked`. An app cannot know how content is framed on its connection, because
//! that depends on the protocol and its version. So its chunks are removed here, and the content is framed like any other.

use oribi_host::{ExchangeId, Piece, ReplyError};
use oribi_message::{FieldPair, ResponseHead};
use oribi_proto::h1::FramedContent;
use std::cell::RefCell;

/// The number of exchanges at which the finished ones are removed; the next limit is twice the remaining number.
const MANY: usize = 64;

const BROKEN: ReplyError = ReplyError::Invalid("the content is not in the chunks that Transfer-Encoding announces");

/// The exchanges of a lane whose apps send chunks piece by piece.
#[derive(Debug, Default)]
pub(super) struct AppChunks {
    begun: RefCell<Begun>,
}

#[derive(Debug)]
struct Begun {
    exchanges: Vec<Framed>,
    bound: usize,
}

#[derive(Debug)]
struct Framed {
    exchange: ExchangeId,
    framed: FramedContent,
    /// The head, which is held until there is content: if the first piece of an app is not a chunk, the client gets a 500
    /// instead.
    head: Option<HeldHead>,
}

/// A copy of a head without the fields that describe the framing.
#[derive(Debug)]
pub(super) struct HeldHead {
    status: u16,
    fields: Vec<HeldField>,
}

/// The name and the value of a field.
type HeldField = (Box<[u8]>, Box<[u8]>);

impl HeldHead {
    pub(super) fn new(head: &ResponseHead<'_>) -> Self {
        let fields = other_fields(head).into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { status: head.status, fields }
    }

    /// Calls `act` with the head.
    pub(super) fn with<T>(&self, act: impl FnOnce(ResponseHead<'_>) -> T) -> T {
        let fields: Vec<FieldPair<'_>> = self.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        act(ResponseHead { status: self.status, fields: &fields })
    }
}

impl Default for Begun {
    fn default() -> Self {
        Self { exchanges: Vec::new(), bound: MANY }
    }
}

/// Whether the app frames its content.
#[inline]
pub(super) fn are_announced(head: &ResponseHead<'_>) -> bool {
    head.fields.iter().any(is_announcement)
}

#[inline]
fn is_announcement((name, value): &FieldPair<'_>) -> bool {
    const NAME: &[u8] = b"transfer-encoding";
    name.len() == NAME.len() && name.eq_ignore_ascii_case(NAME) && value.trim_ascii().eq_ignore_ascii_case(b"chunked")
}

/// The fields of a head except those that describe the framing. A Content-Length has no meaning next to chunks (RFC 9112,
/// section 6.3).
pub(super) fn other_fields<'a>(head: &ResponseHead<'a>) -> Vec<FieldPair<'a>> {
    let frames = |field: &FieldPair<'_>| is_announcement(field) || field.0.eq_ignore_ascii_case(b"content-length");
    head.fields.iter().filter(|field| !frames(field)).copied().collect()
}

/// Returns the content of the chunks of a whole response.
pub(super) fn split_chunks<'a>(parts: &[&'a [u8]]) -> Result<Vec<&'a [u8]>, ReplyError> {
    let (mut framed, mut content) = (FramedContent::new(), Vec::new());
    for part in parts {
        framed.read(part, |piece| content.push(piece)).map_err(|_| BROKEN)?;
    }
    if framed.may_end() { Ok(content) } else { Err(BROKEN) }
}

/// As [`split_chunks`], for pieces. A file is an error, because the server does not read files.
pub(super) fn split_chunked_pieces<'a>(pieces: &[Piece<'a>]) -> Result<Vec<&'a [u8]>, ReplyError> {
    let bytes = |piece: &Piece<'a>| match piece {
        Piece::Bytes(bytes) => Ok(*bytes),
        Piece::File { .. } => Err(BROKEN),
    };
    split_chunks(&pieces.iter().map(bytes).collect::<Result<Vec<_>, _>>()?)
}

impl AppChunks {
    /// Begins content in chunks, after this head. `is_open` returns whether an exchange is still unanswered.
    pub(super) fn begin(&self, exchange: ExchangeId, head: HeldHead, is_open: impl Fn(ExchangeId) -> bool) {
        let mut begun = self.begun.borrow_mut();
        if begun.exchanges.len() >= begun.bound {
            begun.exchanges.retain(|begin| is_open(begin.exchange));
            begun.bound = MANY.max(begun.exchanges.len() * 2);
        }
        begun.exchanges.push(Framed { exchange, framed: FramedContent::new(), head: Some(head) });
    }

    /// Takes the head of an exchange if it has not been sent yet.
    #[inline]
    pub(super) fn take_head(&self, exchange: ExchangeId) -> Option<HeldHead> {
        let mut begun = self.begun.borrow_mut();
        if begun.exchanges.is_empty() {
            return None;
        }
        begun.exchanges.iter_mut().find(|one| one.exchange == exchange)?.head.take()
    }

    /// Returns the content in a piece of chunks; `None` if the app sends no chunks.
    #[inline]
    pub(super) fn read<'a>(&self, exchange: ExchangeId, piece: &'a [u8]) -> Option<Result<Vec<&'a [u8]>, ReplyError>> {
        let mut begun = self.begun.borrow_mut();
        if begun.exchanges.is_empty() {
            return None;
        }
        let Framed { framed, .. } = begun.exchanges.iter_mut().find(|one| one.exchange == exchange)?;
        let mut content = Vec::new();
        Some(framed.read(piece, |piece| content.push(piece)).map(|()| content).map_err(|_| BROKEN))
    }

    /// Ends the content of an exchange that is finished or abandoned.
    ///
    /// # Errors
    /// The last chunk has not arrived.
    #[inline]
    pub(super) fn end(&self, exchange: ExchangeId) -> Result<(), ReplyError> {
        let mut begun = self.begun.borrow_mut();
        let Some(index) = begun.exchanges.iter().position(|one| one.exchange == exchange) else { return Ok(()) };
        let Framed { framed, .. } = begun.exchanges.swap_remove(index);
        if framed.may_end() { Ok(()) } else { Err(BROKEN) }
    }
}
