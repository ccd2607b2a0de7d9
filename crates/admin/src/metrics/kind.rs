//! What the samples of a family mean.

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Labels, with the number 1.
    Info,
    /// How many numbers are no larger than each of some bounds.
    Histogram,
}

impl Kind {
    /// What the names of samples end in.
    pub(super) const fn ending(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Gauge | Self::Histogram => "",
            Self::Info => "_info",
        }
    }
}
