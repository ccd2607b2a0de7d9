//! Logs that cannot be written: requests must not notice.

use crate::client::get_from;
use crate::pressure::Pressure;
use crate::server::{send, wait_for, wait_until};
use crate::site::{Edge, Language, Plan, Site, program};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::Signal;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

crate::everywhere!(
    a_full_disk_costs_lines_and_nothing_else,
    a_log_whose_reader_has_gone_is_no_reason_to_stop,
    a_log_whose_reader_stalls_is_not_waited_for,
    a_named_pipe_without_a_reader_is_no_reason_to_stop,
    a_folder_of_logs_may_vanish,
);

/// Returns `oribi` below a shell that first runs `script`, in which `$0` is `path`.
fn below(script: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{script} && exec \"$@\"")]).arg(path).arg(program());
    command
}

/// Sends requests at which the app raises an error; the error log reports each of them.
fn let_die(site: &Site, times: usize) {
    for number in 0..times {
        let answer = get_from(&site.target(), &format!("/die?{number}")).expect("it has an answer");
        assert!(answer.text.starts_with("HTTP/1.1 500"), "{}", answer.text);
    }
}

/// Reloads the app, at a time when the log cannot report it.
fn reload_unseen(site: &Site) {
    let before = site.titled("worker");
    site.server.signal(Signal::HUP);
    site.wait_for_others(&before);
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

fn a_full_disk_costs_lines_and_nothing_else(language: Language, edge: Edge) {
    let disk = crate::server::Folder::new();
    // Mounted in a namespace of its own, which goes with the server: only root may do that.
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs \"$0\" && exec \"$@\""]).arg(&disk.0).arg(program());
    let (access, error) = (disk.file("access"), disk.file("error"));
    let logs = [
        "--access-log-format",
        "common",
        "--access-log",
        access.to_str().expect("plain"),
        "--error-log",
        error.to_str().expect("plain"),
    ];
    let inside = |pid: u32, path: &Path| PathBuf::from(format!("/proc/{pid}/root{}", path.display()));
    let site = Plan::below(command, language, edge, &logs).start_with(|server| {
        let said = server.log();
        assert!(server.exit_status().is_none(), "a disk cannot be mounted in a namespace (is this root?): {said}");
        text(&inside(server.pid(), &error))
    });
    let [access, error, filler] = [access, error, disk.file("filler")].map(|path| inside(site.server.pid(), &path));
    let pressure = Pressure::on(&site, edge);
    fill(&filler);
    pressure.go_on();
    reload_unseen(&site);
    site.server.signal(Signal::USR1);
    // The rest of a file's last page takes some more.
    let_die(&site, 100);
    pressure.go_on();
    std::fs::remove_file(&filler).expect("it is there");
    wait_until("news of the lost messages", || {
        let_die(&site, 1);
        let said = text(&error);
        said.contains("messages before this one could not be written: No space left on device")
            && said.contains("can be written again")
    });
    std::fs::write(&access, "").expect("there is room");
    pressure.go_on();
    wait_until("lines", || text(&access).lines().filter(|line| line.ends_with(" 200 6")).count() > 3);
    pressure.must_have_been_perfect("while the disk was full");
    site.stop();
}

/// Writes to a named pipe until it is full.
fn fill(path: &Path) {
    let mut file = File::create(path).expect("the folder is writable");
    for size in [4096, 64, 1] {
        while file.write(&vec![0; size]).is_ok() {}
    }
}

/// The reader of a server's output, as long as it lives.
struct Reader {
    pipe: File,
    text: String,
}

impl Reader {
    /// Makes a named pipe and opens it.
    fn new(path: &Path) -> Self {
        mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).expect("the folder is writable");
        Self::open(path)
    }

    fn open(path: &Path) -> Self {
        let flags = OFlags::NONBLOCK.bits() as i32;
        let pipe = OpenOptions::new().read(true).custom_flags(flags).open(path).expect("a pipe can be read");
        Self { pipe, text: String::new() }
    }

    /// The output that was read so far, and now.
    fn read(&mut self) -> &str {
        let mut buffer = [0; 65_536];
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(size) if size > 0 => self.text.push_str(&String::from_utf8_lossy(&buffer[..size])),
                Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("{error}"),
                _ => return &self.text,
            }
        }
    }
}

/// Starts a server whose standard error goes to a named pipe. Also returns the reader of the pipe.
fn start_with_reader(language: Language, edge: Edge) -> (Site, Reader) {
    let folder = crate::server::Folder::new();
    let path = folder.file("pipe");
    let mut reader = Reader::new(&path);
    let plan = Plan::below(below("exec 2>\"$0\"", &path), language, edge, &[]);
    let site = plan.start_with(|_| reader.read().to_owned());
    (site, reader)
}

fn a_log_whose_reader_has_gone_is_no_reason_to_stop(language: Language, edge: Edge) {
    let (site, reader) = start_with_reader(language, edge);
    let pressure = Pressure::on(&site, edge);
    drop(reader);
    let_die(&site, 20);
    site.set_load(Some("warn"));
    reload_unseen(&site);
    site.server.signal(Signal::USR1);
    pressure.go_on();
    let_die(&site, 20);
    pressure.must_have_been_perfect("while nobody read the log");
    site.stop();
}

fn a_log_whose_reader_stalls_is_not_waited_for(language: Language, edge: Edge) {
    /// The number of requests whose messages together do not fit into a pipe.
    const MANY: usize = 1200;
    let (site, mut reader) = start_with_reader(language, edge);
    let pressure = Pressure::on(&site, edge);
    let_die(&site, MANY);
    pressure.go_on();
    wait_until("news of the lost messages", || {
        let_die(&site, 1);
        reader.read().contains("messages before this one could not be written: its reader is too slow")
    });
    let_die(&site, MANY);
    reload_unseen(&site);
    site.server.signal(Signal::USR1);
    let_die(&site, MANY);
    pressure.must_have_been_perfect("while the reader of the log stalled");
    site.stop();
}

fn a_named_pipe_without_a_reader_is_no_reason_to_stop(language: Language, edge: Edge) {
    let folder = crate::server::Folder::new();
    let path = folder.file("access");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("the folder is writable");
    let site = Site::start(language, edge, &["--access-log-format", "common", "--access-log", path.to_str().expect("plain")]);
    let pressure = Pressure::on(&site, edge);
    for _ in 0..2 {
        let mut reader = Reader::open(&path);
        wait_until("lines", || {
            pressure.go_on();
            reader.read().lines().filter(|line| line.ends_with(" 200 6")).count() > 3
        });
        drop(reader);
        site.reload();
        pressure.go_on();
    }
    pressure.must_have_been_perfect("while nobody read the access log");
    kill_all(&site, edge);
    site.stop();
}

/// Kills the workers and the edges of a server, and waits until others have taken their places.
fn kill_all(site: &Site, edge: Edge) {
    let before = site.titled("worker");
    let edges = site.titled("edge");
    assert_eq!(edges.len(), usize::from(edge == Edge::On));
    before.iter().chain(&edges).for_each(|process| send(*process, Signal::KILL));
    wait_until("others serve", || {
        let (workers, now) = (site.titled("worker"), site.titled("edge"));
        workers.len() == 2 && workers.is_disjoint(&before) && now.len() == edges.len() && now.is_disjoint(&edges)
    });
    assert_eq!(site.get("/fast?7").as_deref(), Some("fast 7\n"), "{}", site.server.log());
}

fn a_folder_of_logs_may_vanish(language: Language, edge: Edge) {
    let folder = crate::server::Folder::new();
    let (logs, moved) = (folder.file("logs"), folder.file("moved"));
    std::fs::create_dir(&logs).expect("it is new");
    let (access, error) = (logs.join("access"), logs.join("error"));
    let arguments = ["--access-log", access.to_str().expect("plain"), "--error-log", error.to_str().expect("plain")];
    let site = Plan::new(language, edge, &arguments).start_with(|_| text(&error));
    let pressure = Pressure::on(&site, edge);
    std::fs::rename(&logs, &moved).expect("it is there");
    site.server.signal(Signal::USR1);
    wait_until("the refusal", || text(&moved.join("error")).contains("cannot open the error log again"));
    // Processes that have opened the files before keep writing to them.
    pressure.go_on();
    reload_unseen(&site);
    pressure.go_on();
    pressure.must_have_been_perfect("while there was no folder for logs");
    kill_all(&site, edge);
    wait_for("a word about it", || text(&moved.join("error")).contains("continuing without it").then_some(()));
    std::fs::create_dir(&logs).expect("it is gone");
    site.server.signal(Signal::USR1);
    wait_until("lines in the new files", || {
        assert!(site.get("/fast?8").is_some());
        text(&access).contains("/fast?8") && text(&error).contains("the log files are opened again")
    });
    site.stop();
}
