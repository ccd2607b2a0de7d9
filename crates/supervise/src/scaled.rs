//! The number of workers that was set while the previous server served. It also applies to the new server.
//!
//! `ORIBI_SCALED=123:2:4`: the previous server, process 123, was configured for 2 workers, and an order or a signal changed
//! that to 4. A fourth number 1 says that the number follows the load, and 4 was only the present one.

use super::inheritance::SCALED;
use oribi_config::Settings;
use oribi_io::process::environment::variable;

/// The number of workers that was set, and the configured number that it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scaled {
    pub(super) configured: usize,
    pub(super) wanted: usize,
    /// Whether the number follows the load.
    pub(super) follows_load: bool,
}

impl Scaled {
    /// Returns the value for the next server, from a server with a target of `wanted` workers, which follows the load if
    /// `follows_load`. `None` if that is the configured number, or if the app sleeps.
    pub(super) fn of(settings: &Settings, wanted: usize, follows_load: bool) -> Option<Self> {
        let configured = settings.workers.at_start();
        (wanted != configured && wanted > 0).then_some(Self { configured, wanted, follows_load })
    }

    /// Returns the number of workers that the previous server, process `before`, has left. `None` if it has left none.
    pub(super) fn left_by(before: i32) -> Option<Self> {
        parse(&variable(SCALED)?, before)
    }

    /// Returns the value of the variable in the environment of the next server.
    pub(super) fn describe(self) -> String {
        let load = if self.follows_load { ":1" } else { "" };
        format!("{}:{}:{}{load}", std::process::id(), self.configured, self.wanted)
    }
}

/// Parses the value of the variable. `None` if it is invalid, or does not come from process `before`: a server of a version
/// that does not know the variable passes it on unchanged.
fn parse(value: &str, before: i32) -> Option<Scaled> {
    let mut numbers = value.split(':');
    let named: i32 = numbers.next()?.parse().ok()?;
    let (configured, wanted) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let follows_load = match numbers.next() {
        None => false,
        Some("1") => true,
        Some(_) => return None,
    };
    (named == before && wanted > 0 && numbers.next().is_none()).then_some(Scaled { configured, wanted, follows_load })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_set_is_handed_on_and_others_are_not() {
        let settings = Settings { workers: 2.into(), ..Settings::default() };
        assert_eq!(Scaled::of(&settings, 2, false), None);
        assert_eq!(Scaled::of(&settings, 0, true), None, "it sleeps");
        for follows_load in [false, true] {
            let scaled = Scaled::of(&settings, 4, follows_load).expect("it was set");
            assert_eq!(parse(&scaled.describe(), std::process::id() as i32), Some(scaled));
        }
    }

    #[test]
    fn nonsense_and_numbers_of_other_servers_are_refused() {
        assert_eq!(parse("7:2:4", 7), Some(Scaled { configured: 2, wanted: 4, follows_load: false }));
        for value in
            ["", "7", "7:2", "7:2:", "7:2:x", "7:2:0", "7:2:-4", "7:2:4:0", "7:2:4:1:1", "8:2:4", "7:2:99999999999999999999"]
        {
            assert_eq!(parse(value, 7), None, "{value:?}");
        }
    }
}
