//! The terminal: its alternate screen, its raw mode, and the return to its former state.

use super::picture::{Style, StyledLine};
use crossterm::style::{Attribute, Color, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, queue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{Winsize, tcgetwinsize};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// The time within which the rest of a key's bytes must follow an escape character, on slow lines.
const REST_OF_KEY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The terminal while it displays pictures. Dropping this restores it.
pub struct Terminal {
    /// The lines on the screen; empty to draw all lines.
    shown: Vec<StyledLine>,
    coloured: bool,
}

/// Whether the terminal can display pictures and send keys.
pub fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The columns and lines of the terminal. A terminal that does not report them is assumed to have the usual size.
pub fn room() -> (usize, usize) {
    // crossterm would ask the terminal of the session, which need not be that of the output.
    match tcgetwinsize(io::stdout()) {
        Ok(Winsize { ws_col: width @ 1.., ws_row: height @ 1.., .. }) => (width.into(), height.into()),
        _ => (80, 24),
    }
}

impl Terminal {
    /// Takes the terminal for pictures. A panic restores the terminal before the panic's message is printed.
    ///
    /// # Errors
    /// The terminal does not respond.
    pub fn take(coloured: bool) -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        let mut terminal = Self { shown: Vec::new(), coloured };
        terminal.enter()?;
        Ok(terminal)
    }

    /// Takes the terminal again after [`Terminal::leave`].
    ///
    /// # Errors
    /// The terminal does not respond.
    pub fn enter(&mut self) -> io::Result<()> {
        // Another program may have changed the modes meanwhile, without the knowledge of crossterm.
        let _ = disable_raw_mode();
        enable_raw_mode()?;
        self.forget();
        let mut out = io::stdout().lock();
        queue!(out, EnterAlternateScreen, cursor::Hide, DisableLineWrap, Clear(ClearType::All))?;
        out.flush()
    }

    /// Restores the terminal for a while.
    pub fn leave(&self) {
        give_back();
    }

    /// Lets the next call of [`Terminal::draw`] draw all lines, because the size has changed or another program has written to
    /// the screen.
    pub fn forget(&mut self) {
        self.shown.clear();
    }

    /// Draws the lines that have changed.
    ///
    /// # Errors
    /// The terminal has been closed.
    pub fn draw(&mut self, lines: Vec<StyledLine>) -> io::Result<()> {
        if self.shown == lines {
            return Ok(());
        }
        let mut out = Vec::new();
        queue!(out, BeginSynchronizedUpdate)?;
        if self.shown.len() != lines.len() {
            queue!(out, Clear(ClearType::All))?;
            self.shown = vec![StyledLine::default(); lines.len()];
        }
        for (row, (line, shown)) in lines.iter().zip(&self.shown).enumerate() {
            if line != shown {
                queue!(out, cursor::MoveTo(0, row.try_into().unwrap_or(u16::MAX)))?;
                self.write(&mut out, line)?;
            }
        }
        queue!(out, EndSynchronizedUpdate)?;
        self.shown = lines;
        let mut terminal = io::stdout().lock();
        terminal.write_all(&out)?;
        terminal.flush()
    }

    fn write(&self, out: &mut Vec<u8>, line: &StyledLine) -> io::Result<()> {
        let mut present = Style::Plain;
        let (width, _) = room();
        // Clearing fills with the current colours, but not with attributes such as reverse; so a filled line gets spaces.
        let filling = line.filled.map(|style| (" ".repeat(width.saturating_sub(line.width())), style));
        for (text, style) in line.pieces.iter().chain(&filling) {
            if *style != present {
                queue!(out, SetAttribute(Attribute::Reset))?;
                self.begin(out, *style)?;
                present = *style;
            }
            queue!(out, Print(text))?;
        }
        queue!(out, SetAttribute(Attribute::Reset))?;
        if filling.is_none() {
            queue!(out, Clear(ClearType::UntilNewLine))?;
        }
        Ok(())
    }

    fn begin(&self, out: &mut Vec<u8>, style: Style) -> io::Result<()> {
        let (colour, attributes): (Option<Color>, &[Attribute]) = match style {
            Style::Plain => (None, &[]),
            Style::Strong => (None, &[Attribute::Bold]),
            Style::Faint => (None, &[Attribute::Dim]),
            Style::Heads | Style::Selected => (None, &[Attribute::Reverse]),
            Style::Sorted => (None, &[Attribute::Reverse, Attribute::Bold]),
            Style::Good => (Some(Color::DarkGreen), &[]),
            Style::Doubtful => (Some(Color::DarkYellow), &[]),
            Style::Bad => (Some(Color::DarkRed), &[Attribute::Bold]),
        };
        if let Some(colour) = colour.filter(|_| self.coloured) {
            queue!(out, SetForegroundColor(colour))?;
        }
        for attribute in attributes {
            queue!(out, SetAttribute(*attribute))?;
        }
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the former state. Errors are ignored, because they mean that the terminal has been closed.
fn give_back() {
    let mut out = io::stdout().lock();
    let _ = queue!(out, EnableLineWrap, SetAttribute(Attribute::Reset), cursor::Show, LeaveAlternateScreen);
    let _ = out.flush();
    let _ = disable_raw_mode();
}

/// Appends the bytes of the pressed keys without waiting for a key; only for the rest of a key that begins with an escape
/// character, it waits briefly. Returns `false` if the terminal has been closed.
pub fn read_keys(bytes: &mut Vec<u8>) -> bool {
    let stdin = io::stdin();
    let mut buffer = [0; 256];
    loop {
        match rustix::io::read(stdin.as_fd(), &mut buffer) {
            Ok(0) => return false,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(Errno::INTR | Errno::AGAIN) => return true,
            Err(_) => return false,
        }
        if bytes.last() != Some(&0x1b) || !is_ready(stdin.as_fd(), &REST_OF_KEY) {
            return true;
        }
    }
}

fn is_ready(descriptor: BorrowedFd<'_>, patience: &Timespec) -> bool {
    matches!(poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(patience)), Ok(1..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(coloured: bool) -> String {
        let all = [Style::Plain, Style::Strong, Style::Faint, Style::Sorted, Style::Good, Style::Doubtful, Style::Bad];
        let mut line = StyledLine { filled: Some(Style::Selected), ..StyledLine::default() };
        all.iter().for_each(|style| line.push("x", *style));
        let terminal = std::mem::ManuallyDrop::new(Terminal { shown: Vec::new(), coloured });
        let mut out = Vec::new();
        terminal.write(&mut out, &line).expect("memory takes everything");
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn colours_are_used_only_where_they_are_wanted() {
        let colours = |text: &str| text.matches("\u{1b}[38;5;").count();
        assert_eq!((colours(&written(true)), colours(&written(false))), (3, 0));
        assert_eq!(written(false).matches("\u{1b}[1m").count(), 3, "bold is no colour");
        assert_eq!(written(false).matches("\u{1b}[7m").count(), 2);
    }
}
