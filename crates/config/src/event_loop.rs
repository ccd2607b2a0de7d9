//! The event loop of a language that runs in a worker, or the scheduler of its fibers, and the number of requests that may then
//! wait in it.

use super::interface::Interface;

/// The most unfinished answers that a user may allow a worker: the memory for them is reserved when the server starts.
pub(crate) const MOST_OPEN: u32 = 4096;

/// The event loop that runs in a worker while its app waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoopChoice {
    /// The one that the app has loaded, if it has loaded any.
    #[default]
    Auto,
    /// None: the app blocks its worker.
    None,
    /// EV, for Perl.
    Ev,
    /// `AnyEvent`, for Perl.
    AnyEvent,
    /// `IO::Async`, for Perl.
    IoAsync,
    /// `Mojo::IOLoop`, for Perl.
    Mojo,
}

/// The settings of event loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLoop {
    /// The interface of the app; PAGI needs a loop.
    pub interface: Interface,
    /// The loop.
    pub choice: LoopChoice,
    /// Where a loop runs: the most unfinished answers of a worker, which then takes no further request.
    pub concurrency: usize,
    /// For Ruby: the most requests of a worker that run at once, each in a fiber. 0: a request holds its thread.
    pub fibers: usize,
}

impl EventLoop {
    /// The most unfinished answers of a worker in which a loop or a scheduler runs.
    #[must_use]
    pub const fn most_open(&self) -> usize {
        if self.fibers > 0 { self.fibers } else { self.concurrency }
    }
}

impl Default for EventLoop {
    fn default() -> Self {
        Self { interface: Interface::default(), choice: LoopChoice::default(), concurrency: 512, fibers: 0 }
    }
}

impl LoopChoice {
    const ALL: [Self; 6] = [Self::Auto, Self::None, Self::Ev, Self::AnyEvent, Self::IoAsync, Self::Mojo];

    /// The name for `--loop`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Ev => "ev",
            Self::AnyEvent => "anyevent",
            Self::IoAsync => "ioasync",
            Self::Mojo => "mojo",
        }
    }

    /// Parses a choice.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let name = text.trim().to_ascii_lowercase();
        let found = Self::ALL.into_iter().find(|choice| choice.name() == name);
        found.ok_or_else(|| "expected auto, none, ev, anyevent, ioasync or mojo".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_parsed_as_it_is_shown() {
        for choice in LoopChoice::ALL {
            assert_eq!(LoopChoice::parse(choice.name()), Ok(choice));
        }
        assert_eq!(LoopChoice::parse(" EV "), Ok(LoopChoice::Ev));
        assert!(LoopChoice::parse("glib").is_err_and(|expected| expected.contains("anyevent")));
    }

    #[test]
    fn fibers_take_the_place_of_the_concurrency_of_loops() {
        let settings = EventLoop { concurrency: 700, ..EventLoop::default() };
        assert_eq!(settings.most_open(), 700);
        assert_eq!(EventLoop { fibers: 100, ..settings }.most_open(), 100);
    }
}
