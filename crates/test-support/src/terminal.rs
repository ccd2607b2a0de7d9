//! A program in a terminal of its own.

use crate::server::{wait_for, wait_until};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A program in a pseudo-terminal, and all that it has written there.
pub struct Terminal {
    pub program: Child,
    /// The end of the pseudo-terminal into which keys are written.
    pub keyboard: File,
    /// The program's end of the pseudo-terminal. It stays open, so that the modes of the terminal can be read when the program
    /// has ended.
    pub side: File,
    pub before: Termios,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub fn run(command: &mut Command) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("there are pseudo-terminals");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("a plain name");
        let side = File::options().read(true).write(true).open(name).expect("it is unlocked");
        let before = tcgetattr(&side).expect("it is a terminal");
        resize(&side, 80, 24);
        let own = || Stdio::from(side.try_clone().expect("there are descriptors"));
        let program = command.stdin(own()).stdout(own()).stderr(own()).spawn().expect("it was built");
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, all) = (File::from(master.try_clone().expect("there are descriptors")), Arc::clone(&written));
        // It ends when the other side has been closed everywhere.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                all.lock().expect("no other has panicked").extend_from_slice(&buffer[..count]);
            }
        });
        Self { program, keyboard: File::from(master), side, before, written }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("no other has panicked")).into_owned()
    }

    /// Returns the last part of the output, for messages.
    pub fn tail(&self) -> String {
        let text = self.text();
        text.chars().skip(text.chars().count().saturating_sub(4000)).collect()
    }

    /// Forgets the output so far.
    pub fn forget(&self) {
        self.written.lock().expect("no other has panicked").clear();
    }

    pub fn wait_for(&mut self, text: &str) {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !self.text().contains(text) {
            let ended = self.program.try_wait().expect("it is a child");
            assert!(ended.is_none() && std::time::Instant::now() < end, "{text:?} has not come: {:?}", self.tail());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Presses keys, and waits until the output after that contains `shown`.
    pub fn press(&mut self, keys: &str, shown: &str) {
        self.forget();
        self.keyboard.write_all(keys.as_bytes()).expect("somebody reads");
        self.wait_for(shown);
    }

    /// Waits until the program ends, and returns its exit status. Checks that the terminal is as it was before.
    pub fn end(&mut self) -> i32 {
        let status = wait_for("the end of the program", || self.program.try_wait().expect("it is a child"));
        let modes = |termios: &Termios| (termios.input_modes, termios.output_modes, termios.control_modes, termios.local_modes);
        let after = tcgetattr(&self.side).expect("it is a terminal");
        assert_eq!(modes(&after), modes(&self.before));
        wait_until("the first screen, with its cursor", || {
            let text = self.text();
            let last = |sequence: &str| text.rfind(sequence);
            last("\u{1b}[?1049l") > last("\u{1b}[?1049h") && last("\u{1b}[?25h") > last("\u{1b}[?25l")
        });
        status.code().expect("no signal has ended it")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Gives a terminal another size, in columns and lines.
pub fn resize(side: &File, width: u16, height: u16) {
    tcsetwinsize(side, Winsize { ws_col: width, ws_row: height, ws_xpixel: 0, ws_ypixel: 0 }).expect("it is a terminal");
}
