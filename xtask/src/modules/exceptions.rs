//! The uses that make cycles today and are to be ended. One that makes no cycle any more is a breach itself: this list only shrinks.

/// One module's use of another.
pub struct Exception {
    /// The module whose children they are: the folder of the crate, and names from there on.
    pub level: &'static str,
    pub from: &'static str,
    pub to: &'static str,
}

const fn except(level: &'static str, from: &'static str, to: &'static str) -> Exception {
    Exception { level, from, to }
}

pub const EXCEPTIONS: &[Exception] = &[];
