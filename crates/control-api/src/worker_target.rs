//! The number of workers in an order.

use std::fmt::{self, Display, Formatter};

/// The number of workers that an order sets, or its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerTarget {
    /// This number, at least 1, whatever the load is.
    Number(usize),
    /// The number follows the load between these two. With 0 the app may sleep.
    Between {
        /// The lowest number.
        least: usize,
        /// The highest number, at least 1.
        most: usize,
    },
    /// The number, or the limits, of the settings.
    Auto,
}

impl WorkerTarget {
    /// Parses `NUMBER`, `MIN:MAX` or `auto`. `None` if it is none of these.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "auto" {
            return Some(Self::Auto);
        }
        let number = |text: &str| text.parse::<usize>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        match text.split_once(':') {
            None => number(text).filter(|number| *number > 0).map(Self::Number),
            Some((least, most)) => {
                let (least, most) = (number(least)?, number(most)?);
                (most > 0 && least <= most).then_some(Self::Between { least, most })
            }
        }
    }
}

impl Display for WorkerTarget {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Between { least, most } => write!(formatter, "{least}:{most}"),
            Self::Auto => formatter.write_str("auto"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WorkerTarget;

    #[test]
    fn a_number_a_range_or_that_of_the_settings() {
        for text in ["1", "64", "0:4", "2:8", "3:3", "auto"] {
            assert_eq!(WorkerTarget::parse(text).map(|target| target.to_string()), Some(text.to_owned()));
        }
        for text in ["", "0", "-1", "+1", "x", "0:0", "4:2", ":", "1:", ":1", "1:2:3", "Auto", "99999999999999999999"] {
            assert_eq!(WorkerTarget::parse(text), None, "{text:?}");
        }
    }
}
