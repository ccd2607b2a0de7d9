//! Small files beside a certificate's file: they keep the progress of its order while no process runs. Each says which
//! certificate and account it is for. A file for another one, or a damaged one, is ignored.

use crate::files::replace;
use crate::settings::{Names, Settings};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The largest file that is read, in bytes. Real ones are smaller: a certificate has at most some hundred names.
const LARGEST: u64 = 1 << 18;

/// The member with the subject of a file.
const SUBJECT: &str = "for";

/// Returns the subject of a file: the authority, the thumbprint of the account's key, and the names in any order.
pub(crate) fn subject(settings: &Settings, names: &Names, account: &str) -> Value {
    let mut names = names.all().to_vec();
    names.sort();
    json!({"directory": settings.directory, "account": account, "names": names})
}

/// Reads a file with this subject. `parse` gets its content, and returns `None` if that is damaged.
pub(crate) fn read<T>(path: &Path, subject: &Value, parse: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
    let value = match content(path) {
        Ok(content) => serde_json::from_slice(&content).unwrap_or(Value::Null),
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            log::warn!("cannot read {}: {error}; it is ignored", path.display());
            return None;
        }
    };
    let found = &value[SUBJECT];
    if found.is_object() && found != subject {
        return None;
    }
    let parsed = if found.is_object() { parse(&value) } else { None };
    if parsed.is_none() {
        log::warn!("{} is damaged, and is ignored", path.display());
    }
    parsed
}

fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(LARGEST).read_to_end(&mut content)?;
    Ok(content)
}

/// Writes a file with this subject.
pub(crate) fn write(path: &Path, subject: Value, mut content: Value) -> Result<(), String> {
    content[SUBJECT] = subject;
    replace(path, format!("{content}\n").as_bytes())
}

/// The present, in seconds since the Unix epoch.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
