//! What happens to a server. Each act waits until it is over, and says how often something has happened.

pub mod deaths;
pub mod reloads;
pub mod staff;
pub mod starter;
pub mod upgrades;

use crate::scene::Scene;

#[derive(Clone, Copy)]
pub struct Act {
    pub name: &'static str,
    /// Says how often it has happened.
    ///
    /// # Errors
    /// It does not come to its end.
    pub perform: fn(&Scene) -> Result<usize, String>,
}
