//! A tree of values that knows which of them were read: the rest is reported, so that nothing is dropped silently.

use crate::note::Key;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;
use std::fmt;

/// A value of JSON. Each method that returns a part of it marks that part as read.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    data: Data,
    read: Cell<bool>,
}

#[derive(Clone, Debug)]
enum Data {
    Null,
    Boolean(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    fn of(data: Data) -> Self {
        Self { data, read: Cell::new(false) }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().rev().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// The entries of a map; empty for other values, which stay unread.
    pub fn entries(&self) -> &[(String, Self)] {
        match &self.data {
            Data::Map(entries) => {
                self.read.set(true);
                entries
            }
            _ => &[],
        }
    }

    /// Whether the value is null, which is read then.
    pub fn is_null(&self) -> bool {
        let is_null = matches!(self.data, Data::Null);
        if is_null {
            self.read.set(true);
        }
        is_null
    }

    pub const fn is_map(&self) -> bool {
        matches!(self.data, Data::Map(_))
    }

    pub const fn is_list(&self) -> bool {
        matches!(self.data, Data::List(_))
    }

    /// The values of a list, or the value itself.
    pub fn values(&self) -> &[Self] {
        match &self.data {
            Data::List(nodes) => {
                self.read.set(true);
                nodes
            }
            _ => std::slice::from_ref(self),
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => {
                self.read.set(true);
                Some(text)
            }
            _ => None,
        }
    }

    /// A text, a number or a boolean, as a text.
    pub fn scalar(&self) -> Option<String> {
        let text = match &self.data {
            Data::Text(text) | Data::Number(text) => text.clone(),
            Data::Boolean(on) => on.to_string(),
            Data::Null | Data::List(_) | Data::Map(_) => return None,
        };
        self.read.set(true);
        Some(text)
    }

    pub fn number(&self) -> Option<u64> {
        match &self.data {
            Data::Number(text) => {
                let number = text.parse().ok()?;
                self.read.set(true);
                Some(number)
            }
            _ => None,
        }
    }

    pub fn boolean(&self) -> Option<bool> {
        match self.data {
            Data::Boolean(on) => {
                self.read.set(true);
                Some(on)
            }
            _ => None,
        }
    }

    /// Marks the value with all its parts as read: a note reports it.
    pub fn skip(&self) {
        self.read.set(true);
        match &self.data {
            Data::List(nodes) => nodes.iter().for_each(Self::skip),
            Data::Map(entries) => entries.iter().for_each(|(_, node)| node.skip()),
            _ => {}
        }
    }

    /// Calls `report` for each value that was not read.
    pub fn unread(&self, key: &Key, report: &mut dyn FnMut(Key)) {
        match &self.data {
            Data::Map(entries) if self.read.get() => {
                entries.iter().for_each(|(name, node)| node.unread(&key.inside(name), report));
            }
            Data::List(nodes) if self.read.get() => {
                nodes.iter().enumerate().for_each(|(index, node)| node.unread(&key.inside(&index.to_string()), report));
            }
            _ if self.read.get() => {}
            _ => report(key.clone()),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::of(Data::Null))
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<Node, E> {
        Ok(Node::of(Data::Boolean(on)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Node, E> {
        Ok(Node::of(Data::Number(number.to_string())))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Node, E> {
        Ok(Node::of(Data::Number(number.to_string())))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Node, E> {
        Ok(Node::of(Data::Number(number.to_string())))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        Ok(Node::of(Data::Text(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = access.next_element()? {
            nodes.push(node);
        }
        Ok(Node::of(Data::List(nodes)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::of(Data::Map(entries)))
    }
}
