//! The draft of a certificate: its new key, and the order that is about to be finalized. It is stored before that, because the
//! authority may issue the certificate from then on. Without the key that would be of no use, and authorities limit how many
//! certificates they issue for the same names: Let's Encrypt five a week.

use crate::files::remove;
use crate::record::{self, now};
use crate::request::{generate_key, key_of};
use crate::session::link;
use crate::settings::{Names, Settings};
use serde_json::{Value, json};

/// The time after which an order is given up, in seconds. Let's Encrypt's orders expire after a week. An authority whose orders
/// do not expire must not block new ones forever.
const LIFE: u64 = 7 * 24 * 3600;

/// The key of a certificate, and its order.
pub(crate) struct Draft {
    /// The URL of the order.
    pub(crate) order: String,
    /// The key, in PEM.
    pub(crate) key: String,
    /// The time of the order, in seconds since the Unix epoch.
    begun: u64,
}

impl Draft {
    /// Makes a draft with a new key. It is not stored yet.
    pub(crate) fn new(order: &str) -> Result<Self, String> {
        Ok(Self { order: order.to_owned(), key: generate_key()?, begun: now() })
    }

    /// Reads the draft that an earlier process has left. `None` if there is none for these names and this account.
    pub(crate) fn read(settings: &Settings, names: &Names, account: &str) -> Option<Self> {
        let subject = record::subject(settings, names, account);
        let draft = record::read(&settings.order_file(names), &subject, Self::parse)?;
        // That process may have been killed when the certificate was in its file.
        let is_finished = std::fs::read(settings.file(names)).is_ok_and(|content| content.starts_with(draft.key.as_bytes()));
        if is_finished {
            Self::remove(settings, names);
        }
        (!is_finished).then_some(draft)
    }

    fn parse(value: &Value) -> Option<Self> {
        let order = link(&value["order"])?.to_owned();
        Some(Self { order, key: key_of(value["key"].as_str()?)?, begun: value["begun"].as_u64()? })
    }

    /// Stores the draft.
    pub(crate) fn write(&self, settings: &Settings, names: &Names, account: &str) -> Result<(), String> {
        let content = json!({"order": self.order, "key": self.key, "begun": self.begun});
        record::write(&settings.order_file(names), record::subject(settings, names, account), content)
    }

    /// Removes the file of the draft.
    pub(crate) fn remove(settings: &Settings, names: &Names) {
        remove(&settings.order_file(names));
    }

    /// Makes the next attempt begin another order.
    pub(crate) fn give_up(&mut self, settings: &Settings, names: &Names) {
        self.begun = 0;
        Self::remove(settings, names);
    }

    /// Whether another order must be begun. The clock may have been set back.
    pub(crate) fn is_given_up(&self) -> bool {
        self.begun.abs_diff(now()) > LIFE
    }
}
