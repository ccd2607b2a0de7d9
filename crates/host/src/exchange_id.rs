//! The name of an exchange.

/// The name of an exchange. A host may keep it and answer later. A stale id yields
/// [`ReplyError::Gone`](crate::ReplyError::Gone); it never reaches another exchange's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExchangeId(pub u64);
