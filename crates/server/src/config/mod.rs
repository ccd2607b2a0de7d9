//! What the server is told to do, and where each word of it came from.
//!
//! One table (`table`) says everything that is known of a setting: its names, its environment variable, its help and how its
//! text is read. A [`Config`] collects texts with their [`Origin`]; [`Config::finish`] makes [`Settings`] of them.

mod address;
mod counted;
pub(crate) mod cpus;
mod error;
mod given;
mod origin;
mod plan;
mod protective;
mod resolve;
mod setting;
mod settings;
mod table;
pub mod value;

pub(crate) use counted::counted;
pub use error::SettingError;
pub use given::Config;
pub use origin::Origin;
pub use plan::Plan;
pub use resolve::{Explained, Resolved};
pub use setting::{Section, Setting, table};
pub use settings::{AcceptModel, AccessFormat, IoModel, Limits, ListenAddress, LogTarget, Place, Protocol, Settings, Timeouts};
