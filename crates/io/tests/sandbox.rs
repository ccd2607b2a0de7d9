//! The abilities of a process in the sandbox, and the limits. This program starts itself again for each attempt, once in the
//! sandbox and once outside, where everything succeeds: so an attempt that fails inside is forbidden, and not impossible
//! anyway.
#![allow(unsafe_code)]

use oribi_io::process::sandbox::Offer;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::ioctl_fionread;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::ptr;

/// The outcome of an attempt in the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Success,
    /// The system refuses it with this error.
    Refused(i32),
    /// The system ends the process.
    Death,
}
use End::{Death, Refused, Success};

const FORBIDDEN_PATH: End = Refused(libc::EACCES);
const FORBIDDEN_CALL: End = Refused(libc::EPERM);

/// The surroundings of an attempt.
struct Scene {
    /// `site` may be read, `spool` may be written to; beside them is a file `secret`.
    place: PathBuf,
    /// The port of a listening socket.
    port: u16,
    /// Made before the sandbox.
    socket: OwnedFd,
    pipe: PipeWriter,
    /// Another process.
    parent: i32,
}

impl Scene {
    fn file(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }
}

type Attempt = fn(&Scene) -> io::Result<()>;

/// The result of a system call that returns -1 for an error.
fn done(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

macro_rules! call {
    ($number:expr $(, $argument:expr)*) => {
        // The kernel reads whole words, and a shorter argument leaves the rest of its word undefined.
        // SAFETY: the calls of these attempts take numbers, pointers to constants, or null pointers.
        done(unsafe { libc::syscall($number $(, $argument as libc::c_long)*) })
    };
}

const ATTEMPTS: &[(&str, End, Attempt)] = &[
    // Files.
    ("a file to be read", Success, |scene| File::open(scene.file("site/page")).map(drop)),
    ("the status of a directory to be read", Success, |scene| std::fs::metadata(scene.file("site")).map(drop)),
    ("a directory to be read", Success, |scene| File::open(scene.file("site")).map(drop)),
    ("writing to a file to be read", FORBIDDEN_PATH, |scene| {
        OpenOptions::new().append(true).open(scene.file("site/page")).map(drop)
    }),
    ("a new file among those to be read", FORBIDDEN_PATH, |scene| File::create(scene.file("site/new")).map(drop)),
    ("a link out of the files to be read", FORBIDDEN_PATH, |scene| File::open(scene.file("site/out")).map(drop)),
    ("a file elsewhere", FORBIDDEN_PATH, |scene| File::open(scene.file("secret")).map(drop)),
    ("the list of users", FORBIDDEN_PATH, |_| File::open("/etc/passwd").map(drop)),
    ("its own environment", FORBIDDEN_PATH, |_| File::open("/proc/self/environ").map(drop)),
    ("a device", FORBIDDEN_PATH, |_| File::open("/dev/null").map(drop)),
    ("a file without a name", Success, |scene| {
        let mut file = tempfile::tempfile_in(scene.file("spool"))?;
        file.write_all(&[7; 100_000])
    }),
    ("a file in memory", Success, |_| {
        let mut file = File::from(rustix::fs::memfd_create("oribi-content", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.write_all(&[7; 100_000])
    }),
    ("a file with a name for a moment", Success, |scene| {
        let path = scene.file("spool/name");
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        file.write_all(b"x")
    }),
    ("a temporary file elsewhere", FORBIDDEN_PATH, |scene| tempfile::tempfile_in(&scene.place).map(drop)),
    ("a new directory", FORBIDDEN_CALL, |scene| std::fs::create_dir(scene.file("spool/directory"))),
    ("another name for a file", FORBIDDEN_CALL, |scene| std::fs::rename(scene.file("site/page"), scene.file("spool/page"))),
    ("a link", FORBIDDEN_CALL, |scene| std::os::unix::fs::symlink("/", scene.file("spool/link"))),
    ("other permissions", FORBIDDEN_CALL, |scene| {
        let path = scene.file("site/page");
        let permissions = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
        std::fs::set_permissions(path, permissions)
    }),
    // Programs and memory that is executed.
    ("another program", Death, |_| Err(Command::new("/bin/true").exec())),
    ("another process", Death, |_| {
        // SAFETY: the child ends at once.
        match unsafe { libc::fork() } {
            // SAFETY: the call ends the process.
            0 => unsafe { libc::_exit(0) },
            child => done(child.into()),
        }
    }),
    ("a thread", Success, |_| {
        std::thread::Builder::new().name("second".to_owned()).spawn(|| ())?.join().map_err(|_| io::ErrorKind::Other.into())
    }),
    ("memory to be written", Success, |_| map(libc::PROT_READ | libc::PROT_WRITE)),
    ("memory to be executed", FORBIDDEN_CALL, |_| map(libc::PROT_READ | libc::PROT_EXEC)),
    ("memory that becomes executable", FORBIDDEN_CALL, |_| {
        let size = 4096usize;
        // SAFETY: the mapping is new, and no other code knows it.
        unsafe {
            let start = libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            done(libc::mprotect(start, size, libc::PROT_READ | libc::PROT_EXEC).into())
        }
    }),
    // The network.
    ("a socket", FORBIDDEN_CALL, |scene| TcpStream::connect(("127.0.0.1", scene.port)).map(drop)),
    ("a connection by a socket that it has", FORBIDDEN_CALL, |scene| {
        let address = rustix::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, scene.port);
        Ok(rustix::net::connect(&scene.socket, &address)?)
    }),
    ("a name for a socket that it has", FORBIDDEN_CALL, |scene| {
        Ok(rustix::net::bind(&scene.socket, &rustix::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0))?)
    }),
    ("a listener", FORBIDDEN_CALL, |_| TcpListener::bind("127.0.0.1:0").map(drop)),
    ("a connection to a socket with a path", FORBIDDEN_CALL, |scene| UnixStream::connect(scene.file("listener")).map(drop)),
    ("a pair of sockets", Success, |_| UnixStream::pair().map(drop)),
    ("the room of a pipe", Success, |scene| {
        ioctl_fionread(&scene.pipe)?;
        call!(libc::SYS_fcntl, scene.pipe.as_raw_fd(), libc::F_GETPIPE_SZ)
    }),
    ("a pair of sockets that can send to anybody", FORBIDDEN_CALL, |_| UnixDatagram::pair().map(drop)),
    // Other processes.
    ("a signal to another process", FORBIDDEN_CALL, |scene| call!(libc::SYS_kill, scene.parent, libc::SIGURG)),
    ("a signal to a thread of another process", FORBIDDEN_CALL, |scene| {
        call!(libc::SYS_tgkill, scene.parent, scene.parent, libc::SIGURG)
    }),
    ("a signal to itself", Success, |_| {
        // SAFETY: the signal is ignored unless an action was set, and none was.
        done(unsafe { libc::raise(libc::SIGURG) }.into())
    }),
    ("signals by a socket for another process", FORBIDDEN_CALL, |scene| {
        call!(libc::SYS_fcntl, scene.socket.as_raw_fd(), libc::F_SETOWN, scene.parent)
    }),
    ("a descriptor for a process", Success, |_| {
        let own = rustix::process::getpid();
        Ok(rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty()).map(drop)?)
    }),
    ("tracing", Death, |_| call!(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0)),
    ("the memory of another process", Death, |scene| {
        call!(libc::SYS_process_vm_readv, scene.parent, ptr::null::<u8>(), 0, ptr::null::<u8>(), 0, 0)
    }),
    ("a descriptor of another process", Death, |scene| {
        let parent = rustix::process::Pid::from_raw(scene.parent).expect("it runs");
        let parent = rustix::process::pidfd_open(parent, rustix::process::PidfdFlags::empty())?;
        Ok(rustix::process::pidfd_getfd(&parent, 0, rustix::process::PidfdGetfdFlags::empty()).map(drop)?)
    }),
    // The rest of the kernel.
    ("a ring", Death, |_| oribi_io::Uring::new().map(drop).map_err(|refusal| io::Error::other(refusal.to_string()))),
    ("its name as a user", Death, |_| {
        // SAFETY: the call takes a number: that of the current user.
        done(unsafe { libc::syscall(libc::SYS_setuid, libc::getuid()) })
    }),
    ("another view of the system", Death, |_| call!(libc::SYS_unshare, libc::CLONE_FS)),
    ("time that passes", Success, |_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        Ok(())
    }),
    ("a wait shorter than a millisecond", Success, |_| {
        // The outcome if the call is allowed: there is nothing to wait at.
        match call!(libc::SYS_epoll_pwait2, -1, ptr::null::<u8>(), 1, ptr::null::<u8>(), ptr::null::<u8>(), 0) {
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(()),
            other => other,
        }
    }),
    ("chance", Success, |_| {
        let mut bytes = [0u8; 8];
        call!(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), 0)
    }),
    ("a call that no kernel knows", Refused(libc::EPERM), |_| match call!(0x3fff_i64) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        other => other,
    }),
];

fn map(protection: i32) -> io::Result<()> {
    // SAFETY: the mapping is new, and no other code uses it.
    let start = unsafe { libc::mmap(ptr::null_mut(), 4096, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

const NUMBER: &str = "ORIBI_TEST_ATTEMPT";
const PLACE: &str = "ORIBI_TEST_PLACE";
const PORT: &str = "ORIBI_TEST_PORT";
const CONFINED: &str = "ORIBI_TEST_CONFINED";

/// The status of a child whose attempt was refused with an error that has no number.
const OTHER_ERROR: i32 = 200;

fn main() {
    match std::env::var(NUMBER) {
        Ok(number) => std::process::exit(attempt(number.parse().expect("a number"))),
        Err(_) => try_everything(),
    }
}

/// Makes the attempt with this number, in a child, and returns the exit status: 0, or the number of the error.
fn attempt(number: usize) -> i32 {
    let variable = |name| std::env::var(name).expect("the parent has set it");
    let place = PathBuf::from(variable(PLACE));
    // SAFETY: the call takes numbers; the code that gets the descriptor is the only owner.
    let socket = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)) };
    let parent = rustix::process::getppid().expect("it waits").as_raw_nonzero().get();
    let (_reader, pipe) = io::pipe().expect("a pipe");
    let scene = Scene { port: variable(PORT).parse().expect("a number"), socket, pipe, parent, place };
    let (_, _, attempt) = ATTEMPTS[number];
    if std::env::var_os(CONFINED).is_some() {
        let directory = |name: &str| {
            open(scene.file(name), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).expect("it is there")
        };
        let (site, spool) = (directory("site"), directory("spool"));
        Offer::of_kernel().take(&[site.as_fd()], &[spool.as_fd()]).expect("the kernel has what it takes");
    }
    match attempt(&scene) {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(OTHER_ERROR),
    }
}

fn end(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(0), _) => Success,
        (Some(number), _) => Refused(number),
        (None, Some(libc::SIGSYS)) => Death,
        (None, signal) => panic!("it ended by signal {signal:?}"),
    }
}

fn try_everything() -> ! {
    let offer = Offer::of_kernel();
    assert_eq!(offer.missing(), None, "these tests need a kernel with both");
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it listens").port();
    let (mut passed, mut failed) = (0, 0);
    for (number, (name, expected, _)) in ATTEMPTS.iter().enumerate().filter(|(_, (name, ..))| name.contains(&wanted)) {
        let place = tempfile::tempdir().expect("a directory is to be had");
        let _listener = furnish(place.path());
        let child = |confined: bool| {
            let mut command = Command::new(std::env::current_exe().expect("it is running"));
            command.env(NUMBER, number.to_string()).env(PLACE, place.path()).env(PORT, port.to_string());
            if confined {
                command.env(CONFINED, "yes");
            }
            end(command.status().expect("it starts"))
        };
        // Inside first: outside, some attempts change the files.
        let (inside, outside) = (child(true), child(false));
        let well = inside == *expected && outside == Success;
        println!("test {name} ... {}", if well { "ok" } else { "FAILED" });
        if !well {
            println!("  inside: {inside:?}, which is to be {expected:?}; outside: {outside:?}");
        }
        *(if well { &mut passed } else { &mut failed }) += 1;
    }
    println!("\ntest result: {}. {passed} passed; {failed} failed; 0 ignored", if failed == 0 { "ok" } else { "FAILED" });
    std::process::exit(i32::from(failed > 0));
}

/// Makes the files of a [`Scene`], and a socket that listens there.
fn furnish(place: &Path) -> UnixListener {
    for directory in ["site", "spool"] {
        std::fs::create_dir(place.join(directory)).expect("the directory is new");
    }
    for file in ["secret", "site/page"] {
        std::fs::write(place.join(file), file).expect("the directory is writable");
    }
    std::os::unix::fs::symlink("../secret", place.join("site/out")).expect("the directory is writable");
    let mut text = String::new();
    File::open(place.join("site/out")).and_then(|mut file| file.read_to_string(&mut text)).expect("the link leads there");
    UnixListener::bind(place.join("listener")).expect("the directory is writable")
}
