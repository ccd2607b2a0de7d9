//! Commands for the owners of other boxes, in pieces, and commands of workers outside of a request, in one piece.

use super::{FIRST_PIECE as FIRST, LARGEST_POST, LAST_PIECE as LAST, POST_PREFIX as PREFIX, PostBoxes};
use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The most bytes that may wait for an owner that does not read its box.
const WAITING: usize = 64 << 20;

/// The most bytes that wait for an owner that has caught up: the next loss is logged.
const CAUGHT_UP: usize = WAITING / 2;

/// The wait before a full box is tried again.
const AGAIN: Duration = Duration::from_millis(2);

/// Marks the number of a sender without a box.
const BOXLESS: u16 = 1 << 15;

/// The most senders without a box whose parts are kept; some may have died in the middle of commands.
const MOST_BOXLESS: usize = 8;

/// The box of this process, which is an edge or the relay, and those of the others.
#[derive(Debug)]
pub struct Posts<'a> {
    /// The number of the box of this process; `usize::MAX` if it has none any longer.
    own: usize,
    /// The number by which others put the pieces of this process together.
    sender: u16,
    boxes: Option<&'a PostBoxes>,
    /// The pieces that wait for each owner, and their bytes.
    waiting: Vec<(VecDeque<Vec<u8>>, usize)>,
    /// The pieces that have arrived, by their senders.
    arriving: HashMap<u16, Vec<u8>>,
    buffer: Vec<u8>,
    /// The owners for whom commands were lost, and who have not caught up.
    behind: Vec<bool>,
}

impl<'a> Posts<'a> {
    /// `own` is the number of the box of this process.
    #[must_use]
    pub fn new(own: usize, boxes: Option<&'a PostBoxes>) -> Self {
        let count = boxes.map_or(0, PostBoxes::count);
        Self {
            own,
            sender: own as u16,
            boxes,
            waiting: (0..count).map(|_| (VecDeque::new(), 0)).collect(),
            arriving: HashMap::new(),
            buffer: Vec::new(),
            behind: vec![false; count],
        }
    }

    /// Whether no piece waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.iter().all(|(pieces, _)| pieces.is_empty())
    }

    /// The time at which the pieces that wait are next tried.
    #[must_use]
    pub fn due(&self, now: Duration) -> Option<Duration> {
        (!self.is_idle()).then(|| now + AGAIN)
    }

    /// Sends commands to all others. Returns the number of those for whom they are lost.
    pub fn send_to_all(&mut self, commands: &[u8]) -> u64 {
        let own = self.own;
        (0..self.waiting.len()).filter(|other| *other != own && !self.send(*other, commands)).count() as u64
    }

    /// Sends commands to another one. Returns `false` if they are lost, because too many wait.
    pub fn send(&mut self, other: usize, commands: &[u8]) -> bool {
        let is_relay = self.boxes.is_some_and(|boxes| boxes.relay() == Some(other));
        let Some((pieces, bytes)) = self.waiting.get_mut(other) else { return false };
        // One that reads slowly has room again and again, for a message or two.
        self.behind[other] &= *bytes > CAUGHT_UP;
        if *bytes + commands.len() > WAITING {
            match (std::mem::replace(&mut self.behind[other], true), is_relay) {
                (true, _) => {}
                (false, true) => super::log_loss_for_relay(),
                (false, false) => log::error!("edge {} does not read its messages: some for its clients are lost", other + 1),
            }
            return false;
        }
        let mut parts = commands.chunks(LARGEST_POST - PREFIX).peekable();
        let mut place = FIRST;
        while let Some(part) = parts.next() {
            let mut piece = Vec::with_capacity(PREFIX + part.len());
            piece.push(place | if parts.peek().is_none() { LAST } else { 0 });
            place = 0;
            piece.extend_from_slice(&self.sender.to_be_bytes());
            piece.extend_from_slice(part);
            *bytes += piece.len();
            pieces.push_back(piece);
        }
        self.flush_to(other);
        true
    }

    /// The parts of commands that have arrived, by their senders.
    pub fn arriving(&mut self) -> Vec<(u16, Vec<u8>)> {
        self.arriving.drain().collect()
    }

    /// Goes on with a part of commands of a sender.
    pub fn arrived(&mut self, sender: u16, part: &[u8]) {
        self.arriving.insert(sender, part.to_vec());
    }

    /// Takes the pieces that wait, with their owners.
    pub fn take_waiting(&mut self) -> Vec<(usize, Vec<u8>)> {
        let waiting = self.waiting.iter_mut().enumerate();
        waiting
            .flat_map(|(other, (pieces, bytes))| {
                *bytes = 0;
                std::mem::take(pieces).into_iter().map(move |piece| (other, piece))
            })
            .collect()
    }

    /// Sends a piece that another process has left.
    pub fn wait(&mut self, other: usize, piece: &[u8]) {
        let Some((pieces, bytes)) = self.waiting.get_mut(other) else { return };
        *bytes += piece.len();
        pieces.push_back(piece.to_vec());
    }

    /// Leaves the box of this process to another one, to which messages go from now on as to all others.
    pub fn leave_box(&mut self) {
        self.own = usize::MAX;
        // The next owner sends by its number. Processes that leave the same box must differ, too.
        self.sender = BOXLESS | (std::process::id() as u16 & (BOXLESS - 1));
    }

    /// Whether it has been left.
    #[must_use]
    pub const fn has_left_box(&self) -> bool {
        self.own == usize::MAX
    }

    /// The descriptor that is readable when the box has messages, if there are others.
    #[must_use]
    pub fn arrival(&self) -> Option<BorrowedFd<'a>> {
        self.boxes?.arrival(self.own)
    }

    /// The number of boxes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the boxes are those of the previous server.
    #[must_use]
    pub fn are_inherited(&self) -> bool {
        self.boxes.is_some_and(PostBoxes::are_inherited)
    }

    /// Sends the pieces that wait, as far as there is room.
    pub fn flush(&mut self) {
        (0..self.waiting.len()).for_each(|other| self.flush_to(other));
    }

    fn flush_to(&mut self, other: usize) {
        let (Some(boxes), (pieces, bytes)) = (self.boxes, &mut self.waiting[other]) else { return };
        while let Some(piece) = pieces.front() {
            match boxes.send(other, piece) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let owner =
                        if boxes.relay() == Some(other) { "the relay".to_owned() } else { format!("edge {}", other + 1) };
                    log::error!("a message for {owner} is lost: {error}");
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
    #[must_use]
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        let boxes = self.boxes?;
        self.buffer.resize(LARGEST_POST, 0);
        loop {
            let size = boxes.receive(self.own, &mut self.buffer)?;
            let Some((&[place, high, low], part)) = self.buffer[..size].split_first_chunk::<PREFIX>() else { continue };
            if place == FIRST | LAST {
                return Some(part.to_vec());
            }
            let sender = u16::from_be_bytes([high, low]);
            if place & FIRST != 0 {
                begin_to_receive(&mut self.arriving, sender);
            }
            let Some(commands) = self.arriving.get_mut(&sender) else { continue };
            commands.extend_from_slice(part);
            if place & LAST != 0 {
                return self.arriving.remove(&sender);
            }
        }
    }
}

fn begin_to_receive(arriving: &mut HashMap<u16, Vec<u8>>, sender: u16) {
    // It may have died in the middle of commands, and so may others.
    arriving.insert(sender, Vec::new());
    if arriving.keys().filter(|sender| **sender & BOXLESS != 0).count() > MOST_BOXLESS {
        arriving.retain(|known, _| known & BOXLESS == 0 || *known == sender);
    }
}

#[cfg(test)]
mod tests {
    use super::super::PostBoxes;
    use super::Posts;

    #[test]
    fn commands_of_any_size_arrive_whole_at_all_others() {
        let boxes = PostBoxes::new(3, false).expect("sockets");
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

    #[test]
    fn large_commands_arrive_of_a_sender_that_has_left_its_box() {
        let boxes = PostBoxes::new(2, false).expect("sockets");
        let (mut old, mut new) = (Posts::new(0, Some(&boxes)), Posts::new(0, Some(&boxes)));
        let mut other = Posts::new(1, Some(&boxes));
        old.leave_box();
        assert!(old.has_left_box() && !new.has_left_box());
        let (one, two) = (vec![1; 1_000_000], vec![2; 1_000_000]);
        // Their pieces come in turn.
        old.send_to_all(&one);
        new.send_to_all(&two);
        let mut found = Vec::new();
        let mut own = None;
        while found.len() < 2 || own.is_none() {
            found.extend(other.receive());
            own = own.or_else(|| new.receive());
            [&mut old, &mut new].into_iter().for_each(Posts::flush);
        }
        found.sort();
        assert!(found == [one.clone(), two] && own == Some(one), "the next owner gets it, too");
    }

    #[test]
    fn an_owner_that_reads_too_slowly_is_behind_until_half_of_what_waits_has_gone() {
        let boxes = PostBoxes::new(2, false).expect("sockets");
        let (mut sender, mut slow) = (Posts::new(0, Some(&boxes)), Posts::new(1, Some(&boxes)));
        let large = vec![7; 1 << 20];
        while sender.send(1, &large) {}
        assert!(sender.behind[1]);
        let mut read = 0;
        while sender.behind[1] {
            while slow.receive().is_none() {
                sender.flush();
            }
            read += 1;
            sender.send(1, b"small");
        }
        assert!(read > 30, "not behind after {read} messages");
    }
}
