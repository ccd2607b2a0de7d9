//! Threads of a language that share a lane: see the header.
#![allow(unsafe_code)]

use crate::fence::{fence, remember};
use crate::host::{CHost, milliseconds};
use crate::types::{OribiHost, OribiLane};
use oribi_host::{Crew, Host, Turn};
use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

const ANSWERED: c_int = 0;
const IDLE: c_int = 1;
const END: c_int = 2;

/// `oribi_crew`
pub struct OribiCrew {
    table: OribiHost,
    /// Valid until `oribi_host.work` returns; then the crew is dropped, too.
    crew: *const (dyn Crew + 'static),
    lane: OribiLane,
}

/// `oribi_member`
pub struct OribiMember {
    crew: *const OribiCrew,
    host: CHost,
}

impl OribiCrew {
    pub(crate) fn new(table: OribiHost, crew: &dyn Crew) -> Self {
        // SAFETY: this only erases the lifetime; the value does not leave `work`, whose argument the reference is.
        let crew = unsafe { std::mem::transmute::<*const (dyn Crew + '_), *const (dyn Crew + 'static)>(crew) };
        Self { table, crew, lane: OribiLane::default() }
    }
}

/// Opens a context for the calling thread.
///
/// # Safety
/// `crew` is the one that `work` was called with, and the lock is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_crew_join(crew: *const OribiCrew) -> *mut OribiMember {
    fence(ptr::null_mut(), || {
        // SAFETY: the caller's promise; the table is that of `oribi_run`, and the lane is part of the crew, which outlives it.
        match unsafe { CHost::open((*crew).table, false, Some(&raw const (*crew).lane)) } {
            Ok(mut host) => {
                host.enter();
                Box::into_raw(Box::new(OribiMember { crew, host }))
            }
            Err(message) => {
                ::log::error!("{message}");
                remember(&message);
                ptr::null_mut()
            }
        }
    })
}

/// Answers the next request, if there is one.
///
/// # Safety
/// `member` came from [`oribi_crew_join`] in this thread and has not left; `wait` can be written to; the lock is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_crew_turn(member: *mut OribiMember, wait: *mut c_int) -> c_int {
    // A panic concerns one request; the next turn may succeed.
    fence(ANSWERED, || {
        // SAFETY: the caller's promise. Only this thread uses the member, and the crew outlives it. Other threads may be inside
        // a turn at the same crew, each at a point where the app has the lock.
        let turn = unsafe { (*(*(*member).crew).crew).turn(&mut (*member).host) };
        match turn {
            Turn::Answered => ANSWERED,
            Turn::Idle(timeout) => {
                // SAFETY: the caller's promise.
                unsafe { *wait = milliseconds(timeout) };
                IDLE
            }
            Turn::End => END,
        }
    })
}

/// Closes the context of a thread.
///
/// # Safety
/// `member` came from [`oribi_crew_join`] and is not used again; the lock is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_crew_leave(member: *mut OribiMember) {
    fence((), || {
        // SAFETY: the caller's promise: it is the box that `oribi_crew_join` made.
        let mut member = unsafe { Box::from_raw(member) };
        member.host.leave();
    });
}

/// Waits for something to do.
///
/// # Safety
/// `crew` is the one that `work` was called with, which has not returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_crew_wait(crew: *const OribiCrew, milliseconds: c_int) {
    let timeout = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    // SAFETY: the caller's promise. This is the only method that may run at the same time as another thread's.
    fence((), || unsafe { (*(*crew).crew).wait(timeout) });
}
