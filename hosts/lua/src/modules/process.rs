//! Processes that scripts run: the Lua code of `exec.lua` waits while they do.
//!
//! A process leads a group of its own, which ends with it, and dies with the thread of the script. Its end and its pipes are
//! events of one epoll, so that a script waits for one descriptor.

use super::sockets::MemoryLimit;
use mlua::{Error, Lua, LuaString, Result, Table, UserData, UserDataMethods, Value};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group,
    pidfd_open, waitid, waitpid,
};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The most bytes of each output, unless the script says otherwise.
const OUTPUT: usize = 1 << 20;

/// The bytes that are read at once, and the most that are read before other scripts have their turn.
const AT_ONCE: usize = 16 << 10;
const IN_A_ROW: usize = 64;

/// The most descriptors that are kept from a process one by one, where the kernel cannot do it at once.
const DESCRIPTORS: libc::c_int = 65_536;

/// The number of signals of the kernel.
const SIGNALS: libc::c_long = 64;

/// Processes that were killed and have not ended yet.
static KILLED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Forgets the killed processes that have ended.
pub(crate) fn reap() {
    let mut killed = KILLED.lock().unwrap_or_else(PoisonError::into_inner);
    killed.retain(|&process| matches!(waitpid(Some(process), WaitOptions::NOHANG), Ok(None) | Err(Errno::INTR)));
}

/// The bytes for a process that it has not taken.
struct Input {
    pipe: OwnedFd,
    bytes: Vec<u8>,
    written: usize,
}

/// An output of a process.
struct Output {
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
}

/// The stages of a process.
#[derive(Clone, Copy)]
enum Stage {
    Runs,
    /// `None`: a module of the script has taken the status.
    Ended(Option<WaitStatus>),
}

/// A process of a script. It is killed when the value is dropped.
pub(super) struct Process {
    id: Pid,
    stage: Stage,
    events: OwnedFd,
    /// Readable when the process has ended. `None` on systems without pidfds.
    end: Option<OwnedFd>,
    input: Option<Input>,
    outputs: [Output; 2],
    /// The most bytes of an output.
    most: usize,
    /// Whether there was more.
    too_much: bool,
    killed: bool,
}

/// Runs in the new process: resets its signals, and keeps the worker's descriptors from it.
///
/// # Errors
/// The worker has ended already.
fn begin(parent: Pid) -> io::Result<()> {
    // SAFETY: these calls are async-signal-safe, and concern this process alone.
    unsafe {
        // The kernel's call, because the C library refuses to change its own signals. A structure of zeros means the default.
        let default = [0_u64; 8];
        for signal in 1..=SIGNALS {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), ptr::null_mut::<u64>(), size_of::<u64>());
        }
        // It dies with the worker even if that is killed.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent.as_raw_pid() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // Libraries may have left descriptors open for all programs. The standard library still needs one of its own.
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) != 0 {
            for descriptor in 3..DESCRIPTORS {
                libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
    }
    Ok(())
}

fn os(text: &LuaString) -> std::ffi::OsString {
    OsStr::from_bytes(&text.as_bytes()).to_owned()
}

impl Process {
    /// Starts a process: `command` is a list of the program and its arguments. Returns nil and a message if that is impossible.
    pub(super) fn start(lua: &Lua, (command, options): (Vec<LuaString>, Table)) -> Result<(Option<Self>, Option<String>)> {
        reap();
        let Some((program, arguments)) = command.split_first() else {
            return Err(Error::runtime("a list of a program and its arguments expected"));
        };
        let mut made = Command::new(os(program));
        made.args(arguments.iter().map(os)).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        if let Some(environment) = options.get::<Option<Table>>("environment")? {
            made.env_clear();
            for pair in environment.pairs::<LuaString, LuaString>() {
                let (name, value) = pair?;
                made.env(os(&name), os(&value));
            }
        }
        if let Some(directory) = options.get::<Option<LuaString>>("directory")? {
            made.current_dir(os(&directory));
        }
        let input = options.get::<Option<LuaString>>("stdin")?.map(|bytes| bytes.as_bytes().to_vec());
        made.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let most = options.get::<Option<usize>>("max_output")?.unwrap_or(OUTPUT);
        let most = lua.app_data_ref::<MemoryLimit>().map_or(most, |limit| most.min(limit.0));
        let parent = getpid();
        // SAFETY: `begin` makes only calls that are allowed between a fork and the new program.
        unsafe { made.pre_exec(move || begin(parent)) };
        let mut bytes = input.unwrap_or_default();
        let mut outcome = Self::spawn(&mut made, &mut bytes, most);
        if outcome.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EMFILE)) {
            // Handlers that have failed may have left sockets open.
            lua.gc_collect()?;
            outcome = Self::spawn(&mut made, &mut bytes, most);
        }
        Ok(match outcome {
            Ok(process) => (Some(process), None),
            Err(error) => {
                let text = error.to_string();
                let words = text.split(" (os error").next().unwrap_or_default().to_lowercase();
                (None, Some(format!("cannot run {}: {words}", program.to_string_lossy())))
            }
        })
    }

    /// Runs the command, and takes the bytes for it.
    fn spawn(command: &mut Command, bytes: &mut Vec<u8>, most: usize) -> io::Result<Self> {
        let events = epoll::create(CreateFlags::CLOEXEC)?;
        let mut child = command.spawn()?;
        let id = Pid::from_child(&child);
        let end = pidfd_open(id, PidfdFlags::empty()).ok();
        let pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        let input = child.stdin.take().map(|pipe| Input { pipe: pipe.into(), bytes: std::mem::take(bytes), written: 0 });
        let outputs = pipes.map(|pipe| Output { pipe, bytes: Vec::new() });
        // From now on it is killed if something fails.
        let made = Self { id, stage: Stage::Runs, events, end, input, outputs, most, too_much: false, killed: false };
        let readable = made.outputs.iter().filter_map(|output| output.pipe.as_ref());
        for pipe in readable {
            made.watch(pipe, EventFlags::IN)?;
        }
        if let Some(input) = &made.input {
            made.watch(&input.pipe, EventFlags::OUT)?;
        }
        if let Some(end) = &made.end {
            epoll::add(&made.events, end, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(made)
    }

    fn watch(&self, pipe: &OwnedFd, flags: EventFlags) -> io::Result<()> {
        fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        Ok(epoll::add(&self.events, pipe, EventData::new_u64(0), flags)?)
    }

    /// Closes a pipe. Another process that is just being made may still have a copy.
    fn close(events: &OwnedFd, pipe: impl AsFd) {
        let _ = epoll::delete(events, pipe.as_fd());
        drop(pipe);
    }

    fn write(&mut self) {
        let Some(input) = &mut self.input else { return };
        while input.written < input.bytes.len() {
            match rustix::io::write(&input.pipe, &input.bytes[input.written..]) {
                Ok(count) => input.written += count,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // It does not want the rest.
                Err(_) => break,
            }
        }
        if let Some(input) = self.input.take() {
            Self::close(&self.events, input.pipe);
        }
    }

    /// Reads the outputs as far as there is something, or for a while.
    fn read(&mut self) {
        for output in &mut self.outputs {
            for _ in 0..IN_A_ROW {
                let Some(pipe) = &output.pipe else { break };
                let before = output.bytes.len();
                let room = AT_ONCE.min((self.most - before).saturating_add(1));
                output.bytes.resize(before + room, 0);
                let outcome = rustix::io::read(pipe, &mut output.bytes[before..]);
                output.bytes.truncate(before + outcome.unwrap_or(0));
                match outcome {
                    Ok(0) => {
                        if let Some(pipe) = output.pipe.take() {
                            Self::close(&self.events, pipe);
                        }
                    }
                    Ok(_) if output.bytes.len() > self.most => {
                        output.bytes.truncate(self.most);
                        self.too_much = true;
                        return;
                    }
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// Whether the process has ended; it is not reaped, so that its group keeps its number. `None`: it is no child any more,
    /// because a module of the script has reaped it.
    fn has_ended(&self) -> Option<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.id), options) {
            Ok(status) => Some(status.is_some()),
            Err(Errno::INTR) => Some(false),
            Err(_) => None,
        }
    }

    /// Goes on; returns whether the process has ended, or must be killed.
    fn advance(&mut self) -> bool {
        if matches!(self.stage, Stage::Ended(_)) {
            return true;
        }
        // Its last output is read after its end was noticed.
        let ended = self.has_ended();
        self.write();
        if !self.too_much {
            self.read();
        }
        if ended != Some(false) && (self.too_much || self.has_read_all()) {
            self.end();
        }
        matches!(self.stage, Stage::Ended(_)) || self.too_much && !self.killed
    }

    /// Whether the pipes are empty.
    fn has_read_all(&self) -> bool {
        self.outputs.iter().filter_map(|output| output.pipe.as_ref()).all(|pipe| {
            let mut polled = [rustix::event::PollFd::new(pipe, rustix::event::PollFlags::IN)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            !matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(1..)) || polled[0].revents().is_empty()
        })
    }

    /// Kills the rest of the process's group, and takes its status.
    fn end(&mut self) {
        let mut status = None;
        if self.has_ended() == Some(true) {
            let _ = kill_process_group(self.id, Signal::KILL);
            status = waitpid(Some(self.id), WaitOptions::NOHANG).ok().flatten().map(|(_, status)| status);
        }
        self.stage = Stage::Ended(status);
    }

    /// Kills the group of the process.
    fn kill(&mut self) {
        // As long as it is a child, the number is its own.
        if matches!(self.stage, Stage::Runs) && self.has_ended().is_some() {
            let _ = kill_process_group(self.id, Signal::KILL);
            // It may have left its group.
            let _ = kill_process(self.id, Signal::KILL);
        }
        self.killed = true;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Runs) {
            self.kill();
            KILLED.lock().unwrap_or_else(PoisonError::into_inner).push(self.id);
            reap();
        }
    }
}

impl UserData for Process {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        // The descriptor to wait for; nil if only time helps.
        methods.add_method("descriptor", |_, this, ()| Ok(this.end.as_ref().map(|_| this.events.as_raw_fd())));
        methods.add_method_mut("advance", |_, this, ()| Ok(this.advance()));
        methods.add_method_mut("kill", |_, this, ()| {
            this.kill();
            Ok(())
        });
        methods.add_method_once("abandon", |_, _, ()| Ok(()));
        // Whether there was too much output.
        methods.add_method("too_much", |_, this, ()| Ok(this.too_much));
        // Says what has come of the process. Like `abandon`, it closes the descriptors: Lua's collector may take hours.
        methods.add_method_once("result", |lua, mut this, ()| {
            let result = lua.create_table()?;
            if let Stage::Ended(Some(status)) = this.stage {
                result.raw_set("status", status.exit_status())?;
                result.raw_set("signal", status.terminating_signal())?;
            }
            for (name, output) in ["stdout", "stderr"].into_iter().zip(&mut this.outputs) {
                result.raw_set(name, lua.create_string(std::mem::take(&mut output.bytes))?)?;
            }
            Ok(Value::Table(result))
        });
    }
}
