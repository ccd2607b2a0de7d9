//! Logs that go to a daemon: `syslog:` and `journal`.

use crate::client::{Target, get_from};
use crate::native;
use crate::server::{Folder, Server, send, wait_for, wait_until};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Without edges, with edges, and with edges in a sandbox, which cannot open files or sockets.
const SHAPES: [&[&str]; 3] = [&["--edge", "off"], &["--edge", "on"], &["--edge", "on", "--edge-sandbox", "on"]];

/// A log daemon of the test. It keeps the received messages in order.
enum Receiver {
    Local(UnixDatagram),
    Network(UdpSocket),
}

impl Receiver {
    fn local(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).expect("the name is free");
        socket.set_nonblocking(true).expect("it is ours");
        Self::Local(socket)
    }

    fn network() -> (Self, String) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_nonblocking(true).expect("it is ours");
        let address = socket.local_addr().expect("it is bound").to_string();
        (Self::Network(socket), address)
    }

    fn next(&self) -> Option<String> {
        let mut bytes = vec![0; 65_536];
        let size = match self {
            Self::Local(socket) => socket.recv(&mut bytes),
            Self::Network(socket) => socket.recv(&mut bytes),
        };
        bytes.truncate(size.ok()?);
        Some(String::from_utf8(bytes).expect("all that is sent is text"))
    }

    /// Waits for a message that contains `part` and returns it; discards the messages before it.
    fn wait_for(&self, part: &str) -> String {
        wait_for(part, || self.next().filter(|message| message.contains(part)))
    }
}

fn address_in(message: &str) -> Target {
    let (_, rest) = message.split_once("listening on http://").expect("it says where");
    let address = rest.split(' ').next().expect("there is a rest");
    Target::Tcp(address.parse().expect("it is an address"))
}

/// Sends a request whose text looks like the end of a log message and the beginning of another.
fn attack(target: &Target) {
    let Target::Tcp(address) = target else { panic!("it listens on TCP") };
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is ours");
    let agent = b"User-Agent: a\"\t<0>1 \xc2\x85\xe2\x80\xa8 MESSAGE=\x80\r\n";
    let request = [b"GET /attack%0a%00<0>evil[1]: HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", &agent[..], b"\r\n"].concat();
    stream.write_all(&request).expect("it is connected");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it is answered");
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn each_message_has_its_facility_severity_and_tag_and_each_line_is_one() {
    for shape in SHAPES {
        let folder = Folder::new();
        let errors = Receiver::local(&folder.file("log"));
        let (lines, address) = Receiver::network();
        let error_log = format!("syslog:{}?facility=daemon&tag=shop", folder.file("log").display());
        let access_log = format!("syslog:{address}?facility=local0");
        let logs = ["--workers", "1", "--error-log", &error_log, "--access-log", &access_log];
        let server = native(&[&logs, shape].concat());
        let start = errors.wait_for("Oribi listening on");
        assert!(start.starts_with("<30>"), "{start}");
        assert!(start.contains(&format!(" shop[{}]: [info] Oribi listening on http", server.pid())), "{start}");
        assert!(!start.contains('\n'));
        let target = address_in(&start);
        for turn in 0..20 {
            attack(&target);
            let line = wait_for("a line", || lines.next());
            let words: Vec<_> = line.splitn(8, ' ').collect();
            assert_eq!((words[0], words[3], words[5], words[6]), ("<134>1", "oribi", "-", "-"), "{line}");
            assert!(words[7].starts_with("127.0.0.1 - - ["), "{line}");
            let escaped = r#""a\"\t<0>1 \xc2\x85\xe2\x80\xa8 MESSAGE=\x80""#;
            assert!(line.ends_with(escaped) && line.contains("\"GET /attack%0a%00<0>evil[1]: HTTP/1.1\" 200"), "{line}");
            assert!(!line.contains(char::is_control), "{turn}: {line:?}");
        }
        assert_eq!(lines.next(), None);
        let victim = wait_for("a worker", || crate::server::children(server.pid()).first().copied());
        send(victim, Signal::KILL);
        let death = errors.wait_for("killed by signal 9");
        assert!(death.starts_with("<27>") && death.contains(" shop["), "{death}");
        assert_eq!(server.log(), "", "standard error was left alone");
    }
}

#[test]
fn the_journal_gets_fields() {
    for shape in SHAPES {
        let folder = Folder::new();
        let journal = Receiver::local(&folder.file("journal"));
        let log = format!("journal:{}?tag=shop", folder.file("journal").display());
        let server = native(&[&["--error-log", &log, "--access-log", &log, "--access-log-format", "%m %U"], shape].concat());
        let start = journal.wait_for("Oribi listening on");
        let front = format!("PRIORITY=6\nSYSLOG_FACILITY=23\nSYSLOG_IDENTIFIER=shop\nSYSLOG_PID={}\n", server.pid());
        assert!(start.starts_with(&format!("{front}MESSAGE=[info] Oribi")), "{start}");
        get_from(&address_in(&start), "/page").expect("it serves");
        let line = journal.wait_for("/page");
        assert!(line.ends_with("\nMESSAGE=GET /page\n") && line.lines().count() == 5, "{line}");
    }
}

#[test]
fn a_daemon_that_reads_nothing_delays_nobody_and_what_it_misses_is_counted() {
    for shape in SHAPES {
        let folder = Folder::new();
        let lines = Receiver::local(&folder.file("log"));
        let access_log = format!("syslog:{}", folder.file("log").display());
        let mut server = native(&[&["--workers", "1", "--access-log", &access_log], shape].concat());
        let target = Target::Tcp(server.address());
        // More than may wait.
        let long = format!("/{}", "x".repeat(1000));
        let mut sent = 0;
        while !server.log().contains("lines could not be written to syslog:") {
            get_from(&target, &long).expect("it is answered");
            sent += 1;
            assert!(sent < 5000, "{}", server.log());
        }
        assert!(server.log().contains("its reader is too slow"), "{}", server.log());
        let mut read = 0;
        wait_until("a line that is written again", || {
            get_from(&target, "/again").expect("it is answered");
            std::iter::from_fn(|| lines.next()).any(|line| {
                read += 1;
                line.contains("/again")
            })
        });
        assert!(read > 1 && read < sent, "{read} of {sent}");
        server.wait_for_log("can be written again");
    }
}

/// A real rsyslogd with a configuration of its own, which writes messages into a file.
struct Rsyslog {
    folder: Folder,
    /// An address of this machine that no other test uses.
    address: String,
    child: Option<Child>,
}

impl Rsyslog {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Relaxed));
        let address = format!("127.{}.{}.{count}", 1 + (process >> 8 & 127), process & 255);
        let folder = Folder::new();
        let place = folder.0.display();
        let configuration = format!(
            "module(load=\"imuxsock\" SysSock.Use=\"off\")\n\
             module(load=\"imudp\")\n\
             input(type=\"imuxsock\" Socket=\"{place}/log\")\n\
             input(type=\"imudp\" address=\"{address}\" port=\"5514\")\n\
             template(name=\"plain\" type=\"string\" string=\"%syslogfacility-text%.%syslogseverity-text% %programname% %procid%%msg%\\n\")\n\
             action(type=\"omfile\" file=\"{place}/received\" template=\"plain\")\n"
        );
        std::fs::write(folder.file("rsyslog.conf"), configuration).expect("the folder is writable");
        Self { folder, address, child: None }
    }

    fn start(&mut self) {
        let mut command = Command::new("/usr/sbin/rsyslogd");
        command.arg("-n").arg("-f").arg(self.folder.file("rsyslog.conf")).arg("-i").arg(self.folder.file("pid"));
        let output = std::fs::File::create(self.folder.file("said")).expect("the folder is writable");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).spawn();
        self.child = Some(child.expect("rsyslog is installed, see setup/packages.test"));
        let probe = UnixDatagram::unbound().expect("a socket");
        let port = UdpSocket::bind((self.address.as_str(), 0)).expect("an address of the machine");
        wait_until("rsyslogd", || {
            // The first call reports a missing listener once; otherwise it sends a message.
            let _ = port.send_to(b"<14>probe: of the port", (self.address.as_str(), 5514));
            let _ = probe.send_to(b"<14>probe: of the socket", self.folder.file("log"));
            let received = self.received();
            received.contains("of the port") && received.contains("of the socket")
        });
    }

    /// Stops the daemon, and removes the probes from the received messages.
    fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        send(child.id(), Signal::TERM);
        wait_until("the end of rsyslogd", || child.try_wait().expect("it is a child").is_some());
        let kept: Vec<String> =
            self.received().lines().filter(|line| !line.contains("probe")).map(|line| format!("{line}\n")).collect();
        std::fs::write(self.folder.file("received"), kept.concat()).expect("it is ours");
    }

    fn received(&self) -> String {
        std::fs::read_to_string(self.folder.file("received")).unwrap_or_default()
    }
}

impl Drop for Rsyslog {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("What rsyslogd has received:\n{}", self.received());
        }
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn a_restarted_rsyslogd(shape: &[&str], target: impl Fn(&Rsyslog) -> String) {
    let mut daemon = Rsyslog::new();
    daemon.start();
    let access_log = target(&daemon);
    let mut server = native(&[&["--workers", "1", "--access-log", &access_log], shape].concat());
    let target = Target::Tcp(server.address());
    get_from(&target, "/first").expect("it is answered");
    wait_until("the first line", || daemon.received().contains("GET /first "));
    let received = daemon.received();
    let line = received.lines().find(|line| line.contains("/first")).expect("it is there");
    assert!(line.starts_with("local3.info shop ") && line.contains("] \"GET /first HTTP/1.1\" 200 5"), "{line}");
    daemon.stop();
    get_from(&target, "/missed").expect("it is answered");
    wait_until("that lines are lost", || {
        get_from(&target, "/lost").expect("it is answered");
        server.log().contains("could not be written to syslog:")
    });
    daemon.start();
    wait_until("lines of the next daemon", || {
        get_from(&target, "/again").expect("it is answered");
        daemon.received().contains("GET /again ")
    });
    // The line of the last that was lost may have been written when the next daemon was there.
    assert!(!daemon.received().contains("/missed"));
    wait_until("the news", || {
        get_from(&target, "/again").expect("it is answered");
        server.log().contains("can be written again")
    });
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn a_restarted_rsyslogd_gets_lines_at_its_socket() {
    for shape in SHAPES {
        a_restarted_rsyslogd(shape, |daemon| format!("syslog:{}/log?facility=local3&tag=shop", daemon.folder.0.display()));
    }
}

#[test]
fn a_restarted_rsyslogd_gets_lines_at_its_port() {
    for shape in SHAPES {
        a_restarted_rsyslogd(shape, |daemon| format!("syslog:{}:5514?facility=local3&tag=shop", daemon.address));
    }
}

/// Orders the server to open its logs again, which it logs, and waits until all of its processes have done so.
fn reopen(server: &Server, target: &Target, access_log: &Path) {
    std::fs::remove_file(access_log).expect("it is there");
    server.signal(Signal::USR1);
    wait_until("the new access log", || {
        get_from(target, "/").expect("it is answered");
        access_log.exists()
    });
}

#[test]
fn a_restarted_rsyslogd_gets_errors_and_is_told_how_many_it_has_missed() {
    let mut daemon = Rsyslog::new();
    daemon.start();
    let access_log = daemon.folder.file("access");
    let error_log = format!("syslog:{}/log?facility=user&tag=shop", daemon.folder.0.display());
    let control = daemon.folder.file("control");
    let (access, socket) = (access_log.to_str().expect("plain"), control.to_str().expect("plain"));
    let logs = ["--error-log", &error_log, "--access-log", access, "--control", socket];
    let server = native(&[&logs, SHAPES[2]].concat());
    wait_until("its address", || daemon.received().contains("Oribi listening on"));
    let target = address_in(&daemon.received());
    let start = format!("user.info shop {} [info] Oribi listening on", server.pid());
    assert!(daemon.received().contains(&start), "{}", daemon.received());
    daemon.stop();
    for _ in 0..2 {
        // The answer comes when the first process has logged it; a worker may be later.
        let output = Command::new(env!("CARGO_BIN_EXE_oribi"))
            .args(["ctl", "reopen-logs", "--control", socket])
            .output()
            .expect("it was built");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    daemon.start();
    assert!(!daemon.received().contains("opened again"));
    reopen(&server, &target, &access_log);
    wait_until("the number", || daemon.received().contains("messages before this one could not be written"));
    let received = daemon.received();
    let report =
        format!("user.warning shop {} [warn] error log: 2 messages before this one could not be written", server.pid());
    assert!(received.contains(&report), "{received}");
    wait_until("the message", || daemon.received().contains("[info] the log files are opened again"));
}

#[test]
fn a_server_starts_without_its_daemon_and_says_so_on_standard_error() {
    let folder = Folder::new();
    let error_log = format!("syslog:{}", folder.file("log").display());
    let mut server = native(&["--edge", "off", "--workers", "1", "--error-log", &error_log]);
    server.wait_for_log("has no reader yet");
    // Before, it would not know the signal.
    server.wait_for_workers(1);
    let daemon = Receiver::local(&folder.file("log"));
    server.signal(Signal::HUP);
    daemon.wait_for("replacing the workers");
}

/// Under a service manager standard output is a socket, which cannot be opened by its name.
#[test]
fn the_access_log_goes_to_standard_output_by_its_name_also_if_that_is_a_socket() {
    for shape in SHAPES {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        ours.set_read_timeout(Some(Duration::from_secs(60))).expect("it is ours");
        let mut lines = BufReader::new(ours).lines();
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "exec \"$@\" 1>&0",
            "sh",
            env!("CARGO_BIN_EXE_oribi"),
            "--native",
            "hello",
            "--listen",
            "127.0.0.1:0",
        ]);
        command.args(["--access-log", "/dev/stdout"]).args(shape).args(crate::wire::options());
        let mut server = Server::run_with_input(&mut command, Stdio::from(OwnedFd::from(theirs)));
        let target = Target::Tcp(server.address());
        for path in ["/first", "/second"] {
            get_from(&target, path).expect("it serves");
            let line = lines.next().expect("a line").expect("a line");
            assert!(line.contains(&format!("\"GET {path} ")), "{line}");
            server.signal(Signal::USR1);
            server.wait_for_log("the log files are opened again");
        }
    }
}
