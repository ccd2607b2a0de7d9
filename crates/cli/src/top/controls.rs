//! Handles keys, which choose the displayed tables and rows, and their order.

use super::keys::Key;
use super::order::{Order, ProcessKey, RequestKey};
use std::time::Duration;

/// The displayed tables. Keys that move or sort apply to the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    Both,
    Processes,
    Requests,
}

/// The choices of the user.
#[derive(Clone, Debug)]
pub struct Controls {
    /// The interval of queries.
    pub interval: Duration,
    pub paused: bool,
    pub tables: Tables,
    pub processes: Order<ProcessKey>,
    pub requests: Order<RequestKey>,
    /// The text that displayed rows must contain.
    pub filter: String,
    /// Whether the user is typing the filter.
    pub writing: bool,
    pub help: bool,
    /// The process whose row is selected.
    pub selected: Option<u32>,
    /// The number of rows of requests above the first displayed one.
    pub above: usize,
    /// The process whose backtrace is displayed instead of the tables.
    pub backtrace: Option<u32>,
    /// The number of lines of the backtrace above the first displayed one.
    pub lines_above: usize,
}

/// The action of the caller after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Draw,
    Leave,
    /// Stop this process, as Ctrl-Z does.
    Stop,
    /// Query the server in the new interval.
    Interval,
    /// Query the backtrace now, or stop querying backtraces.
    Backtrace,
}

/// The rows and lines that keys can move over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reach<'a> {
    /// The processes whose rows are displayed, in their order.
    pub pids: &'a [u32],
    /// The number of requests.
    pub requests: usize,
    /// The process with the first displayed request.
    pub worker: Option<u32>,
    /// The number of lines of the displayed backtrace.
    pub lines: usize,
    /// The number of rows of a page.
    pub page: usize,
}

/// The intervals that keys choose from, in milliseconds.
const INTERVALS: [u64; 9] = [100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];

impl Controls {
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            paused: false,
            tables: Tables::Both,
            processes: Order::by(ProcessKey::Name),
            requests: Order::by(RequestKey::Age),
            filter: String::new(),
            writing: false,
            help: false,
            selected: None,
            above: 0,
            backtrace: None,
            lines_above: 0,
        }
    }

    pub fn press(&mut self, key: Key, reach: Reach<'_>) -> Act {
        match key {
            Key::Control('c') => return Act::Leave,
            Key::Control('z') => return Act::Stop,
            Key::Control('l') => return Act::Draw,
            _ => {}
        }
        if self.writing {
            self.write(key);
            return Act::Draw;
        }
        if self.help {
            self.help = false;
            if matches!(key, Key::Escape | Key::Enter | Key::Char('?' | 'h' | 'q')) {
                return Act::Draw;
            }
        }
        if self.backtrace.is_some()
            && let Some(act) = self.read(key, reach)
        {
            return act;
        }
        match key {
            Key::Char('q' | 'Q') => return Act::Leave,
            Key::Char('?' | 'h') => self.help = true,
            Key::Char('p' | ' ') => self.paused = !self.paused,
            Key::Char('/') => self.writing = true,
            Key::Escape => self.unwind(),
            Key::Tab => self.turn(),
            Key::Char('s' | '>') => self.sort(true),
            Key::Char('S' | '<') => self.sort(false),
            Key::Char('r') => self.reverse(),
            Key::Char('+') => return self.step_interval(true),
            Key::Char('-') => return self.step_interval(false),
            Key::Char('b') | Key::Enter => return self.open_backtrace(reach),
            _ => {
                if let Some(by) = distance(key, reach) {
                    self.go(reach, by);
                }
            }
        }
        Act::Draw
    }

    /// Displays the backtrace of the selected process, or of the process with the first displayed request.
    fn open_backtrace(&mut self, reach: Reach<'_>) -> Act {
        self.backtrace = if self.tables == Tables::Requests { reach.worker } else { self.selected };
        self.lines_above = 0;
        if self.backtrace.is_some() { Act::Backtrace } else { Act::Draw }
    }

    /// Handles a key while a backtrace is displayed; `None` if the key has its usual meaning.
    fn read(&mut self, key: Key, reach: Reach<'_>) -> Option<Act> {
        match key {
            Key::Escape => {
                self.backtrace = None;
                Some(Act::Backtrace)
            }
            Key::Char('b') | Key::Enter => Some(Act::Backtrace),
            // These keys apply to tables, which are hidden.
            Key::Tab | Key::Char('s' | 'S' | '<' | '>' | 'r' | '/') => Some(Act::Draw),
            _ => {
                let by = distance(key, reach)?;
                self.lines_above = self.lines_above.saturating_add_signed(by).min(reach.lines.saturating_sub(1));
                Some(Act::Draw)
            }
        }
    }

    fn write(&mut self, key: Key) {
        match key {
            Key::Char(letter) if self.filter.chars().count() < 40 => self.filter.push(letter),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.writing = false,
            Key::Escape => {
                self.writing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    /// Undoes one choice: the selected row, then the filter.
    fn unwind(&mut self) {
        if self.selected.take().is_none() {
            self.filter.clear();
        }
    }

    fn turn(&mut self) {
        self.tables = match self.tables {
            Tables::Both => Tables::Processes,
            Tables::Processes => Tables::Requests,
            Tables::Requests => Tables::Both,
        };
    }

    fn sort(&mut self, forward: bool) {
        if self.tables == Tables::Requests { self.requests.step(forward) } else { self.processes.step(forward) }
    }

    fn reverse(&mut self) {
        let reversed = if self.tables == Tables::Requests { &mut self.requests.reversed } else { &mut self.processes.reversed };
        *reversed = !*reversed;
    }

    fn step_interval(&mut self, longer: bool) -> Act {
        let mut intervals = INTERVALS.map(Duration::from_millis).into_iter();
        let next = if longer {
            intervals.find(|interval| *interval > self.interval)
        } else {
            intervals.rfind(|interval| *interval < self.interval)
        };
        self.interval = next.unwrap_or(self.interval);
        Act::Interval
    }

    fn go(&mut self, reach: Reach<'_>, by: isize) {
        if self.tables == Tables::Requests {
            self.above = self.above.saturating_add_signed(by).min(reach.requests.saturating_sub(1));
            return;
        }
        let Some(last) = reach.pids.len().checked_sub(1) else { return };
        let present = self.selected.and_then(|selected| reach.pids.iter().position(|pid| *pid == selected));
        let next = match present {
            Some(present) => present.saturating_add_signed(by).min(last),
            None if by < 0 && by != isize::MIN => last,
            None if by == isize::MAX => last,
            None => 0,
        };
        self.selected = reach.pids.get(next).copied();
    }
}

/// The number of rows by which a key moves.
const fn distance(key: Key, reach: Reach<'_>) -> Option<isize> {
    Some(match key {
        Key::Up | Key::Char('k') => -1,
        Key::Down | Key::Char('j') => 1,
        Key::PageUp => -(reach.page as isize),
        Key::PageDown => reach.page as isize,
        Key::Home => isize::MIN,
        Key::End => isize::MAX,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(keys: &[Key]) -> Controls {
        let mut controls = Controls::new(Duration::from_secs(1));
        let reach = Reach { pids: &[71, 72, 73], requests: 5, page: 2, ..Reach::default() };
        keys.iter().for_each(|key| assert_eq!(controls.press(*key, reach), Act::Draw));
        controls
    }

    #[test]
    fn rows_are_selected_by_their_processes() {
        let selected = |keys: &[Key]| after(keys).selected;
        assert_eq!(selected(&[]), None);
        assert_eq!(selected(&[Key::Down]), Some(71));
        assert_eq!(selected(&[Key::Up]), Some(73));
        assert_eq!(selected(&[Key::Down, Key::Down, Key::Char('k')]), Some(71));
        assert_eq!(selected(&[Key::Down, Key::Up]), Some(71));
        assert_eq!(selected(&[Key::Home, Key::PageDown, Key::PageDown]), Some(73));
        assert_eq!(selected(&[Key::End, Key::Home]), Some(71));
        assert_eq!(selected(&[Key::End, Key::Escape]), None);
        let mut controls = after(&[Key::Down]);
        controls.press(Key::Down, Reach { pids: &[80, 81], ..Reach::default() });
        assert_eq!(controls.selected, Some(80), "its process has gone");
        controls.press(Key::Down, Reach::default());
        assert_eq!(controls.selected, Some(80));
    }

    #[test]
    fn the_filter_takes_letters_that_are_keys_otherwise() {
        let typed = [Key::Char('/'), Key::Char('q'), Key::Char('?'), Key::Char('x'), Key::Backspace, Key::Tab];
        let controls = after(&typed);
        assert!(controls.writing && !controls.help);
        assert_eq!(controls.filter, "q?");
        let kept = after(&[&typed[..], &[Key::Enter, Key::Char('s')]].concat());
        assert_eq!((kept.writing, kept.filter.as_str()), (false, "q?"));
        assert_eq!(after(&[&typed[..], &[Key::Escape]].concat()).filter, "");
        assert_eq!(after(&[&typed[..], &[Key::Enter, Key::Escape]].concat()).filter, "");
    }

    #[test]
    fn keys_concern_the_table_that_is_shown() {
        let controls = after(&[Key::Char('s'), Key::Char('r'), Key::Tab, Key::Tab, Key::Char('S'), Key::Down, Key::PageDown]);
        assert_eq!(controls.tables, Tables::Requests);
        assert_eq!(controls.processes, Order { key: ProcessKey::Pid, reversed: true });
        assert_eq!(controls.requests, Order::by(RequestKey::State));
        assert_eq!((controls.above, controls.selected), (3, None));
        assert_eq!(after(&[Key::Tab, Key::Tab, Key::End]).above, 4);
    }

    #[test]
    fn a_backtrace_is_read_until_escape() {
        let reach = Reach { pids: &[71, 72], requests: 5, worker: Some(90), lines: 4, page: 2 };
        let mut controls = after(&[]);
        assert_eq!(controls.press(Key::Char('b'), reach), Act::Draw, "nothing is selected");
        controls.press(Key::Down, reach);
        for key in [Key::Char('b'), Key::Enter, Key::Char('b')] {
            assert_eq!((controls.press(key, reach), controls.backtrace), (Act::Backtrace, Some(71)));
        }
        let mut above = |key| {
            assert_eq!(controls.press(key, reach), Act::Draw);
            controls.lines_above
        };
        assert_eq!([Key::Down, Key::PageDown, Key::PageDown, Key::Up, Key::Home, Key::End].map(&mut above), [1, 3, 3, 2, 0, 3]);
        for key in [Key::Tab, Key::Char('s'), Key::Char('/')] {
            above(key);
        }
        assert_eq!((controls.selected, controls.tables, controls.writing), (Some(71), Tables::Both, false));
        controls.press(Key::Char('p'), reach);
        assert_eq!((controls.press(Key::Escape, reach), controls.backtrace), (Act::Backtrace, None));
        assert!(controls.paused && controls.selected == Some(71));
        controls.tables = Tables::Requests;
        assert_eq!((controls.press(Key::Enter, reach), controls.backtrace), (Act::Backtrace, Some(90)));
        assert_eq!(controls.lines_above, 0);
        assert_eq!(controls.press(Key::Char('q'), reach), Act::Leave);
    }

    #[test]
    fn the_interval_goes_from_step_to_step() {
        let mut controls = Controls::new(Duration::from_millis(1500));
        let mut press = |key| {
            assert_eq!(controls.press(Key::Char(key), Reach::default()), Act::Interval);
            controls.interval.as_millis()
        };
        assert_eq!([press('+'), press('-'), press('-')], [2000, 1000, 500]);
        for _ in 0..20 {
            press('-');
        }
        assert_eq!(press('-'), 100);
    }

    #[test]
    fn help_goes_with_any_key() {
        assert!(after(&[Key::Char('?')]).help);
        assert!(!after(&[Key::Char('?'), Key::Char('q')]).help, "it does not leave the program");
        assert!(after(&[Key::Char('?'), Key::Char('p')]).paused);
        let mut controls = after(&[Key::Char('/')]);
        assert_eq!(controls.press(Key::Control('c'), Reach::default()), Act::Leave);
        assert_eq!(controls.press(Key::Control('z'), Reach::default()), Act::Stop);
    }
}
