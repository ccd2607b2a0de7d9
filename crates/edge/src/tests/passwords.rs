//! Routes that want passwords. The thread that checks them is a real one, so these tests wait for its answers.

use super::super::routes::{Action, Filters, PasswordRule, Route, Routes, UserFile};
use super::*;
use oribi_filter::FieldChanges;
use oribi_route::Rule;
use std::fs;
use std::sync::Arc;

/// `secret`, by bcrypt at the lowest price.
const ALICE: &str = "alice:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

/// The same at a price that the edge needs longer to be paid than to read some requests.
const COSTLY: &str = "alice:$2y$09$abcdefghijklmnopqrstuuHGaj8X0gyV0nNYEM.J5pTQDq3AfkM3W\n";

/// Authorization with `alice:secret`, with `alice:wrong`, and with `bob:secret`.
const RIGHT: &str = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";
const WRONG: &str = "Authorization: Basic YWxpY2U6d3Jvbmc=\r\n";
const UNKNOWN: &str = "Authorization: Basic Ym9iOnNlY3JldA==\r\n";

/// A site with one app behind a password, at `/*`, and without one, at `/free`.
struct Guarded {
    site: Site,
    routes: Arc<Routes>,
    path: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

fn guarded(keep: bool, field: Option<&str>) -> Guarded {
    guarded_by(ALICE, keep, field)
}

fn guarded_by(users: &str, keep: bool, field: Option<&str>) -> Guarded {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("users");
    fs::write(&path, users).expect("it is ours");
    let file = Arc::new(UserFile::new(&path, users.as_bytes(), false).expect("valid"));
    let rule = PasswordRule { file, realm: "staff".to_owned(), keep, field: field.map(str::to_owned) };
    let route = |path: &str, passwords: Option<PasswordRule>| Route {
        rule: Rule { path: vec![path.to_owned()], ..Rule::default() },
        action: match path {
            "/gone" => Action::Respond { status: 410, content: b"gone\n".to_vec(), content_type: None },
            _ => Action::App { app: 0, mount: String::new() },
        },
        filters: Filters { passwords, request: FieldChanges::default(), ..Filters::default() },
    };
    let all = vec![route("/free", None), route("/gone", Some(rule.clone())), route("/*", Some(rule))];
    let routes: Arc<Routes> = Arc::new(Routes::compile(all).expect("the rules are valid"));
    Guarded { site: Site::with_apps(&Settings::default(), 1, Some(&routes)), routes, path, _directory: directory }
}

fn ask(target: &str, fields: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes()
}

impl Site {
    /// Serves until the condition is met.
    #[track_caller]
    fn run_until(&mut self, mut is_met: impl FnMut(&mut Self) -> bool) {
        let _deadline = oribi_test_support::waits_for("a password to be checked");
        loop {
            self.run();
            if is_met(self) {
                return;
            }
            std::thread::yield_now();
        }
    }

    #[track_caller]
    pub(super) fn awaited(&mut self, client: &Client) -> String {
        let mut received = String::new();
        self.run_until(|_| {
            received.push_str(&text(&client.received()));
            !received.is_empty()
        });
        received
    }

    /// Serves until the worker can take a request.
    #[track_caller]
    fn taken(&mut self, worker: &mut App) -> Taken {
        let mut taken = None;
        self.run_until(|_| {
            taken = worker.worker.take();
            taken.is_some()
        });
        let taken = taken.expect("it waited for that");
        worker.stored.read(worker.worker.request(&taken)).expect("a sensible request");
        taken
    }
}

fn lines(worker: &App) -> Vec<String> {
    let request = worker.stored.request(None, None).expect("all of it is in the slot");
    let fields = request.head.fields().map(|(_, name, value)| format!("{}: {}", text(name), text(value)));
    let variables = request.gateway.iter().flat_map(oribi_host::Gateway::variables);
    fields.chain(variables.map(|(_, name, value)| format!("{}={}", text(name), text(value)))).collect()
}

#[test]
fn a_request_without_a_password_is_asked_for_one() {
    let mut guarded = guarded(false, None);
    let client = guarded.site.asking(b"");
    for fields in ["", "Authorization: Bearer YWxpY2U6c2VjcmV0\r\n", "Authorization: Basic !\r\n", &format!("{RIGHT}{RIGHT}")] {
        let received = guarded.site.exchange(&client, &ask("/", fields));
        assert_response(&received, "401", "401 Unauthorized\n");
        assert!(received.contains("\r\nWWW-Authenticate: Basic realm=\"staff\", charset=\"UTF-8\"\r\n"), "{received}");
    }
    for fields in [WRONG, UNKNOWN] {
        client.send(&ask("/", fields));
        assert_response(&guarded.site.awaited(&client), "401", "401 Unauthorized\n");
    }
    let received = guarded.site.exchange(&client, &ask("/gone", ""));
    assert!(received.starts_with("HTTP/1.1 401 "), "the answers of the edge are behind the password, too: {received}");
    let mut worker = guarded.site.worker();
    client.send(&ask("/free", ""));
    guarded.site.run();
    worker.echo();
    assert_response(&guarded.site.received(&client), "200", "GET /free ");
}

#[test]
fn the_app_gets_the_user_and_not_the_password() {
    let mut guarded = guarded(false, Some("X-User"));
    let mut worker = guarded.site.worker();
    let client = guarded.site.asking(b"");
    for _ in 0..2 {
        let pretending = "Remote-User: evil\r\nX_Remote-User: evil\r\nx-user: evil\r\nAccept: a\r\n";
        client.send(&ask("/?a=b", &format!("{pretending}{RIGHT}")));
        let taken = guarded.site.taken(&mut worker);
        assert_eq!(lines(&worker), ["Host: a", "Accept: a", "X-User: alice", "REMOTE_USER=alice", "AUTH_TYPE=Basic"]);
        let memory = text(worker.worker.request(&taken));
        assert!(!memory.contains("YWxpY2U6c2VjcmV0") && !memory.contains("evil"), "{memory}");
        worker.answer(taken, "yes");
        assert_response(&guarded.site.awaited(&client), "200", "yes");
    }
    client.send(&ask("/gone", RIGHT));
    assert_response(&guarded.site.awaited(&client), "410", "gone\n");
}

#[test]
fn the_password_stays_if_the_app_wants_it() {
    let mut guarded = guarded(true, None);
    let mut worker = guarded.site.worker();
    let _client = guarded.site.asking(&ask("/", RIGHT));
    let taken = guarded.site.taken(&mut worker);
    assert_eq!(lines(&worker), ["Host: a", RIGHT.trim_end(), "REMOTE_USER=alice", "AUTH_TYPE=Basic"]);
    worker.answer(taken, "");
}

#[test]
fn content_waits_with_its_request() {
    let mut guarded = guarded(false, None);
    let mut worker = guarded.site.worker();
    let client =
        guarded.site.asking(format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n{RIGHT}\r\nhello").as_bytes());
    let taken = guarded.site.taken(&mut worker);
    let seen = worker.seen();
    worker.answer(taken, &seen);
    assert_response(&guarded.site.awaited(&client), "200", "POST /a hello");
}

#[test]
fn a_password_that_was_right_is_remembered_until_the_file_changes() {
    let mut guarded = guarded(false, None);
    let mut worker = guarded.site.worker();
    let client = guarded.site.asking(&ask("/", RIGHT));
    let taken = guarded.site.taken(&mut worker);
    worker.answer(taken, "");
    guarded.site.awaited(&client);
    // Now it does not wait.
    client.send(&ask("/", RIGHT));
    guarded.site.run();
    worker.echo();
    assert_response(&guarded.site.received(&client), "200", "GET / ");
    fs::write(&guarded.path, ALICE.replace("alice", "carol")).expect("it is ours");
    let memory = guarded.routes.read_users_again().expect("memory").expect("there are files");
    guarded.site.edge_link.give_users(memory.as_fd()).expect("there is room");
    guarded.site.edge.receive_descriptors();
    client.send(&ask("/", RIGHT));
    assert_response(&guarded.site.awaited(&client), "401", "401 Unauthorized\n");
}

#[test]
fn a_client_with_many_passwords_is_refused_and_then_served() {
    let mut guarded = guarded_by(COSTLY, false, None);
    let mut worker = guarded.site.worker();
    // All clients of the simulation are one. One password is being checked, sixteen wait, and there is no room for others.
    let clients: Vec<Client> = (0..40).map(|_| guarded.site.world.connect()).collect();
    for (number, client) in clients.iter().enumerate() {
        // `alice:` and another password each.
        client.send(&ask("/", &format!("Authorization: Basic YWxpY2U6{number:04}\r\n")));
    }
    let mut received = vec![String::new(); clients.len()];
    guarded.site.run_until(|_| {
        clients.iter().zip(&mut received).for_each(|(client, all)| all.push_str(&text(&client.received())));
        received.iter().all(|all| !all.is_empty())
    });
    let with = |status: &str| received.iter().filter(|all| all.starts_with(&format!("HTTP/1.1 {status} "))).count();
    assert_eq!(with("401") + with("429"), 40, "{received:?}");
    assert!(with("401") >= 17 && with("429") > 0, "{received:?}");
    // Then there is room again.
    let client = guarded.site.asking(&ask("/", RIGHT));
    let taken = guarded.site.taken(&mut worker);
    worker.answer(taken, "yes");
    assert_response(&guarded.site.awaited(&client), "200", "yes");
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let mut guarded = guarded(false, None);
    let clients: Vec<Client> = (0..3).map(|_| guarded.site.world.connect()).collect();
    for client in &clients {
        client.send(&ask("/", RIGHT));
    }
    clients[0].reset();
    let mut worker = guarded.site.worker();
    for _ in 0..2 {
        let taken = guarded.site.taken(&mut worker);
        worker.answer(taken, "yes");
    }
    guarded.site.run();
    assert!(worker.worker.take().is_none(), "the first client has gone");
    for client in &clients[1..] {
        assert_response(&guarded.site.awaited(client), "200", "yes");
    }
}
