//! Memory that an engine reuses for the next requests.

use super::answer::Draft;
use super::body::Gap;
use super::exchange::Received;
use super::leftovers::Leftovers;
use super::variables::Variables;
use super::{input, output};

/// Buffers and boxes between two uses.
#[derive(Default)]
pub(super) struct Memory {
    #[expect(clippy::vec_box, reason = "a box goes out with an exchange and comes back")]
    pub(super) spare_variables: Vec<Box<Variables>>,
    #[expect(clippy::vec_box, reason = "a box goes out and comes back")]
    pub(super) spare_requests: Vec<Box<Received>>,
    #[expect(clippy::vec_box, reason = "a box waits with its request and comes back")]
    pub(super) spare_drafts: Vec<Box<Draft>>,
    pub(super) inputs: input::Pool,
    pub(super) outputs: output::Pool,
    /// The positions of content in the response that is being framed.
    pub(super) gaps: Vec<Gap>,
    /// The layout for the next head.
    pub(super) blank: Box<Received>,
    /// The text of the next head of HTTP/2, which does not arrive as text.
    pub(super) head_text: Vec<u8>,
    /// Buffer for receiving content that goes to a file.
    pub(super) spool: Vec<u8>,
    /// Memory of the last content, for the next one.
    pub(super) spare_content: Vec<u8>,
    pub(super) leftovers: Leftovers,
}
