//! Orders of the server to a script that takes too long. They arrive in a signal handler on the lane's thread, as from the
//! server.
#![allow(unsafe_code)]

use crate::harness::{Call, Ended, Recorder, Site, logged};
use oribi_host::{ExchangeId, Interruption, Order};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(1500);

/// The order for the signal's handler, and its target.
struct Orders {
    interruption: Arc<dyn Interruption>,
    order: Order,
}

thread_local! {
    static ORDERS: Cell<*const Orders> = const { Cell::new(std::ptr::null()) };
}

extern "C" fn pass_on(_signal: libc::c_int) {
    // SAFETY: set by `while_ordered`, which keeps its target.
    if let Some(orders) = unsafe { ORDERS.get().as_ref() } {
        orders.interruption.interrupt(ExchangeId(1), orders.order, LIMIT);
    }
}

/// Runs `work`. Meanwhile passes the order to the calling thread every 10 ms, at most `enough` times.
fn while_ordered<T>(site: &Site, order: Order, enough: usize, work: impl FnOnce() -> T) -> T {
    // The script should be running by then; if it is not, the next signal finds it.
    let pause = || thread::sleep(Duration::from_millis(10));
    while_ordered_after(site, order, enough, pause, || (), work)
}

/// Like [`while_ordered`], with actions before and after each order instead of the pause.
fn while_ordered_after<T>(
    site: &Site,
    order: Order,
    enough: usize,
    before: impl Fn() + Sync,
    after: impl Fn() + Sync,
    work: impl FnOnce() -> T,
) -> T {
    let orders = Orders { interruption: site.interruption(), order };
    ORDERS.set(&raw const orders);
    // SAFETY: the handler does only what a handler may do.
    unsafe { libc::signal(libc::SIGUSR2, pass_on as extern "C" fn(libc::c_int) as usize) };
    // SAFETY: asks for a number.
    let thread = unsafe { libc::pthread_self() };
    let done = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..enough {
                before();
                if done.load(Ordering::Acquire) {
                    return;
                }
                // SAFETY: the thread waits for this scope.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
                after();
            }
        });
        let result = work();
        done.store(true, Ordering::Release);
        result
    });
    ORDERS.set(std::ptr::null());
    result
}

/// A file in which a script records its progress.
struct Mark {
    folder: tempfile::TempDir,
}

impl Default for Mark {
    fn default() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }
}

impl Mark {
    /// A statement in Lua.
    fn set_in_lua(&self) -> String {
        format!("io.open({:?}, 'w'):close()", self.folder.path().join("mark"))
    }

    fn wait(&self) {
        while !self.folder.path().join("mark").exists() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Without the time limit of the host itself.
fn site(script: &str) -> Site {
    Site::with(script, |settings| settings.time_limit = None)
}

#[test]
fn a_script_that_is_interrupted_is_answered_with_504_and_its_state_thrown_away() {
    let endless = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do local co = coroutine.wrap(function() coroutine.wrap(function() while true do end end)() end) pcall(co) end",
        "while true do coroutine.resume(coroutine.create(function() pcall(function() while true do end end) end)) end",
    ];
    for body in endless {
        let site = site(&format!(
            "count = 0 return function(request) count = count + 1 if request.query == 'ok' then return tostring(count) end {body} end"
        ));
        assert_eq!(site.text_of(&Call::new("GET", "/?ok")), "1");
        let response = while_ordered(&site, Order::Interrupt, usize::MAX, || site.get("/"));
        assert_eq!((response.status, response.ended), (504, Ended::Whole), "{body}");
        assert!(logged("has run for longer than it may"), "{body}");
        assert_eq!(site.text_of(&Call::new("GET", "/?ok")), "1", "{body}");
    }
}

/// A single order is enough, also for a script that continues in a coroutine without a hook.
#[test]
fn one_order_ends_a_script_in_whichever_coroutine_it_goes_on() {
    let mark = Mark::default();
    let site = site(&format!(
        "return function()
            local middle = coroutine.create(function()
                pcall(coroutine.wrap(function() {} while true do end end))
                while true do end
            end)
            coroutine.resume(middle)
            while true do end
        end",
        mark.set_in_lua(),
    ));
    let response = while_ordered_after(&site, Order::Interrupt, 1, || mark.wait(), || (), || site.get("/"));
    assert_eq!(response.status, 504);
}

#[test]
fn a_warning_logs_a_traceback_and_the_script_goes_on() {
    let mark = Mark::default();
    let warned = mark.folder.path().join("warned");
    // It runs until it has been warned, and then long enough to notice.
    let site = site(&format!(
        "local function busy()
             {}
             while not io.open({warned:?}) do end
             local start = os.clock() while os.clock() - start < 0.2 do end
         end
         count = 0 return function(request) count = count + 1 if request.query ~= 'ok' then busy() end return tostring(count) end",
        mark.set_in_lua(),
    ));
    let say_so = || drop(std::fs::write(&warned, ""));
    let answer = while_ordered_after(&site, Order::Warn, 1, || mark.wait(), say_so, || site.text());
    assert_eq!(answer, "1");
    let lines = crate::harness::take_log();
    let [line] = &*lines else { panic!("one warning: {lines:?}") };
    for part in ["a script has run for 1.5 s and is still running; stack traceback:", "app.lua:"] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(site.text_of(&Call::new("GET", "/?ok")), "2", "the same state");
    assert_eq!(crate::harness::take_log(), [""; 0]);
}

/// While an outlet writes, the server's code runs: the script is stopped when that returns.
#[test]
fn an_order_that_comes_while_the_server_writes_reaches_the_script() {
    let mark = Mark::default();
    let site = site(&format!(
        "return function()
            local calls = 0
            return 200, {{}}, function() calls = calls + 1 if calls == 2 then {} end return 'x' end
        end",
        mark.set_in_lua(),
    ));
    let outlet = Recorder::default();
    outlet.slowness.set(Duration::from_millis(60));
    let until_it_writes = || {
        mark.wait();
        thread::sleep(Duration::from_millis(10));
    };
    let answer = || site.answer_to(&Call::new("GET", "/"), &outlet);
    while_ordered_after(&site, Order::Interrupt, 1, until_it_writes, || (), answer);
    assert_eq!(outlet.response().ended, Ended::GivenUp);
}

#[test]
fn an_order_never_reaches_the_next_request() {
    let site = site(
        "count = 0 return function(request) count = count + 1
            local start = os.clock() while os.clock() - start < 0.01 do end return tostring(count) end",
    );
    let mut ended = 0;
    for round in 0..100 {
        // The order comes at about the time when the script ends.
        let response = while_ordered(&site, Order::Interrupt, 1, || site.get("/"));
        assert!(matches!(response.status, 200 | 504), "{round}: {}", response.status);
        ended += usize::from(response.status == 504);
        assert_eq!(site.get("/").status, 200, "{round}: after {}", response.status);
    }
    println!("{ended} of 100 were ended");
}

#[test]
fn a_script_moves_its_deadline() {
    let script = |time: &str| {
        format!(
            "local oribi = require 'oribi'
             return function(request)
                 if request.query == 'ok' then return 'fine' end
                 oribi.deadline({time})
                 local start = os.clock() while os.clock() - start < 0.8 do end
                 return 'late'
             end"
        )
    };
    for time in ["", "nil", "60"] {
        let site = Site::with(&script(time), |settings| settings.time_limit = Some(Duration::from_millis(400)));
        let outlet = Recorder::default();
        site.answer_to(&Call::new("GET", "/"), &outlet);
        assert_eq!(outlet.response().body, "late", "{time}");
        let asked = if time == "60" { Some(Duration::from_secs(60)) } else { None };
        assert_eq!(outlet.deadlines.borrow().as_slice(), [asked]);
    }
    let site = Site::with(&script("0.01"), |settings| settings.time_limit = Some(Duration::from_millis(100)));
    assert_eq!(site.get("/").status, 504);
    for wrong in ["'soon'", "-1", "1e300", "0/0", "{}"] {
        let site = Site::new(&script(wrong));
        assert_eq!(site.get("/").status, 500, "{wrong}");
        assert!(logged("a deadline is a number of seconds from now, or nil for none"), "{wrong}");
        assert_eq!(site.text_of(&Call::new("GET", "/?ok")), "fine");
    }
}
