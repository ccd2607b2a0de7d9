//! Commands for other edges, in pieces through their boxes, and commands of workers outside of a request, in one piece.

use oribi_ipc::posts::{FIRST_PIECE as FIRST, LARGEST_POST, LAST_PIECE as LAST, POST_PREFIX as PREFIX, PostBoxes};
use std::collections::VecDeque;
use std::time::Duration;

/// The most bytes that may wait for one edge that does not read its box.
const WAITING: usize = 64 << 20;

/// The wait before a full box is tried again.
const AGAIN: Duration = Duration::from_millis(2);

/// The boxes of the other edges, and that of this one.
pub(super) struct Posts<'a> {
    edge: usize,
    boxes: Option<&'a PostBoxes>,
    /// The pieces that wait for each edge, and their bytes.
    waiting: Vec<(VecDeque<Vec<u8>>, usize)>,
    /// The pieces that have arrived from each edge; `None` between two commands.
    arriving: Vec<Option<Vec<u8>>>,
    buffer: Vec<u8>,
}

impl<'a> Posts<'a> {
    pub(super) fn new(edge: usize, boxes: Option<&'a PostBoxes>) -> Self {
        let count = boxes.map_or(0, PostBoxes::count);
        Self {
            edge,
            boxes,
            waiting: (0..count).map(|_| (VecDeque::new(), 0)).collect(),
            arriving: vec![None; count],
            buffer: Vec::new(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.iter().all(|(pieces, _)| pieces.is_empty())
    }

    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        (!self.is_idle()).then(|| now + AGAIN)
    }

    /// Sends commands to all other edges.
    pub(super) fn send_to_all(&mut self, commands: &[u8]) {
        (0..self.waiting.len())
            .filter(|edge| *edge != self.edge)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|edge| self.send(edge, commands));
    }

    /// Sends commands to another edge.
    pub(super) fn send(&mut self, edge: usize, commands: &[u8]) {
        let Some((pieces, bytes)) = self.waiting.get_mut(edge) else { return };
        if *bytes + commands.len() > WAITING {
            return log::error!("edge {} does not read its messages: one for its clients is lost", edge + 1);
        }
        let mut parts = commands.chunks(LARGEST_POST - PREFIX).peekable();
        let mut place = FIRST;
        while let Some(part) = parts.next() {
            let mut piece = Vec::with_capacity(PREFIX + part.len());
            piece.push(place | if parts.peek().is_none() { LAST } else { 0 });
            place = 0;
            piece.extend_from_slice(&(self.edge as u16).to_be_bytes());
            piece.extend_from_slice(part);
            *bytes += piece.len();
            pieces.push_back(piece);
        }
        self.flush_to(edge);
    }

    /// Sends the pieces that wait, as far as there is room.
    pub(super) fn flush(&mut self) {
        (0..self.waiting.len()).for_each(|edge| self.flush_to(edge));
    }

    fn flush_to(&mut self, edge: usize) {
        let (Some(boxes), (pieces, bytes)) = (self.boxes, &mut self.waiting[edge]) else { return };
        while let Some(piece) = pieces.front() {
            match boxes.send(edge, piece) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    log::error!("a message for the clients of edge {} is lost: {error}", edge + 1);
                    // The other pieces alone would be none.
                    let lost = pieces.iter().position(|piece| piece[0] & LAST != 0).map_or(pieces.len(), |last| last + 1);
                    *bytes -= pieces.drain(..lost).map(|piece| piece.len()).sum::<usize>();
                    continue;
                }
            }
            *bytes -= piece.len();
            pieces.pop_front();
        }
    }

    /// Returns the next commands of another process that have arrived whole.
    pub(super) fn receive(&mut self) -> Option<Vec<u8>> {
        let boxes = self.boxes?;
        self.buffer.resize(LARGEST_POST, 0);
        loop {
            let size = boxes.receive(self.edge, &mut self.buffer)?;
            let Some((&[place, high, low], part)) = self.buffer[..size].split_first_chunk::<PREFIX>() else { continue };
            if place == FIRST | LAST {
                return Some(part.to_vec());
            }
            let Some(arriving) = self.arriving.get_mut(usize::from(u16::from_be_bytes([high, low]))) else { continue };
            if place & FIRST != 0 {
                // An edge may have died in the middle of commands.
                *arriving = Some(Vec::new());
            }
            let Some(commands) = arriving else { continue };
            commands.extend_from_slice(part);
            if place & LAST != 0 {
                return arriving.take();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Posts;
    use oribi_ipc::posts::PostBoxes;

    #[test]
    fn commands_of_any_size_arrive_whole_at_all_others() {
        let boxes = PostBoxes::new(3).expect("sockets");
        let mut edges: Vec<Posts<'_>> = (0..3).map(|edge| Posts::new(edge, Some(&boxes))).collect();
        let large: Vec<u8> = (0..1_000_000u32).map(|number| number as u8).collect();
        edges[0].send_to_all(b"small");
        edges[0].send_to_all(&large);
        edges[2].send(1, b"of another");
        let mut found = Vec::new();
        while found.len() < 3 {
            found.extend(edges[1].receive());
            edges.iter_mut().for_each(Posts::flush);
        }
        assert!(found.contains(&b"small".to_vec()) && found.contains(&large) && found.contains(&b"of another".to_vec()));
        assert!(edges[0].receive().is_none(), "nothing for its sender");
        assert_eq!(edges[2].receive().as_deref(), Some(&b"small"[..]));
    }
}
