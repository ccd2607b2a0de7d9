//! Changes of the routes and the apps of a running edge.

use super::super::applying::Applying;
use super::super::parent_link::Reason;
use super::super::plan::{EdgePlan, PlanFile, PlanReader, pack};
use super::super::routes::{Action, Filters, Limit, LimitMemory, PasswordRule, Route, Routes, UserFile};
use super::*;
use oribi_filter::{FieldChanges, ResponsePlan};
use oribi_limit::{LimitBy, LimitOf, Rule as Rate};
use oribi_listen::{AddressPlan, SentListeners};
use oribi_route::Rule;

/// Plans of one word each: the name of the route's field, an app, and whether there is a limit.
#[derive(Debug)]
struct Words;

static WORDS: Words = Words;

impl PlanReader for Words {
    fn read(&self, plan: &[u8]) -> Result<EdgePlan, String> {
        let routes = match plan {
            b"one" => routes("one", 0, false),
            b"two" => routes("two", 1, false),
            b"few" => routes("few", 0, true),
            b"guarded" => return Ok(EdgePlan { routes: Some(guarded().0), apps: vec![Settings::default()] }),
            _ => return Err("unknown word".to_owned()),
        };
        let apps = if plan == b"two" { 2 } else { 1 };
        Ok(EdgePlan { routes: Some(routes), apps: vec![Settings::default(); apps] })
    }
}

fn routes(name: &str, app: usize, is_limited: bool) -> Routes {
    let mut fields = FieldChanges::default();
    fields.set("X-Plan", name).expect("valid");
    let filters = Filters { response: ResponsePlan { fields: fields.into(), ..ResponsePlan::default() }, ..Filters::default() };
    let rule = Rule { path: vec!["/*".to_owned()], ..Rule::default() };
    let routes = Routes::compile(vec![Route { rule, action: Action::App { app, mount: String::new() }, filters }]);
    let of = LimitOf::Rate(Rate { requests: 1, per: Duration::from_secs(60), burst: 1 });
    let limit = Limit { label: "oribi.toml:1".to_owned(), of, by: LimitBy::All, dry_run: false };
    let limits = if is_limited { vec![limit] } else { Vec::new() };
    routes.expect("the rule is valid").limited_by(limits, vec![vec![0; usize::from(is_limited)]])
}

/// A user with the password `secret`, by bcrypt at the lowest price.
const USER: &str = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

/// The routes of the plan `guarded`, whose text has the user `alice`, and the file of users, whose content is `bob`.
fn guarded() -> (Routes, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a directory is to be had");
    let path = folder.path().join("users");
    std::fs::write(&path, format!("bob:{USER}")).expect("it is ours");
    let file = Arc::new(UserFile::new(&path, format!("alice:{USER}").as_bytes(), false).expect("valid"));
    let passwords = Some(PasswordRule { file, realm: "staff".to_owned(), keep: false, field: None });
    let action = Action::Respond { status: 410, content: b"gone\n".to_vec(), content_type: None };
    let rule = Rule { path: vec!["/*".to_owned()], ..Rule::default() };
    let routes = Routes::compile(vec![Route { rule, action, filters: Filters { passwords, ..Filters::default() } }]);
    (routes.expect("the rule is valid"), folder)
}

/// An edge that serves by the plan `one`, and the memory of its limits.
fn site() -> (Site, LimitMemory) {
    let memory = LimitMemory::new(1);
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes("one", 0, false))));
    site.edge.applying = Applying::by(Some(&WORDS), (0, Shard::ONLY), &memory);
    (site, memory)
}

impl Site {
    /// Sends a plan to the edge. Returns its answer.
    #[track_caller]
    fn prepare(&mut self, number: u32, plan: &[u8], limits: Option<std::os::fd::BorrowedFd<'_>>) -> Reason {
        self.prepare_with(number, &[plan, b""], limits)
    }

    /// Sends a plan of these parts: the plan itself and its users. Returns the edge's answer.
    #[track_caller]
    fn prepare_with(&mut self, number: u32, parts: &[&[u8]], limits: Option<std::os::fd::BorrowedFd<'_>>) -> Reason {
        let file = PlanFile::new(number, &pack(parts)).expect("memory");
        self.edge_link.give_plan(file.as_fd(), limits).expect("there is room");
        self.answer_of(number)
    }

    #[track_caller]
    fn commit(&mut self, number: u32) {
        self.edge_link.commit(number).expect("there is room");
        assert_eq!(self.answer_of(number), Reason::Swapped);
    }

    #[track_caller]
    fn answer_of(&mut self, number: u32) -> Reason {
        self.edge.receive_descriptors();
        let answer = self.edge_link.next().expect("the edge answers");
        assert_eq!(answer.process, number);
        answer.reason
    }
}

fn plan_of(received: &str) -> Option<&str> {
    received.split("\r\nX-Plan: ").nth(1)?.split("\r\n").next()
}

#[test]
fn routes_change_between_two_requests_of_a_connection() {
    let (mut site, _) = site();
    let mut worker = site.worker();
    let client = site.asking(&get("/a"));
    let taken = worker.take();
    assert_eq!(site.prepare(1, b"few", None), Reason::Refused, "the memory of its limit is missing");
    assert_eq!(site.prepare(2, b"nonsense", None), Reason::Refused);
    let room = limits_room();
    assert_eq!(site.prepare(3, b"few", Some(room.as_fd())), Reason::Prepared);
    let other = site.asking(&get("/b"));
    worker.echo();
    assert_eq!(plan_of(&site.received(&other)), Some("one"), "it is prepared, and not in use");
    site.commit(3);
    worker.answer(taken, "late");
    let received = site.received(&client);
    assert_response(&received, "200", "late");
    assert_eq!(plan_of(&received), Some("one"), "the request came before the change");
    client.send(&get("/c"));
    site.run();
    worker.echo();
    assert_eq!(plan_of(&site.received(&client)), Some("few"), "on the same connection");
    assert!(site.exchange(&client, &get("/d")).starts_with("HTTP/1.1 429 "), "the limit counts");
}

#[test]
fn a_plan_has_the_users_of_the_time_when_it_is_sent() {
    let (mut site, _) = site();
    let users = guarded().0.read_users().expect("the file is valid");
    assert_eq!(site.prepare(1, b"guarded", None), Reason::Refused, "there are no users");
    assert_eq!(site.prepare_with(2, &[b"guarded", &users, b""], None), Reason::Refused);
    assert_eq!(site.prepare_with(3, &[b"guarded", &users], None), Reason::Prepared);
    site.commit(3);
    let client = site.asking(b"");
    // `alice:secret` and `bob:secret`.
    for (credentials, status) in [("YWxpY2U6c2VjcmV0", "401"), ("Ym9iOnNlY3JldA==", "410")] {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\r\n").as_bytes());
        let received = site.awaited(&client);
        assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "{received}");
    }
}

#[test]
fn a_plan_without_filters_leaves_those_of_earlier_requests() {
    let (mut site, _) = site();
    let mut worker = site.worker();
    let client = site.asking(&get("/a"));
    let taken = worker.take();
    site.edge.route_by(None, 0);
    worker.answer(taken, "late");
    assert_eq!(plan_of(&site.received(&client)), Some("one"));
}

#[test]
fn an_app_is_added_to_an_edge_that_serves() {
    let (mut site, _) = site();
    let mut first = site.worker();
    assert_eq!(site.prepare(1, b"two", None), Reason::Refused, "the second app has no memory");
    let memory = Memory::new(setup::shape(&Settings::default(), 99)).expect("memory is to be had");
    let (mut sent, total) = (0, memory.edge_descriptors().count());
    while sent < total {
        sent = site.edge_link.give_pool(1, &memory, sent).expect("there is room");
    }
    assert_eq!(site.prepare(2, b"two", None), Reason::Prepared);
    let client = site.asking(&get("/a"));
    first.echo();
    assert_response(&site.received(&client), "200", "GET /a ");
    site.commit(2);
    site.memory.push(memory);
    let mut second = site.worker_of(1);
    client.send(&get("/b"));
    site.run();
    assert!(first.worker.take().is_none(), "no route leads there any more");
    second.echo();
    assert_response(&site.received(&client), "200", "GET /b ");
    // The place stays when no route leads there, and is used again.
    assert_eq!(site.prepare(3, b"one", None), Reason::Prepared);
    site.edge_link.cancel().expect("there is room");
    site.edge.receive_descriptors();
    assert_eq!(site.prepare(4, b"one", None), Reason::Prepared);
    site.commit(4);
    client.send(&get("/c"));
    site.run();
    first.echo();
    assert_response(&site.received(&client), "200", "GET /c ");
}

/// Returns memory for the limit of `few`, as the parent process makes it.
fn limits_room() -> std::os::fd::OwnedFd {
    let mut made = None;
    let mut room = |count| {
        let (file, words) = oribi_io::process::shared_words_in_file("oribi-limits", count)?;
        made = Some(file);
        Ok(words)
    };
    routes("few", 0, true).bind(&LimitMemory::new(1), &mut room).expect("memory is to be had");
    made.expect("the limit is new")
}

/// Settings with these addresses.
fn settings_at(addresses: &[String]) -> Settings {
    let listen = addresses.iter().map(|address| ListenAddress::parse(address).expect("an address")).collect();
    Settings { listen, ..Settings::default() }
}

impl Site {
    /// Makes the edge serve by another list of addresses. Returns the listeners of the parent process, which are numbered from 1.
    #[track_caller]
    fn change_addresses(&mut self, number: u32, before: &Settings, after: &Settings, present: &mut Vec<Listener>) {
        let plan = AddressPlan::compare(before, after, present).expect("they can change");
        let change = plan.open(after, present, number * 10).expect("they are free");
        let sent = SentListeners::of(&change).expect("there is memory");
        self.edge_link.give_listeners(&sent.descriptors(Shard::ONLY)).expect("there is room");
        assert_eq!(self.prepare(number, b"one", None), Reason::Prepared);
        self.commit(number);
        for ended in change.commit(present, |_| {}) {
            self.edge_link.end_listener(ended.id).expect("there is room");
        }
    }
}

#[test]
fn addresses_come_and_go_while_the_edge_serves() {
    let (mut site, _) = site();
    let mut worker = site.worker();
    let folder = tempfile::tempdir().expect("a directory is to be had");
    let unix = |name: &str| format!("unix:{}", folder.path().join(name).display());
    let (none, one, other) = (settings_at(&[]), settings_at(&[unix("one")]), settings_at(&[unix("other")]));
    let mut present = Vec::new();
    let names = |site: &Site| site.edge.present_listeners().iter().map(|known| known.display.clone()).collect::<Vec<_>>();
    let first = names(&site);
    let client = site.asking(&get("/a"));
    let taken = worker.take();
    site.change_addresses(1, &none, &one, &mut present);
    assert_eq!(names(&site), [first.clone(), vec![unix("one")]].concat());
    site.change_addresses(2, &one, &other, &mut present);
    site.edge.receive_descriptors();
    assert_eq!(names(&site), [first, vec![unix("other")]].concat());
    site.change_addresses(3, &other, &one, &mut present);
    site.edge.receive_descriptors();
    assert_eq!(site.edge.listeners.len(), 3, "a place that nobody uses is given to the next one");
    worker.answer(taken, "late");
    assert_response(&site.received(&client), "200", "late");
    let first = site.edge.listeners[0].id;
    site.edge_link.end_listener(first).expect("there is room");
    site.edge.receive_descriptors();
    client.send(&get("/b"));
    site.run();
    worker.echo();
    let received = site.received(&client);
    assert!(received.contains("\r\nConnection: close\r\n"), "the address of the client has ended: {received}");
    assert!(client.saw_end());
}

#[test]
fn listeners_that_cannot_be_understood_are_refused() {
    let (mut site, _) = site();
    let nothing = std::fs::File::open("/dev/null").expect("it is there");
    site.edge_link.give_listeners(&[nothing.as_fd()]).expect("there is room");
    assert_eq!(site.prepare(1, b"one", None), Reason::Refused);
    assert_eq!(site.prepare(2, b"one", None), Reason::Prepared, "they belonged to the plan before");
}
