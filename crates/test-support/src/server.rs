//! A server process under test.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The time after which a test gives up a wait: far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` gives something.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(result) = condition() {
            return result;
        }
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// A folder for one test, removed after it.
pub struct Folder(pub PathBuf);

impl Folder {
    #[expect(clippy::new_without_default, reason = "each one makes a folder")]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("oribi-process-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("the folder is new");
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process and the file with its standard error. Dropping this ends the process and all below it.
pub struct Server {
    child: Child,
    log: PathBuf,
    /// Holds the log; removed last.
    _folder: Folder,
}

impl Server {
    /// Runs `command`.
    pub fn run(command: &mut Command) -> Self {
        Self::run_with_input(command, Stdio::null())
    }

    /// Runs `command` with `input` as its standard input.
    pub fn run_with_input(command: &mut Command, input: Stdio) -> Self {
        let folder = Folder::new();
        let log = folder.file("log");
        let output = File::create(&log).expect("the folder is writable");
        for variable in ["PORT", "HOST", "WEB_CONCURRENCY"] {
            command.env_remove(variable);
        }
        // Those of root that are killed would leave sockets in /run/oribi.
        let chosen = ["ORIBI_CONTROL", "XDG_RUNTIME_DIR"].map(OsStr::new);
        if !command.get_envs().any(|(name, _)| chosen.contains(&name)) {
            command.env("ORIBI_CONTROL", "off");
        }
        let child = command.stdin(input).stdout(Stdio::null()).stderr(output).spawn().expect("the program was built");
        Self { child, log, _folder: folder }
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).expect("the log is there")).into_owned()
    }

    /// The size of the log so far.
    pub fn log_length(&self) -> u64 {
        std::fs::metadata(&self.log).expect("the log is there").len()
    }

    /// The log after its first `length` bytes.
    pub fn log_since(&self, length: u64) -> String {
        let mut file = File::open(&self.log).expect("the log is there");
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(length)).and_then(|_| file.read_to_end(&mut bytes)).expect("the log is a file");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn wait_for_log(&mut self, text: &str) {
        wait_until(text, || {
            let found = self.log().contains(text);
            assert!(found || self.exit_status().is_none(), "it ended without saying {text:?}:\n{}", self.log());
            found
        });
    }

    /// Waits until the server is ready, and returns the addresses in its log.
    pub fn addresses(&mut self) -> Vec<String> {
        self.wait_for_log("listening on");
        let log = self.log();
        let after = log.split("listening on ").skip(1);
        let addresses: Vec<String> = after.map(|rest| rest.split(' ').next().unwrap_or_default().to_owned()).collect();
        addresses.iter().for_each(|address| crate::wire::note(address));
        addresses
    }

    /// Waits until the server is ready, and returns its TCP address.
    pub fn address(&mut self) -> SocketAddr {
        let addresses = self.addresses();
        let (_, address) = addresses[0].split_once("://").expect("it tells the protocol");
        address.parse().expect("it listens on TCP")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// The exit status, if the process has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is a child")
    }

    /// Waits until the process ends, and returns its exit status.
    pub fn wait(&mut self) -> i32 {
        let status = wait_for("the end of the server", || self.exit_status());
        status.code().unwrap_or_else(|| panic!("it {status}:\n{}", self.log()))
    }

    /// Returns the id of the process with this role (`master`, `supervisor`) that serves below the first process after an
    /// upgrade.
    pub fn successor(&self, role: &str) -> Option<u32> {
        match children(self.pid())[..] {
            [only] if title(only).starts_with(&format!("oribi: {role}")) => Some(only),
            _ => None,
        }
    }

    /// Returns the ids of the children that are not edges: workers or, below a master, molds.
    pub fn workers(&self) -> Vec<u32> {
        // Messages that are logged before a fork are in the log when the child has been seen.
        let (children, edges) = (children(self.pid()), self.edges());
        let wanted = self.log().split_once("connections belong to ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        if self.edges_started().len() < wanted.unwrap_or(0) {
            // One of its children may be an edge that has not been logged.
            return Vec::new();
        }
        let edges: Vec<u32> = edges.into_iter().chain(self.edges_started()).collect();
        children.into_iter().filter(|child| !edges.contains(child)).collect()
    }

    /// Returns the ids of the edges, found by their titles and by the log: a new process still has the title of its parent.
    pub fn edges(&self) -> Vec<u32> {
        let started = self.edges_started();
        let is_edge = |child: &u32| started.contains(child) || title(*child).starts_with("oribi: edge");
        children(self.pid()).into_iter().filter(is_edge).collect()
    }

    /// Returns the ids of all edges that the log says were started.
    fn edges_started(&self) -> Vec<u32> {
        let log = self.log();
        let lines = log.lines().filter_map(|line| line.split_once("] edge")?.1.split_once(" started (pid "));
        lines.filter_map(|(_, rest)| rest.trim_end_matches(')').parse().ok()).collect()
    }

    /// The processes that accept connections.
    pub fn acceptors(&self) -> Vec<u32> {
        if self.log().contains("connections belong to") { self.edges() } else { self.workers() }
    }

    /// Waits until there are `count` workers, and returns their ids.
    pub fn wait_for_workers(&self, count: usize) -> Vec<u32> {
        wait_for(&format!("{count} workers"), || Some(self.workers()).filter(|workers| workers.len() == count))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("What the server said:\n{}", self.log());
        }
        // A worker whose app is stuck would use a processor, beside the next tests, until the end of `--graceful-timeout`.
        let below = descendants(self.pid());
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for process in below.into_iter().filter(|process| runs(*process)) {
            send(process, Signal::KILL);
        }
    }
}

/// The processes whose parent is `parent`, zombies left out.
pub fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("it is always there").filter_map(Result::ok);
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|process| runs(*process) && state_and_parent(*process).is_some_and(|(_, found)| found == parent)).collect()
}

/// The processes below `process`, zombies left out.
pub fn descendants(process: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("it is always there").filter_map(Result::ok);
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let living = numbers.filter_map(|number: u32| Some((number, state_and_parent(number)?)));
    let living: Vec<(u32, u32)> =
        living.filter(|(_, (state, _))| *state != 'Z').map(|(number, (_, of))| (number, of)).collect();
    let (mut found, mut next) = (vec![process], 0);
    while let Some(&parent) = found.get(next) {
        found.extend(living.iter().filter(|(_, of)| *of == parent).map(|(number, _)| *number));
        next += 1;
    }
    found.split_off(1)
}

/// The process's entry in lists of processes.
pub fn title(process: u32) -> String {
    let shown = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&shown).trim_end_matches('\0').replace('\0', " ")
}

/// Whether a process leads a server.
pub fn is_first(process: u32) -> bool {
    ["oribi: master", "oribi: supervisor"].iter().any(|role| title(process).starts_with(role))
}

/// Whether a process is there and is not a zombie.
pub fn runs(process: u32) -> bool {
    state_and_parent(process).is_some_and(|(state, _)| state != 'Z')
}

/// The process id of the parent of a process that has not been waited for.
pub fn parent(process: u32) -> Option<u32> {
    state_and_parent(process).map(|(_, parent)| parent)
}

/// The processor time of a process, in hundredths of a second; 0 for one that has ended.
pub fn cpu_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Fields 14 and 15, the first two being the number and the name in parentheses: stat(5).
    let fields = stat.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
    fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

fn state_and_parent(process: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

pub fn send(process: u32, signal: Signal) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).expect("it is a process id");
    // It may be ending by itself just now.
    let _ = kill_process(pid, signal);
}

/// The file mode bits of `path`.
pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777
}
