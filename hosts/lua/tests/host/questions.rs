//! Requests for a script's backtrace (questions). They arrive in a signal handler on the lane's thread, as from the server, and
//! as fast as possible. The content of the answers is tested with the whole server.
#![allow(unsafe_code)]

use crate::harness::{Call, Recorder, Site, logged};
use oribi_host::{ExchangeId, Interruption, Order, Runtime, Tracing};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// The question for the signal's handler, and an additional order.
struct Questions {
    tracing: Arc<dyn Tracing>,
    interruption: Arc<dyn Interruption>,
    order: Option<Order>,
    asked: AtomicU32,
}

thread_local! {
    static QUESTIONS: Cell<*const Questions> = const { Cell::new(std::ptr::null()) };
}

extern "C" fn ask(_signal: libc::c_int) {
    // SAFETY: set by `while_asked`, which keeps its target.
    let Some(questions) = (unsafe { QUESTIONS.get().as_ref() }) else { return };
    let number = questions.asked.fetch_add(1, Ordering::Relaxed);
    questions.tracing.trace(number);
    if let Some(order) = questions.order {
        questions.interruption.interrupt(ExchangeId(1), order, Duration::from_millis(1500));
        questions.tracing.trace(number);
    }
}

/// Runs `work`. Meanwhile asks the calling thread for its backtrace again and again, at most `most` times, each time together
/// with `order`, if there is one. Returns the result of `work`, and the number of times that the thread was asked.
fn while_asked<T>(site: &Site, order: Option<Order>, most: usize, work: impl FnOnce() -> T) -> (T, u32) {
    let tracing = site.runtime.tracing().expect("scripts tell where they are");
    let questions = Questions { tracing, interruption: site.interruption(), order, asked: AtomicU32::new(0) };
    QUESTIONS.set(&raw const questions);
    // SAFETY: the handler does only what a handler may do.
    unsafe { libc::signal(libc::SIGURG, ask as extern "C" fn(libc::c_int) as usize) };
    // SAFETY: asks for a number.
    let thread = unsafe { libc::pthread_self() };
    let done = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..most {
                // The script continues a little between two questions.
                thread::sleep(Duration::from_micros(50));
                if done.load(Ordering::Acquire) {
                    return;
                }
                // SAFETY: the thread waits for this scope.
                unsafe { libc::pthread_kill(thread, libc::SIGURG) };
            }
        });
        let result = work();
        done.store(true, Ordering::Release);
        result
    });
    QUESTIONS.set(std::ptr::null());
    (result, questions.asked.load(Ordering::Relaxed))
}

/// Without the time limit of the host itself.
fn site(script: &str) -> Site {
    Site::with(script, |settings| settings.time_limit = None)
}

/// A script's actions and counts, those of its own hooks included, are the same with and without questions.
#[test]
fn a_script_does_not_notice_that_it_is_asked() {
    let scripts = [
        // A loop, which LuaJIT compiles.
        "local sum = 0 for i = 1, 5e6 do sum = sum + i % 7 end return sum",
        // Coroutines, which end, fail and continue.
        "local sum = 0
         for i = 1, 2e4 do
             local step = coroutine.wrap(function(a) for k = 1, 3 do a = a + coroutine.yield(a) end return a end)
             sum = sum + step(i) + step(1) + step(2)
             if i % 3 == 0 then sum = sum + step(1) end
             coroutine.resume(coroutine.create(function() error('x') end))
             if not pcall(error, 'y') then sum = sum + 1 end
         end return sum",
        // Functions in C that call Lua.
        "local list, calls = {}, 0
         for i = 1, 1e5 do list[i] = i * 7919 % 100003 end
         table.sort(list, function(a, b) calls = calls + 1 return a < b end)
         return calls .. (('x'):rep(1e5):gsub('x', function() calls = calls + 1 return 'y' end)):sub(1, 3) .. calls",
        // A hook for lines, and that it is still the one.
        "local lines = 0 local function hook() lines = lines + 1 end
         debug.sethook(hook, 'l')
         local sum = 0
         for i = 1, 2e5 do
             sum = sum + i
             if i % 2 == 0 then
                 sum = sum - 1
             end
         end
         local same = debug.gethook() == hook
         debug.sethook()
         return sum .. tostring(same) .. lines",
        // A hook for calls and returns. LuaJIT may lose an event of a return when a hook for every instruction comes.
        "local events = {} debug.sethook(function(event) events[event] = (events[event] or 0) + 1 end, 'cr')
         local function f(x) return x + 1 end
         local sum = 0 for i = 1, 1e5 do sum = f(sum) end
         debug.sethook() return sum .. ' ' .. events.call .. ' ' .. (jit and '' or events['return'])",
        // A hook for every instruction.
        "local steps = 0 debug.sethook(function() steps = steps + 1 end, '', 1)
         local sum = 0 for i = 1, 1e5 do sum = sum + i end
         debug.sethook() return sum .. ' ' .. (steps > 1e5 and steps < 2e6 and 'all' or steps)",
        // Hooks that are set and removed.
        "local lines, all = 0, 0
         for round = 1, 3e4 do
             debug.sethook(function() lines = lines + 1 end, 'l')
             local a = 1
             local b = 2
             debug.sethook()
             all = all + a + b
         end
         return all .. ' ' .. lines .. tostring(debug.gethook())",
        // Hooks of a coroutine, which does not share them with others in some Luas.
        "local lines = 0
         local co = coroutine.create(function()
             debug.sethook(function() lines = lines + 1 end, 'l')
             for i = 1, 1e5 do
                 local a = i
                 if i % 1000 == 0 then coroutine.yield(a) end
             end
             debug.sethook()
         end)
         local sum = 0 repeat local ok, value = coroutine.resume(co) sum = sum + (value or 0) until coroutine.status(co) == 'dead'
         return sum .. ' ' .. lines",
    ];
    for body in scripts {
        let site = site(&format!("return function() local function work() {body} end return tostring(work()) end"));
        // In LuaJIT the first call may see an event less than the others, without any question.
        site.text();
        let calm = site.text();
        let (mut asked, mut round) = (0, 0);
        while asked < 100 {
            let (text, more) = while_asked(&site, None, usize::MAX, || site.text());
            assert_eq!(text, calm, "{body}");
            asked += more;
            round += 1;
            assert!(round < 1000, "it was asked {asked} times: {body}");
        }
    }
}

/// An order is obeyed, with any questions beside it.
#[test]
fn an_order_that_comes_with_a_question_is_not_lost() {
    let endless = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do coroutine.resume(coroutine.create(function() pcall(function() while true do end end) end)) end",
        "debug.sethook(function() end, 'l') while true do end",
        "while true do debug.sethook(function() end, 'crl') pcall(function() local a = 1 end) debug.sethook() end",
    ];
    for body in endless {
        let site = site(&format!(
            "return function(request) if request.query == 'ok' then return tostring(debug.gethook()) end {body} end"
        ));
        for _ in 0..20 {
            // A single order, with questions before and after it, and then questions alone.
            let outlet = Recorder::default();
            let answer = || site.answer_to(&Call::new("GET", "/"), &outlet);
            while_asked(&site, Some(Order::Interrupt), usize::MAX, answer);
            assert_eq!(outlet.response().status, 504, "{body}");
        }
        assert!(logged("has run for longer than it may"), "{body}");
        assert_eq!(site.text_of(&Call::new("GET", "/?ok")), "nil", "no hook is left: {body}");
    }
}

/// A warning also keeps a hook of the script.
#[test]
fn a_warning_leaves_the_hooks_of_the_script() {
    let site = site(
        "return function()
             local lines = 0 debug.sethook(function() lines = lines + 1 end, 'l')
             local sum = 0
             for i = 1, 2e5 do
                 sum = sum + i
             end
             debug.sethook()
             return sum .. ' ' .. lines
         end",
    );
    let calm = site.text();
    let (text, _) = while_asked(&site, Some(Order::Warn), 5, || site.text());
    assert_eq!(text, calm);
}
