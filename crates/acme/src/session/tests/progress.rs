//! Interrupted orders and pauses, also when another process continues with them.

use super::*;
use crate::client::{Done, Kept};
use crate::draft::Draft;
use crate::files::account_key;
use crate::pace::Pause;
use crate::request::{is_for_key, issued};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use tempfile::TempDir;

const ORDERED: Done = Done { ordered: 1, failed: 0 };
const FAILED: Done = Done { ordered: 0, failed: 1 };

/// Pauses after refusals are longer, those after a few failures to reach the authority are shorter.
const SLOW: Duration = Duration::from_secs(200);

/// A year in which this test does not run.
const LATER: u64 = 2200;

fn prepared() -> (TempDir, Settings) {
    let place = tempfile::tempdir().expect("a folder");
    let settings = settings(place.path());
    crate::prepare(&settings).expect("it can be made");
    (place, settings)
}

fn names(settings: &Settings) -> &Names {
    &settings.certificates[0]
}

/// The stored draft.
fn stored(settings: &Settings) -> Value {
    serde_json::from_slice(&fs::read(settings.order_file(names(settings))).expect("it is stored")).expect("JSON")
}

/// An authority that grants everything, with a certificate for the stored key.
struct Granting<'a> {
    settings: &'a Settings,
    finalized: Cell<bool>,
    /// The year in which its certificates end.
    end: u64,
}

impl<'a> Granting<'a> {
    fn new(settings: &'a Settings) -> Self {
        Self { settings, finalized: Cell::new(false), end: LATER }
    }

    fn answer(&self, path: &str, before: usize) -> Answer {
        match path {
            "/order" => self.finalized.set(false),
            "/finalize" => self.finalized.set(true),
            _ => {}
        }
        let key = || stored(self.settings)["key"].as_str().expect("a text").to_owned();
        match path {
            "/order/1" => good(path, usize::from(self.finalized.get())),
            "/certificate" => {
                let body = issued(names(self.settings), &key(), self.end).into_bytes();
                Answer { status: 200, body, ..Answer::default() }
            }
            _ => good(path, before),
        }
    }
}

fn attempt<W: World>(kept: &mut Kept<'_>, settings: &Settings, world: &W) -> (Done, Duration) {
    let mut done = Done::default();
    let pause = kept.renew(settings, world, &mut done);
    (done, pause)
}

/// Continues as another process does.
fn restarted(settings: &Settings) -> Kept<'_> {
    let mut kept = Kept::new(names(settings));
    kept.resume(settings);
    kept
}

#[test]
fn a_certificate_that_was_not_downloaded_is_downloaded_with_the_same_key() {
    for is_restarted in [false, true] {
        let (_place, settings) = prepared();
        let authority = Granting::new(&settings);
        let script = Script::new(|path: &str, before: usize| match path {
            "/certificate" if before == 0 => Answer { status: 500, ..Answer::default() },
            _ => authority.answer(path, before),
        });
        let mut kept = Kept::new(names(&settings));
        let (done, pause) = attempt(&mut kept, &settings, &script);
        assert!(done == FAILED && pause > SLOW, "the authority has issued it: {pause:?}");
        let (draft, file) = (settings.order_file(names(&settings)), settings.file(names(&settings)));
        assert_eq!(fs::metadata(&draft).expect("it is there").permissions().mode() & 0o777, 0o600);
        let key = stored(&settings)["key"].as_str().expect("a text").to_owned();
        let copy = fs::read(&draft).expect("it is there");
        if is_restarted {
            kept = restarted(&settings);
        }
        assert_eq!(attempt(&mut kept, &settings, &script).0, ORDERED);
        assert_eq!((script.payloads("/order").len(), script.payloads("/finalize").len()), (1, 1));
        assert!(is_for_key(&bytes(&script.payloads("/finalize")[0]["csr"]), &key));
        assert!(fs::read_to_string(&file).expect("it is there").starts_with(&key));
        assert!(!draft.exists() && crate::pauses(&settings).is_empty(), "nothing waits");
        // A process may be killed when only the certificate is written.
        fs::write(&draft, copy).expect("it is ours");
        restarted(&settings);
        assert!(!draft.exists(), "the order is finished");
    }
}

#[test]
fn a_certificate_that_cannot_be_written_is_not_ordered_again() {
    let (_place, settings) = prepared();
    let authority = Granting::new(&settings);
    let script = Script::new(|path: &str, before: usize| authority.answer(path, before));
    let file = settings.file(names(&settings));
    // No file can replace a folder.
    fs::remove_file(&file).and_then(|()| fs::create_dir(&file)).expect("it is ours");
    let mut kept = Kept::new(names(&settings));
    assert_eq!(attempt(&mut kept, &settings, &script).0, FAILED);
    let sent = script.sent.borrow().len();
    for _ in 0..10 {
        let (done, pause) = attempt(&mut kept, &settings, &script);
        assert!(done == FAILED && pause > SLOW, "{pause:?}");
    }
    // Another process has the stored key alone.
    assert_eq!(attempt(&mut restarted(&settings), &settings, &script).0, FAILED);
    assert_eq!((script.payloads("/order").len(), script.payloads("/finalize").len()), (1, 1));
    let more = script.sent.borrow().len();
    assert!(sent < more, "it has asked for the certificate");
    fs::remove_dir(&file).expect("it is ours");
    assert_eq!(attempt(&mut kept, &settings, &script).0, ORDERED);
    assert_eq!(script.sent.borrow().len(), more, "the certificate was in memory");
}

#[test]
fn nothing_is_finalized_before_its_key_is_stored() {
    let (_place, settings) = prepared();
    let authority = Granting::new(&settings);
    let script = Script::new(|path: &str, before: usize| authority.answer(path, before));
    let draft = settings.order_file(names(&settings));
    fs::create_dir(&draft).expect("it is ours");
    let mut kept = Kept::new(names(&settings));
    for _ in 0..3 {
        let (done, pause) = attempt(&mut kept, &settings, &script);
        assert!(done == FAILED && pause > SLOW, "{pause:?}");
    }
    assert!(script.payloads("/finalize").is_empty());
    fs::remove_dir(&draft).expect("it is ours");
    assert_eq!(attempt(&mut kept, &settings, &script).0, ORDERED);
    assert_eq!(script.payloads("/order").len(), 1, "the order was continued");
}

#[test]
fn another_order_begins_only_if_nothing_will_be_issued_for_the_first() {
    let busy = Answer { status: 503, retry_after: Some(Duration::from_secs(9000)), ..Answer::default() };
    for (answer, orders) in [
        (problem(404, "malformed"), 2),
        (Answer { status: 410, ..Answer::default() }, 2),
        (problem(403, "unauthorized"), 2),
        (json_answer(200, &json!({"status": "invalid"})), 2),
        (json_answer(200, &json!({"status": "invalid", "error": {"detail": "too late"}})), 2),
        (problem(429, "rateLimited"), 1),
        (busy, 1),
        (json_answer(200, &json!({"status": "new"})), 1),
        (json_answer(200, &json!({})), 1),
        (Answer { status: 200, body: b"<html>".to_vec(), ..Answer::default() }, 1),
        (Answer { status: 500, ..Answer::default() }, 1),
    ] {
        let (_place, settings) = prepared();
        let authority = Granting::new(&settings);
        let is_asked = Cell::new(false);
        let script = Script::new(|path: &str, before: usize| match path {
            "/certificate" if before == 0 => Answer { status: 500, ..Answer::default() },
            "/order/1" if is_asked.take() => answer.clone(),
            _ => authority.answer(path, before),
        });
        assert_eq!(attempt(&mut Kept::new(names(&settings)), &settings, &script).0, FAILED);
        let mut kept = restarted(&settings);
        is_asked.set(true);
        let (done, pause) = attempt(&mut kept, &settings, &script);
        assert_eq!(script.payloads("/order").len(), orders, "{}", String::from_utf8_lossy(&answer.body));
        if orders == 1 {
            assert!(done == FAILED && pause > SLOW.max(answer.retry_after.unwrap_or_default() / 2), "{pause:?}");
            assert_eq!(attempt(&mut kept, &settings, &script).0, ORDERED);
            assert_eq!(script.payloads("/order").len(), 1);
        } else {
            assert_eq!(done, ORDERED);
        }
    }
}

#[test]
fn a_certificate_that_has_expired_is_ordered_again_but_slowly() {
    let (_place, settings) = prepared();
    let authority = Granting { end: 1990, ..Granting::new(&settings) };
    let script = Script::new(|path: &str, before: usize| authority.answer(path, before));
    let mut kept = Kept::new(names(&settings));
    for orders in 1..4 {
        let (done, pause) = attempt(&mut kept, &settings, &script);
        assert!(done == FAILED && pause > SLOW, "{pause:?}");
        assert_eq!(script.payloads("/order").len(), orders);
        assert!(!settings.order_file(names(&settings)).exists(), "its key is of no use");
    }
}

#[test]
fn another_process_obeys_the_pause_unless_the_settings_differ() {
    let (_place, settings) = prepared();
    let script = Script::new(|path: &str, before: usize| match path {
        "/order" => problem(429, "rateLimited"),
        _ => good(path, before),
    });
    assert!(restarted(&settings).wait(&settings).is_zero() && crate::pauses(&settings).is_empty());
    let mut kept = Kept::new(names(&settings));
    attempt(&mut kept, &settings, &script);
    attempt(&mut kept, &settings, &script);
    let is_paused = |settings: &Settings| restarted(settings).wait(settings) > SLOW;
    assert!(is_paused(&settings));
    let account = account_key(&settings).expect("it is there").thumbprint();
    let pause = Pause::read(&settings, names(&settings), &account).expect("it is stored");
    assert_eq!(pause.failures, 2, "the next pause is longer");
    let file = settings.pause_file(names(&settings));
    assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    let described = crate::pauses(&settings);
    assert!(described.len() == 1 && described[0].contains(&format!("remove {}", file.display())), "{described:?}");
    let certificates = |names: &str| vec![Names::parse(names).expect("they are good")];
    for other in [
        Settings { certificates: certificates("a.org,b.org"), ..settings.clone() },
        // This authority has the same folder.
        Settings { directory: "https://ca?dir".to_owned(), ..settings.clone() },
        Settings { challenge: Challenge::TlsAlpn, ..settings.clone() },
        Settings { email: None, ..settings.clone() },
        Settings { authorities: Some("ca.pem".into()), ..settings.clone() },
    ] {
        assert_eq!(other.pause_file(names(&other)), file);
        assert!(!is_paused(&other), "{other:?}");
    }
    assert!(is_paused(&settings), "the file is still there");
    let key = settings.folder().join("account.pem");
    let copy = fs::read(&key).expect("it is there");
    fs::remove_file(&key).expect("it is ours");
    assert!(!is_paused(&settings));
    crate::prepare(&settings).expect("it can be made");
    assert!(!is_paused(&settings), "another account");
    fs::write(&key, copy).expect("it is ours");
    assert!(is_paused(&settings));
    fs::remove_file(&file).expect("it is ours");
    assert!(!is_paused(&settings) && crate::pauses(&settings).is_empty());
}

#[test]
fn another_process_does_not_order_at_once_what_was_just_issued() {
    let (_place, settings) = prepared();
    let authority = Granting::new(&settings);
    let script = Script::new(|path: &str, before: usize| authority.answer(path, before));
    assert_eq!(attempt(&mut Kept::new(names(&settings)), &settings, &script).0, ORDERED);
    // As if the clock made it due.
    let file = settings.file(names(&settings));
    fs::remove_file(&file).expect("it is ours");
    let next = restarted(&settings);
    assert!(next.wait(&settings) > SLOW, "{:?}", next.wait(&settings));
    let described = crate::pauses(&settings);
    assert!(described.len() == 1 && described[0].contains("issued not long ago"), "{described:?}");
    fs::remove_file(settings.pause_file(names(&settings))).expect("it is there");
    assert!(restarted(&settings).wait(&settings).is_zero());
}

#[test]
fn a_process_after_one_that_was_killed_during_its_proofs_waits_longer_each_time() {
    let (_place, settings) = prepared();
    let killed = |failures: u32, least: u64, most: u64| {
        let authority = Granting::new(&settings);
        _ = fs::remove_file(settings.file(names(&settings)));
        let seen = Cell::new(Duration::ZERO);
        let script = Script::new(|path: &str, before: usize| {
            if path == "/challenge" {
                // The next process, if this one is killed now.
                seen.set(restarted(&settings).wait(&settings));
                let file = settings.pause_file(names(&settings));
                let copy = fs::read(&file).expect("it is stored");
                fs::write(file.with_extension("copy"), copy).expect("it is ours");
            }
            authority.answer(path, before)
        });
        assert_eq!(attempt(&mut restarted(&settings), &settings, &script).0, ORDERED);
        let file = settings.pause_file(names(&settings));
        fs::rename(file.with_extension("copy"), &file).expect("it is ours");
        let wait = seen.get().as_secs();
        assert!((least..=most).contains(&wait), "{wait} s after attempt {failures}");
    };
    killed(1, 3, 8);
    killed(2, 7, 14);
    killed(3, 14, 27);
}

#[test]
fn the_order_of_other_names_is_not_continued() {
    let (_place, settings) = prepared();
    let authority = Granting::new(&settings);
    let script = Script::new(|path: &str, before: usize| match path {
        "/certificate" if before == 0 => Answer { status: 500, ..Answer::default() },
        _ => authority.answer(path, before),
    });
    attempt(&mut Kept::new(names(&settings)), &settings, &script);
    let reads = |settings: &Settings| {
        let account = account_key(settings).expect("it is there").thumbprint();
        Draft::read(settings, names(settings), &account).is_some()
    };
    let certificates = |names: &str| vec![Names::parse(names).expect("they are good")];
    assert!(reads(&settings) && reads(&Settings { challenge: Challenge::TlsAlpn, ..settings.clone() }));
    assert!(!reads(&Settings { certificates: certificates("a.org,b.org"), ..settings.clone() }));
    assert!(!reads(&Settings { directory: "https://ca?dir".to_owned(), ..settings.clone() }));
    fs::remove_file(settings.folder().join("account.pem")).expect("it is ours");
    crate::prepare(&settings).expect("it can be made");
    assert!(!reads(&settings), "another account");
}

#[test]
fn damaged_files_are_ignored() {
    let (_place, settings) = prepared();
    let authority = Granting::new(&settings);
    let script = Script::new(|path: &str, before: usize| match path {
        "/certificate" => Answer { status: 500, ..Answer::default() },
        _ => authority.answer(path, before),
    });
    attempt(&mut Kept::new(names(&settings)), &settings, &script);
    let account = account_key(&settings).expect("it is there").thumbprint();
    let (draft, pause) = (settings.order_file(names(&settings)), settings.pause_file(names(&settings)));
    let found = || {
        let draft = Draft::read(&settings, names(&settings), &account).is_some();
        (draft, Pause::read(&settings, names(&settings), &account).is_some())
    };
    assert_eq!(found(), (true, true));
    let [good_draft, good_pause] = [&draft, &pause].map(|file| fs::read(file).expect("it is there"));
    let deep = "[".repeat(1 << 17);
    for damaged in ["", "{", "7", "[]", "null", "{}", r#"{"for":7}"#, r#"{"for":{}}"#, "\u{0}", &deep, &"{}".repeat(1 << 18)] {
        for file in [&draft, &pause] {
            fs::write(file, damaged).expect("it is ours");
        }
        assert_eq!(found(), (false, false), "{damaged:.100}");
    }
    for size in 0..good_draft.len() - 1 {
        fs::write(&draft, &good_draft[..size]).expect("it is ours");
        assert!(!found().0, "{size}");
    }
    let damages = |file: &Path, good: &[u8], member: &str, value: Value| {
        let mut content: Value = serde_json::from_slice(good).expect("JSON");
        content[member] = value;
        fs::write(file, content.to_string()).expect("it is ours");
        found() == (false, false)
    };
    for (member, value) in [
        ("order", json!(7)),
        ("order", json!("http://ca/order/1")),
        ("order", json!("https://".repeat(1000))),
        ("key", json!("nonsense")),
        ("key", json!(pem::encode(pem::PRIVATE_KEY, b"nonsense"))),
        ("key", json!(null)),
        ("begun", json!(-1)),
        ("begun", json!(null)),
    ] {
        fs::write(&pause, "").expect("it is ours");
        assert!(damages(&draft, &good_draft, member, value.clone()), "{member} {value}");
    }
    let year = Pause::new(1, Duration::from_secs(365 * 24 * 3600));
    year.write(&settings, names(&settings), &account).expect("it is ours");
    assert!(!found().1, "no pause is that long");
    for (member, value) in [
        ("failures", json!(-1)),
        ("failures", json!(u64::MAX)),
        ("failures", json!("1")),
        ("until", json!(null)),
        ("until", json!(u64::MAX)),
        ("until", json!(1.5)),
    ] {
        fs::write(&draft, "").expect("it is ours");
        assert!(damages(&pause, &good_pause, member, value.clone()), "{member} {value}");
    }
    for (file, good) in [(&draft, &good_draft), (&pause, &good_pause)] {
        fs::write(file, good).expect("it is ours");
    }
    assert_eq!(found(), (true, true));
}
