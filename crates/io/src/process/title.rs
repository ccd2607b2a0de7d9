//! The name of this process in process lists, such as those of ps and top.
//!
//! The system shows the memory in which it put the program's arguments, so a title is written there. Most titles are longer
//! than the arguments. The environment variables follow the arguments directly, so they are moved elsewhere, and stay there,
//! to make room.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::sync::Mutex;

/// The memory that may be overwritten; found once.
enum Room {
    Unknown,
    None,
    Found { start: usize, size: usize },
}

static ROOM: Mutex<Room> = Mutex::new(Room::Unknown);

/// Sets the title of this process; cuts it if it is too long. If no room can be found, does nothing.
///
/// Call it only in a program that owns its arguments: a language runtime that is the main program sets titles itself. At the
/// first call this process must have a single thread.
pub fn set_title(title: &str) {
    let Ok(mut room) = ROOM.lock() else { return };
    if matches!(*room, Room::Unknown) {
        *room = find_room();
    }
    let Room::Found { start, size } = *room else { return };
    let text = &title.as_bytes()[..title.len().min(size - 1)];
    // SAFETY: `find_room` has established that these bytes are this process's arguments and environment variables, one after
    // the other. They are writable (execve(2) puts them on the stack) and exist as long as the process. The variables have been
    // moved, and the arguments were read when the program started. Code that reads the arguments later (`std::env::args`) gets
    // parts of the title and stops at the last byte at the latest, because that byte is always 0. The lock excludes other
    // titles.
    unsafe {
        let memory = std::slice::from_raw_parts_mut(start as *mut u8, size);
        memory.fill(0);
        memory[..text.len()].copy_from_slice(text);
    }
}

/// Moves the environment variables elsewhere and returns the room gained.
fn find_room() -> Room {
    let Some([argument_start, argument_end, variable_start, variable_end]) = places() else { return Room::None };
    let lies_well = argument_start < argument_end && argument_end == variable_start && variable_start <= variable_end;
    if !lies_well || !are_ours(argument_start, argument_end) || !move_variables(variable_start, variable_end) {
        return Room::None;
    }
    Room::Found { start: argument_start, size: variable_end - argument_start }
}

/// Returns the addresses at which the arguments and the environment variables start and end: fields 48 to 51 of /proc/self/stat
/// (proc(5): arg_start to env_end). `None` if the file cannot be read or does not say.
fn places() -> Option<[usize; 4]> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the name of the program in parentheses, may contain anything. So the fields are counted from the last
    // parenthesis: the third field follows it, and the 48th is needed.
    let behind = stat.rsplit_once(')')?.1;
    let mut fields = behind.split_whitespace().skip(48 - 3).map(|field| field.parse::<usize>().ok().filter(|&place| place > 0));
    Some([fields.next()??, fields.next()??, fields.next()??, fields.next()??])
}

/// Whether this program's arguments are between these addresses. If another program runs this one, as valgrind does, the system
/// reports the arguments of that other program, which must not be overwritten.
fn are_ours(start: usize, end: usize) -> bool {
    let arguments: Vec<u8> = std::env::args_os().flat_map(|argument| [argument.as_encoded_bytes(), b"\0"].concat()).collect();
    // SAFETY: the system has put a program's arguments there, in this process: the bytes are readable, and nothing writes them,
    // because there is one thread.
    arguments == unsafe { std::slice::from_raw_parts(start as *const u8, end - start) }
}

/// Copies the environment variables between two addresses to memory that is never freed. Returns `false` if there is no
/// environment.
fn move_variables(start: usize, end: usize) -> bool {
    unsafe extern "C" {
        static mut environ: *mut *mut c_char;
    }
    // SAFETY: the caller ensures that there is one thread, so nothing else reads or changes the environment meanwhile. The
    // environment is a list of pointers to strings that end with a NUL, and ends with a null pointer (environ(7)). Other code
    // may still have a pointer to a replaced string. Until a title overwrites the string, that code reads it unchanged. Later
    // it reads a part of the title and stops at the last byte of the room at the latest, because that byte is always 0.
    unsafe {
        let mut variable = environ;
        if variable.is_null() {
            return false;
        }
        while !(*variable).is_null() {
            if (start..end).contains(&(*variable).addr()) {
                *variable = CStr::from_ptr(*variable).to_owned().into_raw();
            }
            variable = variable.add(1);
        }
    }
    true
}
