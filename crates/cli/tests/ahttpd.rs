//! `oribi ahttpd PORT` from outside: it behaves like ahttpd, without ahttpd's errors, with every I/O model.

use oribi_io::Model;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The time after which a test gives up, far longer than needed on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST_GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
/// The answer to a request that leaves the connection open.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHello World!";
/// The answer when the server closes the connection.
const LAST_ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\nHello World!";

/// The choices for `--io` in this program.
fn choices() -> impl Iterator<Item = &'static str> {
    std::iter::once("auto").chain(Model::built_in().map(Model::name))
}

/// A running server, killed at the end of its test.
struct Ahttpd {
    process: Child,
    output: BufReader<ChildStdout>,
    /// The message of the server when it begins to listen.
    said: String,
    port: u16,
}

impl Ahttpd {
    fn start(command: &mut Command) -> Self {
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program was built");
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut said = String::new();
        output.read_line(&mut said).expect("it speaks UTF-8");
        let port = said.split("http://0.0.0.0:").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        let port = port.unwrap_or_else(|| panic!("it says {said:?}"));
        Self { process, output, said, port }
    }

    fn with(model: &str) -> Self {
        Self::start(oribi().args(["ahttpd", "--io", model, "0"]))
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is ours");
        Client(stream)
    }

    /// Returns the number of the server's open descriptors.
    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).expect("it runs").count()
    }

    /// Kills the server, and returns its output since it began to listen.
    fn end(mut self) -> String {
        self.process.kill().expect("it is a child");
        let mut written = String::new();
        self.output.read_to_string(&mut written).expect("it speaks UTF-8");
        self.process.stderr.take().expect("it is piped").read_to_string(&mut written).expect("it speaks UTF-8");
        written
    }
}

impl Drop for Ahttpd {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Client(TcpStream);

impl Client {
    fn send(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.write_all(bytes).expect("the server is there");
        self
    }

    #[track_caller]
    fn expect(&mut self, bytes: &[u8]) -> &mut Self {
        let mut received = vec![0; bytes.len()];
        self.0.read_exact(&mut received).expect("so much comes");
        assert_eq!(String::from_utf8_lossy(&received), String::from_utf8_lossy(bytes));
        self
    }

    /// All bytes until the server closes.
    fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).expect("an orderly end");
        String::from_utf8(rest).expect("it is text")
    }
}

fn oribi() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
    for variable in ["PORT", "HOST", "WEB_CONCURRENCY"] {
        command.env_remove(variable);
    }
    command
}

fn ends_with(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().expect("the program was built");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it speaks UTF-8");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn every_model_sends_the_same_bytes() {
    assert_eq!(ANSWER.len(), 51);
    for model in choices() {
        let server = Ahttpd::with(model);
        assert!(model == "auto" || server.said.contains(&format!("I/O by {model}")), "{}", server.said);
        server.connect().send(GET).expect(ANSWER).send(GET).expect(ANSWER).send(LAST_GET).expect(LAST_ANSWER);
        assert_eq!(server.end(), "", "{model}");
    }
}

#[test]
fn pipelined_requests_get_an_answer_each() {
    for model in choices() {
        let server = Ahttpd::with(model);
        let mut client = server.connect();
        for count in [2, 16, 100] {
            client.send(&GET.repeat(count)).expect(&ANSWER.repeat(count));
        }
        // There are exactly as many responses as requests.
        assert_eq!(client.send(LAST_GET).rest().as_bytes(), LAST_ANSWER);
    }
}

#[test]
fn a_head_in_pieces_gets_one_answer_when_it_is_whole() {
    for model in choices() {
        let server = Ahttpd::with(model);
        let mut client = server.connect();
        client.0.set_nodelay(true).expect("it is ours");
        for split in 1..GET.len() {
            client.send(&GET[..split]);
            client.0.set_read_timeout(Some(Duration::from_millis(1))).expect("it is ours");
            let early = client.0.read(&mut [0; 1]);
            assert!(early.is_err(), "an answer to half a head, split at {split}: {early:?}");
            client.0.set_read_timeout(Some(PATIENCE)).expect("it is ours");
            client.send(&GET[split..]).expect(ANSWER);
        }
    }
}

#[test]
fn a_head_may_be_longer_than_a_receive_of_1023_bytes() {
    for model in choices() {
        let server = Ahttpd::with(model);
        let mut client = server.connect();
        for size in [1000, 1023, 1024, 5000, 20_000] {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "x".repeat(size));
            client.send(head.repeat(2).as_bytes()).expect(&ANSWER.repeat(2));
        }
    }
}

#[test]
fn every_method_is_answered_and_head_without_content() {
    for model in choices() {
        let server = Ahttpd::with(model);
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345").expect(ANSWER);
        client.send(b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").expect(ANSWER);
        client.send(b"DELETE /any/where?x=1 HTTP/1.1\r\nHost: a\r\n\r\n").expect(ANSWER);
        client.send(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").expect(ANSWER);
        let head = ANSWER.strip_suffix(b"Hello World!").expect("it ends so");
        client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").expect(head).send(GET).expect(ANSWER);
    }
}

#[test]
fn malformed_requests_get_400() {
    for model in choices() {
        let server = Ahttpd::with(model);
        for malformed in
            ["GETTING NOWHERE\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "\0\r\n\r\n"]
        {
            let answer = server.connect().send(malformed.as_bytes()).rest();
            assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{malformed:?}: {answer}");
            assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
        }
    }
}

#[test]
fn a_wish_to_close_is_read_in_any_case_and_announced() {
    for model in choices() {
        let server = Ahttpd::with(model);
        for wish in ["Connection: close", "Connection: Close", "connection: CLOSE", "CONNECTION: keep-alive, cLoSe"] {
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{wish}\r\n\r\n");
            assert_eq!(server.connect().send(request.as_bytes()).rest().as_bytes(), LAST_ANSWER, "{wish}");
        }
        // This only resembles a request.
        server
            .connect()
            .send(b"GET / HTTP/1.1\r\nHost: a\r\nX: Connection: Close\r\n\r\n")
            .expect(ANSWER)
            .send(GET)
            .expect(ANSWER);
        // HTTP/1.0 connections close unless the client asks otherwise, and the answer announces it.
        assert_eq!(server.connect().send(b"GET / HTTP/1.0\r\n\r\n").rest().as_bytes(), LAST_ANSWER);
    }
}

#[test]
fn no_descriptor_is_lost_to_clients_that_leave_as_they_like_and_nothing_is_said_of_them() {
    for model in choices() {
        let server = Ahttpd::with(model);
        server.connect().send(LAST_GET).rest();
        let before = server.descriptors();
        for round in 0..50 {
            let mut half_closed = server.connect();
            half_closed.send(GET);
            half_closed.0.shutdown(Shutdown::Write).expect("it is connected");
            assert_eq!(half_closed.rest().as_bytes(), ANSWER);
            // The first client sends nothing, the second sends a part of a head, and the third does not read its response. So
            // closing the third connection resets it.
            let mut leavers = [server.connect(), server.connect(), server.connect()];
            leavers[1].send(&GET[..10 + round % 5]);
            leavers[2].send(GET);
        }
        let end = Instant::now() + PATIENCE;
        while server.descriptors() > before {
            assert!(Instant::now() < end, "{model}: {} descriptors, {before} before", server.descriptors());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(server.end(), "", "{model}");
    }
}

#[test]
fn it_is_one_process_with_one_thread() {
    for model in choices() {
        let server = Ahttpd::with(model);
        server.connect().send(GET).expect(ANSWER);
        let tasks = format!("/proc/{}/task", server.process.id());
        assert_eq!(std::fs::read_dir(&tasks).expect("it runs").count(), 1);
        let children = format!("{tasks}/{}/children", server.process.id());
        assert_eq!(std::fs::read_to_string(children).expect("it runs"), "");
    }
}

#[test]
fn a_link_of_that_name_is_as_good_as_the_word() {
    let folder = std::env::temp_dir().join(format!("oribi-ahttpd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a directory");
    let link = folder.join("ahttpd");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(Path::new(env!("CARGO_BIN_EXE_oribi")), &link).expect("the name is free");
    let server = Ahttpd::start(Command::new(&link).arg("0"));
    server.connect().send(GET).expect(ANSWER);
    drop(server);
    std::fs::remove_dir_all(folder).expect("it is ours");
}

#[test]
fn anything_but_one_port_gets_the_usage_and_fails() {
    for arguments in [&[][..], &["2222", "3333"], &["port"], &["70000"], &["-1"], &["2222", "--io", "magic"]] {
        let (status, output, errors) = ends_with(oribi().arg("ahttpd").args(arguments));
        assert_eq!((status, output.as_str()), (Some(2), ""), "{arguments:?}: {errors}");
        assert!(errors.contains("Usage: ahttpd PORT"), "{arguments:?}: {errors}");
    }
    let (status, output, _) = ends_with(oribi().args(["ahttpd", "--help"]));
    assert!(status == Some(0) && output.contains("ahttpd PORT") && output.contains("Hello World!"), "{output}");
}

#[test]
fn a_program_serves_over_a_model_or_says_how_to_get_one_that_has_it() {
    for &model in Model::ALL {
        let name = model.name();
        if model.is_built_in() {
            assert!(Ahttpd::with(name).said.contains(&format!("I/O by {name}")));
            continue;
        }
        for arguments in [&["ahttpd", "--io", name, "0"][..], &["--native", "x", "--listen", "127.0.0.1:0", "--io", name]] {
            let (status, output, errors) = ends_with(oribi().args(arguments));
            assert_eq!((status, output.as_str()), (Some(1), ""), "{errors}");
            assert!(errors.contains(&format!("--features {name}")) && errors.contains("make build"), "{errors}");
        }
    }
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let server = Ahttpd::with("epoll");
    let (status, output, errors) = ends_with(oribi().args(["ahttpd", &server.port.to_string()]));
    assert_eq!((status, output.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains(&server.port.to_string()), "{errors}");
}
