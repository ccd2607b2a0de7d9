//! The memory of tables and choices, counted by the allocator.

use oribi_route::{FieldLines, MOST_EXPRESSIONS, NamedPattern, RequestView, Rule, Scheme, Scratch, Table};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting for each thread.
struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending no longer has counters, and needs none.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller gives the guarantees that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_request_allocates_nothing_once_the_scratch_has_grown() {
    let text = str::to_owned;
    let named = |name: &str, value: &str| vec![NamedPattern { name: text(name), value: Some(text(value)) }];
    let rules = [
        Rule { host: vec![text("a.b"), text("*.c.d"), text("[::1]")], path: vec![text("/x/*")], ..Rule::default() },
        Rule { path: vec![text("/a*b*c"), text("~^/u[0-9]+$")], ..Rule::default() },
        Rule { query: named("q", "*1"), field: named("f", "~^1$"), ..Rule::default() },
    ];
    let table = Table::compile(&rules).expect("the rules are valid");
    let fields: &[(&[u8], &[u8])] = &[(b"F", b"1")];
    let requests = ["/x/y", "/x/../u%31", "//x/y?q=%31&r=s", "http://x.c.d/x/%41", "*", "/none?a=b+c"];
    let hosts = ["a.b", "A.B:80", "x.C.d", "[0::1]:443", "other"];
    let mut scratch = Scratch::default();
    let mut choose_all = || {
        for target in requests {
            for host in hosts {
                let request = RequestView {
                    method: b"GET",
                    scheme: Scheme::Http,
                    host: Some(host.as_bytes()),
                    target: target.as_bytes(),
                    source: None,
                    destination: None,
                    fields: FieldLines::Pairs(fields),
                };
                table.choose(&request, &mut scratch);
            }
        }
    };
    let before = CALLS.get();
    choose_all();
    assert!(CALLS.get() > before, "the scratch and the caches of expressions grow");
    // The caches of expressions learn a little more in the second round.
    choose_all();
    let grown = CALLS.get();
    choose_all();
    assert_eq!(CALLS.get(), grown);
}

#[test]
fn hostile_expressions_use_bounded_memory() {
    let mut largest = 0;
    for (start, repeated, end) in [
        ("~", "a", ""),
        ("~", "[^a]", ""),
        ("~(?i)", "(abcdefgh|ijklmnop|qrstuvwx)", ""),
        ("~^", "(([a-f]{9})([0-9]{9}))", "$"),
        ("~^", "(?:(a)|(b)|(c)|(d))", "$"),
        ("~", "(x+x+)+y", "z"),
    ] {
        // The most repetitions that the bound for one expression allows.
        let compile = |times: usize| {
            let before = HELD.get();
            let path = vec![format!("{start}(?:{repeated}){{{times}}}{end}")];
            let table = Table::compile(&[Rule { path, ..Rule::default() }]).ok()?;
            let request = RequestView {
                method: b"GET",
                scheme: Scheme::Http,
                host: None,
                target: b"/xxxxabcdefghxxxxxxxx",
                source: None,
                destination: None,
                fields: FieldLines::Pairs(&[]),
            };
            table.choose(&request, &mut Scratch::default());
            Some(HELD.get() - before)
        };
        let held = (1..1000).rev().find_map(compile).expect("a single repetition is small");
        println!("{start}{repeated}{end}: {held} bytes");
        largest = largest.max(held);
    }
    // The memory that `regex` keeps for one expression. All of a table have at most so many times as much.
    assert!(largest > 64 << 10 && largest < 2 << 20, "{largest} bytes for each of {MOST_EXPRESSIONS} expressions");
}
