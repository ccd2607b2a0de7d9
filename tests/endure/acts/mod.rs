//! The events of a server. Each act waits until it is over, and returns the number of events.

pub mod deaths;
pub mod reloads;
pub mod staff;
pub mod starter;
pub mod upgrades;

use crate::scene::Scene;

#[derive(Clone, Copy)]
pub struct Act {
    pub name: &'static str,
    /// Performs the act. Returns how often it has happened.
    ///
    /// # Errors
    /// The act does not end.
    pub perform: fn(&Scene) -> Result<usize, String>,
}
