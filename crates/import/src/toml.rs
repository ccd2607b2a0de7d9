//! Values and keys of TOML.

use crate::variable::written;
use toml_writer::{TomlKeyBuilder, TomlStringBuilder, TomlWrite as _};

pub(crate) fn one_or_array(list: &[String]) -> String {
    match list {
        [one] => string(one),
        list => array(list),
    }
}

pub(crate) fn array(list: &[String]) -> String {
    format!("[{}]", list.iter().map(|text| string(text)).collect::<Vec<_>>().join(", "))
}

pub(crate) fn table(parts: &[String]) -> String {
    if parts.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", parts.join(", ")) }
}

pub(crate) fn key(name: &str) -> String {
    let mut text = String::new();
    // A String takes every text.
    let _ = text.key(TomlKeyBuilder::new(name).as_default());
    text
}

pub(crate) fn string(value: &str) -> String {
    let value = written(value);
    let mut text = String::new();
    let _ = text.value(TomlStringBuilder::new(&value).as_basic());
    text
}
