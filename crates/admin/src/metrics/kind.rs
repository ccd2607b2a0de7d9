//! The kinds of metric families.

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number that only increases.
    Counter,
    /// A number that increases and decreases.
    Gauge,
    /// Labels, with the number 1.
    Info,
    /// The number of values up to each bound.
    Histogram,
}

impl Kind {
    /// Returns the suffix of the names of samples.
    pub(super) const fn ending(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Gauge | Self::Histogram => "",
            Self::Info => "_info",
        }
    }
}
