//! Passengerfile.json: the flags of `passenger start` as keys.

use super::flags::{Argument, To};
use super::front::find;
use super::serve::serve_keys;
use super::servers::PASSENGER;
use crate::draft::Draft;
use crate::note::Key;
use crate::tree::Node;
use crate::unreadable::Unreadable;

/// Fills a draft.
///
/// # Errors
/// The JSON is no object.
pub(crate) fn passengerfile(root: &Node, draft: &mut Draft) -> Result<(), Unreadable> {
    let Some(server) = find("passenger").filter(|_| root.is_map()) else {
        return Err(Unreadable::new("a Passengerfile.json is an object"));
    };
    let mut keys = Vec::new();
    for (name, node) in root.entries() {
        let key = Key::new(name);
        if name == "envvars" {
            for (name, value) in node.entries() {
                let Some(value) = value.scalar() else { continue };
                let argument = Argument { flag: String::new(), value: Some(format!("{name}={value}")), to: Some(To::Variable) };
                keys.push((argument, key.inside(name)));
            }
            continue;
        }
        if name == "app_type" && node.text() == Some("rack") {
            draft.same(&key, "config.ru is an app for Rack");
            continue;
        }
        let flag = format!("--{}", name.replace('_', "-"));
        let row = PASSENGER.iter().find(|row| row.names.contains(&&*flag));
        let value = match node.boolean() {
            Some(false) => {
                draft.same(&key, "it is off");
                continue;
            }
            Some(true) => None,
            None if node.is_list() => Some(node.values().iter().filter_map(Node::scalar).collect::<Vec<_>>().join(",")),
            None => node.scalar(),
        };
        if value.is_none() && node.boolean().is_none() {
            // An unexpected type is reported below.
            continue;
        }
        keys.push((Argument { flag, value, to: row.map(|row| row.to) }, key));
    }
    serve_keys(server, keys, draft);
    root.unread(&Key::default(), &mut |key| draft.lost(&key, "not known, or not of the expected type"));
    Ok(())
}
