//! Host names, looked up in threads of their own, because the system's resolver blocks.

use mlua::{Lua, LuaString, Result, Table, UserData, UserDataMethods, Value};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The most threads of a process that look up names at the same time; further names wait.
const THREADS: usize = 16;

/// The names that wait for a thread, and the number of threads.
static WAITING: Mutex<(VecDeque<Arc<Lookup>>, usize)> = Mutex::new((VecDeque::new(), 0));

/// A name that is being looked up.
struct Lookup {
    name: String,
    /// Readable when the result is there; `None` for a result that was there at once.
    done: Option<OwnedFd>,
    result: Mutex<Option<std::result::Result<Vec<IpAddr>, String>>>,
}

/// A name, as the Lua code of `waiting.lua` uses it.
pub(super) struct HostName(Arc<Lookup>);

impl HostName {
    /// Begins to look up a name. Returns nil and a message if that is impossible.
    pub(super) fn look_up(lua: &Lua, name: &LuaString) -> Result<(Option<Self>, Value)> {
        let text = name.to_string_lossy();
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(&text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            let result = Mutex::new(Some(Ok(vec![address])));
            return Ok((Some(Self(Arc::new(Lookup { name: String::new(), done: None, result }))), Value::Nil));
        }
        match begin(text) {
            Ok(lookup) => Ok((Some(Self(lookup)), Value::Nil)),
            Err(error) => Ok((None, Value::String(lua.create_string(format!("cannot look up a name: {error}"))?))),
        }
    }
}

impl UserData for HostName {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("descriptor", |_, this, ()| Ok(this.0.done.as_ref().map_or(-1, AsRawFd::as_raw_fd)));
        // Gives up the descriptor, which would wait for Lua's collector.
        methods.add_method_once("close", |_, _, ()| Ok(()));
        // A list of addresses, or nil and a message, or nil while the name is being looked up.
        methods.add_method("addresses", |lua, this, ()| {
            let result = this.0.result.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(match &*result {
                None => (None, None),
                Some(Err(failure)) => (None, Some(failure.clone())),
                Some(Ok(addresses)) => {
                    let list: Table = lua.create_sequence_from(addresses.iter().map(ToString::to_string))?;
                    (Some(list), None)
                }
            })
        });
    }
}

fn begin(name: String) -> std::io::Result<Arc<Lookup>> {
    let done = Some(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let lookup = Arc::new(Lookup { name, done, result: Mutex::new(None) });
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.0.push_back(Arc::clone(&lookup));
    if waiting.1 < THREADS {
        match thread::Builder::new().name("lua-names".to_owned()).spawn(work) {
            Ok(_) => waiting.1 += 1,
            // Another thread gets to the name.
            Err(_) if waiting.1 > 0 => {}
            Err(error) => {
                waiting.0.pop_back();
                return Err(error);
            }
        }
    }
    Ok(lookup)
}

/// Looks up names until none waits.
fn work() {
    loop {
        let lookup = {
            let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(lookup) = waiting.0.pop_front() else {
                waiting.1 -= 1;
                return;
            };
            lookup
        };
        let found = (lookup.name.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect());
        let result = match found {
            Ok::<Vec<IpAddr>, _>(addresses) if !addresses.is_empty() => Ok(addresses),
            Ok(_) => Err("host not found".to_owned()),
            Err(error) => Err(format!("host not found: {error}")),
        };
        *lookup.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        if let Some(done) = &lookup.done {
            // It never blocks, because it is written once.
            let _ = rustix::io::write(done, &1_u64.to_ne_bytes());
        }
    }
}
