//! A radix tree that finds a text, or else the longest of many prefixes of it.

use crate::equal::equal;
use alloc::vec;
use alloc::vec::Vec;

/// A text or prefix, or both, and the rows that belong to them.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    /// The row of all longer texts that begin with the key, unless a longer key is found.
    pub(crate) prefix: Option<u32>,
    /// The row of the key itself.
    pub(crate) whole: Option<u32>,
}

/// The tree. A node stands for the texts that begin with all labels on the way to it.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    labels: Vec<u8>,
    /// For each node, the numbers of its children, from that with the least first byte to that with the greatest; 0: no child.
    children: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// The first eight bytes of the label, and the mask of those that it has.
    head: u64,
    head_mask: u64,
    /// The last eight bytes of a label that has more.
    tail: u64,
    /// The whole label in `labels`.
    label: u32,
    label_bytes: u32,
    /// The row of the text that ends here.
    end: u32,
    /// The row of the texts that go on, but not to a child.
    beyond: u32,
    children: u32,
    /// The number of places for children; 0 without any.
    child_places: u16,
    /// The first byte of the first child's label.
    first_byte: u8,
}

/// A node that is not built yet.
struct Pending {
    node: usize,
    /// The entries below the node.
    low: usize,
    high: usize,
    /// The bytes that the nodes above have consumed.
    depth: usize,
    /// The row of the longest prefix above.
    beyond: u32,
}

impl Tree {
    /// Builds the tree. The entries are sorted by their keys, which differ. `outside` is the row of all other texts.
    pub(crate) fn new(entries: &[Entry], outside: u32) -> Self {
        let root = Node { end: outside, beyond: outside, ..Node::default() };
        let mut tree = Self { nodes: vec![root], labels: Vec::new(), children: Vec::new() };
        let mut pending = Vec::new();
        if !entries.is_empty() {
            pending.push(Pending { node: 0, low: 0, high: entries.len(), depth: 0, beyond: outside });
        }
        // Keys may be nested thousands of times, so this is no recursion.
        while let Some(next) = pending.pop() {
            tree.build(entries, &next, &mut pending);
        }
        tree
    }

    fn build(&mut self, entries: &[Entry], at: &Pending, pending: &mut Vec<Pending>) {
        let mut below = &entries[at.low..at.high];
        let (Some(least), Some(greatest)) = (below.first(), below.last()) else { return };
        // The root has no label, so that a search begins with a child.
        let shared = match at.node {
            0 => 0,
            _ => least.key.iter().zip(&greatest.key).take_while(|(one, other)| one == other).count(),
        };
        let label = &least.key[at.depth..shared];
        let (head, head_mask) =
            label.iter().take(8).rev().fold((0, 0), |(head, mask), byte| (head << 8 | u64::from(*byte), mask << 8 | 0xff));
        let mut node = Node {
            head,
            head_mask,
            tail: label.last_chunk::<8>().map_or(0, |tail| u64::from_le_bytes(*tail)),
            label: self.labels.len() as u32,
            label_bytes: label.len() as u32,
            end: at.beyond,
            beyond: at.beyond,
            children: self.children.len() as u32,
            child_places: 0,
            first_byte: 0,
        };
        self.labels.extend_from_slice(label);
        let mut low = at.low;
        if least.key.len() == shared {
            node.beyond = least.prefix.unwrap_or(at.beyond);
            node.end = least.whole.unwrap_or(node.beyond);
            below = &below[1..];
            low += 1;
        }
        if let (Some(least), Some(greatest)) = (below.first(), below.last()) {
            node.first_byte = least.key[shared];
            node.child_places = u16::from(greatest.key[shared] - node.first_byte) + 1;
            self.children.resize(self.children.len() + usize::from(node.child_places), 0);
            for group in below.chunk_by(|one, other| one.key[shared] == other.key[shared]) {
                let child = self.nodes.len();
                self.children[node.children as usize + usize::from(group[0].key[shared] - node.first_byte)] = child as u32;
                self.nodes.push(node.clone());
                pending.push(Pending { node: child, low, high: low + group.len(), depth: shared, beyond: node.beyond });
                low += group.len();
            }
        }
        self.nodes[at.node] = node;
    }

    /// The row of a text, which ends before the byte `end`, if it has one.
    #[inline(always)]
    pub(crate) fn find(&self, text: &[u8], end: Option<u8>) -> Found {
        let mut node = &self.nodes[0];
        let mut rest = text;
        let ended = loop {
            let byte = match rest.first() {
                Some(byte) if Some(*byte) != end => byte,
                _ => break true,
            };
            let place = usize::from(byte.wrapping_sub(node.first_byte));
            if place >= usize::from(node.child_places) {
                break false;
            }
            let child = match self.children.get(node.children as usize + place) {
                Some(0) | None => break false,
                Some(number) => &self.nodes[*number as usize],
            };
            let bytes = child.label_bytes as usize;
            let Some((start, behind)) = rest.split_at_checked(bytes) else { break false };
            let equal = match rest.first_chunk::<8>() {
                Some(head) if bytes <= 8 => (u64::from_le_bytes(*head) ^ child.head) & child.head_mask == 0,
                Some(head) if bytes <= 16 => {
                    let tail = start.last_chunk::<8>().map_or(0, |tail| u64::from_le_bytes(*tail));
                    u64::from_le_bytes(*head) == child.head && tail == child.tail
                }
                _ => equal(start, &self.labels[child.label as usize..][..bytes]),
            };
            if !equal {
                break false;
            }
            node = child;
            rest = behind;
        };
        Found { row: if ended { node.end } else { node.beyond }, known: text.len() - rest.len(), ended }
    }
}

/// The result of a search.
pub(crate) struct Found {
    pub(crate) row: u32,
    /// The number of the first bytes that were compared: keys begin with them.
    pub(crate) known: usize,
    /// Whether these are all bytes of the text.
    pub(crate) ended: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, Option<u32>, Option<u32>)]) -> Tree {
        let entry = |(key, prefix, whole): &(&str, Option<u32>, Option<u32>)| Entry {
            key: key.as_bytes().to_vec(),
            prefix: *prefix,
            whole: *whole,
        };
        Tree::new(&entries.iter().map(entry).collect::<Vec<_>>(), 0)
    }

    #[test]
    fn the_longest_prefix_is_found_unless_the_whole_text_is() {
        let tree = tree(&[
            ("/", Some(1), Some(2)),
            ("/api", None, Some(3)),
            ("/api/", Some(4), None),
            ("/api/users", Some(5), Some(6)),
            ("/apple", None, Some(7)),
            ("/z", Some(8), None),
        ]);
        for (text, row) in [
            ("", 0),
            ("x", 0),
            ("/", 2),
            ("/a", 1),
            ("/ap", 1),
            ("/api", 3),
            ("/apix", 1),
            ("/api/", 4),
            ("/api/user", 4),
            ("/api/users", 6),
            ("/api/users/1", 5),
            ("/appl", 1),
            ("/apple", 7),
            ("/apples", 1),
            ("/z", 8),
            ("/zz", 8),
            ("/\u{ff}", 1),
        ] {
            assert_eq!(tree.find(text.as_bytes(), None).row, row, "{text}");
        }
    }

    #[test]
    fn a_text_may_end_before_a_byte() {
        let tree = tree(&[("/a", Some(1), Some(2)), ("/ab/c", None, Some(3))]);
        for (text, row, known, ended) in [
            ("/a?", 2, 2, true),
            ("/a??b", 2, 2, true),
            ("/ab?", 1, 2, false),
            ("/ab/c?x", 3, 5, true),
            ("/ab/c", 3, 5, true),
            ("/ab/cd?", 1, 5, false),
            ("/?", 0, 0, false),
        ] {
            let found = tree.find(text.as_bytes(), Some(b'?'));
            assert_eq!((found.row, found.known, found.ended), (row, known, ended), "{text}");
        }
    }

    #[test]
    fn an_empty_tree_has_only_the_outside() {
        let tree = tree(&[]);
        assert_eq!((tree.find(b"", None).row, tree.find(b"/", None).row), (0, 0));
    }

    #[test]
    fn nested_keys_of_any_depth_are_built_and_found() {
        let keys: Vec<Vec<u8>> = (1..3000).map(|length| vec![b'a'; length]).collect();
        let entry = |key: &Vec<u8>| Entry { key: key.clone(), prefix: None, whole: Some(key.len() as u32) };
        let tree = Tree::new(&keys.iter().map(entry).collect::<Vec<_>>(), 0);
        for length in 0..3000 {
            assert_eq!(tree.find(&keys[2998][..length], None).row, length as u32);
        }
        assert_eq!(tree.find(&[b'a'; 3000], None).row, 0);
    }
}
