//! A response head as a host passes it.

/// One field of a response: name and value, not yet validated.
pub type FieldPair<'a> = (&'a [u8], &'a [u8]);

/// Status and fields of a response, borrowed from the host. A name may occur several times.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The status code, 200 to 999 for a final response.
    pub status: u16,
    /// The fields in the order in which they are sent.
    pub fields: &'a [FieldPair<'a>],
}
