//! What this process is called in lists of processes, such as those of ps and top.
//!
//! The system shows what stands in the memory that it put the arguments of the program into, so a title is written there. Most titles
//! are longer than the arguments; the variables of the environment stand right behind these, and are moved away for good.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::sync::Mutex;

/// The memory that may be written to, found once.
enum Room {
    Unknown,
    None,
    Found { start: usize, size: usize },
}

static ROOM: Mutex<Room> = Mutex::new(Room::Unknown);

/// Gives this process a title, which is cut if there is no room for it. Where the room cannot be found, nothing happens.
///
/// To be called by a program that owns its arguments, with one thread at the first call: a language runtime that is the main
/// program sets titles by itself.
pub fn set_title(title: &str) {
    let Ok(mut room) = ROOM.lock() else { return };
    if matches!(*room, Room::Unknown) {
        *room = find_room();
    }
    let Room::Found { start, size } = *room else { return };
    let text = &title.as_bytes()[..title.len().min(size - 1)];
    // SAFETY: `find_room` has found that these bytes are this process's arguments and variables, one behind the other. They are
    // writable (execve(2) puts them on the stack) and stay there for the life of the process. The variables have been moved, and
    // the arguments were read when the program started; whoever reads them later (`std::env::args`) finds a part of the title, and
    // its end at the latest at the last byte, which is always 0. The lock keeps other titles out.
    unsafe {
        let memory = std::slice::from_raw_parts_mut(start as *mut u8, size);
        memory.fill(0);
        memory[..text.len()].copy_from_slice(text);
    }
}

/// Moves the variables of the environment away and tells how much room that makes.
fn find_room() -> Room {
    let Some([argument_start, argument_end, variable_start, variable_end]) = places() else { return Room::None };
    let lies_well = argument_start < argument_end && argument_end == variable_start && variable_start <= variable_end;
    if !lies_well || !are_ours(argument_start, argument_end) || !move_variables(variable_start, variable_end) {
        return Room::None;
    }
    Room::Found { start: argument_start, size: variable_end - argument_start }
}

/// Where the arguments and the variables start and end: the last but four fields of /proc/self/stat (proc(5): arg_start to env_end).
fn places() -> Option<[usize; 4]> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may hold anything. Behind it, the third field comes first, and the 48th is wanted.
    let behind = stat.rsplit_once(')')?.1;
    let mut fields = behind.split_whitespace().skip(48 - 3).map(|field| field.parse::<usize>().ok().filter(|&place| place > 0));
    Some([fields.next()??, fields.next()??, fields.next()??, fields.next()??])
}

/// Whether the arguments of this program stand there. Where another program runs this one, as valgrind does, the system tells of that
/// one's arguments instead, and these are not ours to write over.
fn are_ours(start: usize, end: usize) -> bool {
    let arguments: Vec<u8> = std::env::args_os().flat_map(|argument| [argument.as_encoded_bytes(), b"\0"].concat()).collect();
    // SAFETY: the system has put the arguments of a program there, which is in this process: the bytes can be read, and nobody
    // writes them, for there is one thread.
    arguments == unsafe { std::slice::from_raw_parts(start as *const u8, end - start) }
}

/// Copies the variables that stand between two places to where they may stay for ever. `false`: there is no environment.
fn move_variables(start: usize, end: usize) -> bool {
    unsafe extern "C" {
        static mut environ: *mut *mut c_char;
    }
    // SAFETY: there is one thread, as the caller sees to, so nobody else reads or changes the environment meanwhile. It is a list of
    // pointers to texts that end with a NUL, and ends with a null pointer (environ(7)). A text that is replaced stays readable until
    // a title is written over it; whoever keeps a pointer to one across that reads a part of the title, and its end at the latest at
    // the end of the room, whose last byte is always 0.
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
