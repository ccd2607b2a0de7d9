//! A host with a script, and an outlet that keeps what it receives.

use oribi_host::{
    Content, Endpoint, ExchangeId, Gateway, Host, Interruption, Outlet, Piece, Reply, ReplyError, Request, Runtime,
};
use oribi_lua::script_path::ScriptSource;
use oribi_lua::{LuaRuntime, LuaSettings};
use oribi_message::{
    FieldLayout, FieldPair, HeadLayout, KnownField, KnownVariable, RequestHead, ResponseHead, Role, Span, Trailers, Variable,
};
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;
use tempfile::TempDir;

/// A directory with scripts, and a host that runs them.
pub struct Site {
    pub directory: TempDir,
    pub runtime: LuaRuntime,
    host: RefCell<Box<dyn Host>>,
}

impl Site {
    /// A site whose only script is this text.
    pub fn new(script: &str) -> Self {
        Self::with(script, |_| {})
    }

    /// A site whose only script is this text, with settings of its own.
    pub fn with(script: &str, set: impl FnOnce(&mut LuaSettings)) -> Self {
        Self::with_files(&[("app.lua", script)], |directory| ScriptSource::One(directory.join("app.lua")), set)
    }

    /// A site whose script is loaded by its first request, as the scripts of a directory are.
    pub fn on_demand(script: &str, set: impl FnOnce(&mut LuaSettings)) -> Self {
        let source = |directory: &Path| ScriptSource::DocumentRoot { root: directory.to_owned(), index: "app.lua".to_owned() };
        Self::with_files(&[("app.lua", script)], source, set)
    }

    /// A site with several files.
    pub fn with_files(
        files: &[(&str, &str)],
        source: impl FnOnce(&Path) -> ScriptSource,
        set: impl FnOnce(&mut LuaSettings),
    ) -> Self {
        prepare_log();
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).expect("written");
        }
        let mut settings = LuaSettings::new(source(directory.path()));
        set(&mut settings);
        let runtime = LuaRuntime::new(settings).expect("a runtime");
        runtime.worker_started(1);
        take_log();
        let mut host = runtime.open(false).expect("a host");
        host.enter();
        Self { directory, runtime, host: RefCell::new(host) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().expect("the directory").join(name)
    }

    /// Returns the object that passes orders to the script that answers.
    pub fn interruption(&self) -> Arc<dyn Interruption> {
        self.host.borrow().interruption().expect("scripts can be interrupted")
    }

    /// The response to a GET.
    pub fn get(&self, target: &str) -> Response {
        self.answer(&Call::new("GET", target))
    }

    /// The body of the response to a GET, which is a 200.
    pub fn text(&self) -> String {
        self.text_of(&Call::new("GET", "/"))
    }

    /// The body of the response, which is a 200.
    pub fn text_of(&self, call: &Call<'_>) -> String {
        let response = self.answer(call);
        assert_eq!((response.status, response.ended), (200, Ended::Whole), "{response:?} {:?}", take_log());
        response.body
    }

    /// The response to a request.
    pub fn answer(&self, call: &Call<'_>) -> Response {
        let outlet = Recorder::default();
        self.answer_to(call, &outlet);
        outlet.response()
    }

    /// Lets a host whose scripts wait come round once, without waiting for `lane`. `outlet` must be the same in all calls, and outlive
    /// the site.
    pub fn come_round(&self, outlet: &Recorder, lane: BorrowedFd<'_>) {
        let mut host = self.host.borrow_mut();
        host.begin(outlet);
        host.run_loop(lane, Some(Duration::ZERO));
    }

    /// Has a request answered to an outlet.
    pub fn answer_to(&self, call: &Call<'_>, outlet: &Recorder) {
        let mut text = String::new();
        let mut add = |part: &str| {
            text.push_str(part);
            Span::new(text.len() - part.len(), text.len())
        };
        let mut layout = HeadLayout { method: add(call.method), ..HeadLayout::default() };
        let (path, query) = call.target.split_once('?').map_or((call.target, None), |(path, query)| (path, Some(query)));
        layout.path = add(path);
        layout.target = layout.path;
        if let Some(query) = query {
            add("?");
            layout.query = Some(add(query));
            layout.target.end = layout.query.expect("a query").end;
        }
        for (name, value) in call.fields {
            let known = KnownField::lookup(name.as_bytes());
            layout.fields.push(FieldLayout { name: add(name), value: add(value), known });
        }
        let mut variables = Vec::new();
        for (name, value) in call.variables.unwrap_or_default() {
            let known = KnownVariable::lookup(name.as_bytes());
            variables.push(Variable { name: add(name), value: add(value), known });
        }
        let mut file = tempfile::tempfile().expect("a file");
        let content = match call.content {
            None => Content::None,
            Some(content) if call.in_file => {
                file.write_all(content).expect("written");
                Content::File { file: file.as_fd(), size: content.len() as u64 }
            }
            Some(content) => Content::Memory(content),
        };
        let role = if call.data.is_some() { Role::Filter } else { Role::Responder };
        let data = call.data.map_or(Content::None, Content::Memory);
        let gateway = call.variables.map(|_| Gateway::new(role, text.as_bytes(), &variables, data));
        let trailers = Trailers::of(call.trailers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let request = Request {
            head: RequestHead::new(text.as_bytes(), &layout),
            content,
            trailers: trailers.as_deref(),
            remote: Endpoint { address: b"192.0.2.1", port: b"4711" },
            server: Endpoint { address: b"localhost", port: b"5000" },
            forwarded_port: false,
            chosen_name: false,
            https: call.https,
            underscores: false,
            gateway,
        };
        let after = self.host.borrow_mut().answer(&request, Reply::new(outlet, ExchangeId(1)));
        if after.deferred {
            self.host.borrow_mut().run_deferred();
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.host.borrow_mut().leave();
    }
}

/// A request.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub fields: &'a [(&'a str, &'a str)],
    /// The parameters of a web server in front; `None` without one.
    pub variables: Option<&'a [(&'a str, &'a str)]>,
    pub content: Option<&'a [u8]>,
    pub in_file: bool,
    /// The trailers after the content.
    pub trailers: &'a [(&'a str, &'a str)],
    pub https: bool,
    /// The data that the web server wants filtered, if any.
    pub data: Option<&'a [u8]>,
}

impl<'a> Call<'a> {
    pub fn new(method: &'a str, target: &'a str) -> Self {
        let (fields, trailers, variables, content, data) = (&[], &[], None, None, None);
        Self { method, target, fields, variables, content, in_file: false, trailers, https: false, data }
    }

    pub fn post(content: &'a [u8]) -> Self {
        Self { content: Some(content), ..Self::new("POST", "/") }
    }

    /// The parameters of a web server for a filter of `data`.
    pub fn filter(content: &'a [u8], data: &'a [u8]) -> Self {
        Self { variables: Some(&[]), data: Some(data), ..Self::post(content) }
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ended {
    /// The answer has not ended.
    #[default]
    Not,
    /// The whole answer has been sent.
    Whole,
    /// The answer was given up: a 500, or a connection that was cut.
    GivenUp,
}

/// The answer as a client sees it.
#[derive(Clone, Debug, Default)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: String,
    /// The pieces in which it arrived; empty if it arrived as a whole.
    pub pieces: Vec<String>,
    /// The fields after them.
    pub trailers: Vec<(String, String)>,
    pub ended: Ended,
}

impl Response {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }
}

/// An outlet that keeps its calls.
#[derive(Default)]
pub struct Recorder {
    response: RefCell<Response>,
    /// The number of pieces after which the client is gone; `None`: it stays.
    pub patience: Cell<Option<usize>>,
    /// Whether writing a piece panics.
    pub panics: Cell<bool>,
    /// The time that each piece takes.
    pub slowness: Cell<Duration>,
    /// The deadlines that the script has set.
    pub deadlines: RefCell<Vec<Option<Duration>>>,
}

impl Recorder {
    pub fn response(&self) -> Response {
        self.response.borrow().clone()
    }

    /// Returns the response, and forgets it.
    pub fn take(&self) -> Response {
        self.response.take()
    }

    fn begin(&self, head: ResponseHead<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut response = self.response.borrow_mut();
        assert_eq!(response.status, 0, "a second head");
        response.status = head.status;
        response.fields = head.fields.iter().map(|(name, value): &FieldPair<'_>| (text(name), text(value))).collect();
    }
}

impl Outlet for Recorder {
    fn respond(&self, _: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError> {
        self.begin(head);
        let mut response = self.response.borrow_mut();
        response.body = String::from_utf8_lossy(&parts.concat()).into_owned();
        response.ended = Ended::Whole;
        Ok(())
    }

    fn respond_pieces(&self, _: ExchangeId, _: ResponseHead<'_>, _: &[Piece<'_>]) -> Result<(), ReplyError> {
        unreachable!("no script sends files")
    }

    fn start(&self, _: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        self.begin(head);
        Ok(())
    }

    fn write(&self, _: ExchangeId, piece: &[u8]) -> Result<(), ReplyError> {
        assert!(!self.panics.get(), "an outlet that panics");
        std::thread::sleep(self.slowness.get());
        let mut response = self.response.borrow_mut();
        assert_eq!(response.ended, Ended::Not);
        if self.patience.get() == Some(response.pieces.len()) {
            return Err(ReplyError::Gone);
        }
        let piece = String::from_utf8_lossy(piece).into_owned();
        response.body.push_str(&piece);
        response.pieces.push(piece);
        Ok(())
    }

    fn finish(&self, _: ExchangeId) -> Result<(), ReplyError> {
        self.response.borrow_mut().ended = Ended::Whole;
        Ok(())
    }

    fn finish_with_trailers(&self, _: ExchangeId, trailers: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut response = self.response.borrow_mut();
        response.trailers = trailers.iter().map(|(name, value)| (text(name), text(value))).collect();
        response.ended = Ended::Whole;
        Ok(())
    }

    fn abandon(&self, _: ExchangeId) {
        self.response.borrow_mut().ended = Ended::GivenUp;
    }

    fn inform(&self, _: ExchangeId, _: u16, _: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        Ok(())
    }

    fn extend_deadline(&self, _: ExchangeId, time: Option<Duration>) {
        self.deadlines.borrow_mut().push(time);
    }

    fn waiting(&self) -> usize {
        0
    }

    fn take_socket(&self, _: ExchangeId) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps log messages, separately for each thread.
struct Log;

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.level() <= log::Level::Info {
            LINES.with_borrow_mut(|lines| lines.push(record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

fn prepare_log() {
    // Tests in other threads wait until the level is set, too.
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        log::set_logger(&Log).expect("no other logger is set");
        log::set_max_level(log::LevelFilter::Info);
    });
}

/// The messages that this thread has logged since the last call.
pub fn take_log() -> Vec<String> {
    LINES.take()
}

/// Whether the log has a line with that text; the log is emptied.
pub fn logged(text: &str) -> bool {
    take_log().iter().any(|line| line.contains(text))
}
