//! A mold that the system refuses processes for its workers.

use crate::client::{Target, get};
use crate::roles;
use crate::server::{Folder, wait_until};
use crate::status::order;
use oribi_host::{Host, Native, Runtime};
use rustix::io::Errno;
use rustix::process::Signal;
use std::io;
use std::path::PathBuf;

const REFUSED: &str = "ORIBI_TEST_REFUSED_WHILE";

/// A file; while it exists, no worker can be started.
pub struct Refused {
    native: Native,
    file: PathBuf,
}

impl Refused {
    pub fn new() -> Self {
        Self { native: Native::new("hello"), file: std::env::var_os(REFUSED).expect("the test names it").into() }
    }
}

impl Runtime for Refused {
    fn open(&self, own: bool) -> Result<Box<dyn Host>, String> {
        self.native.open(own)
    }

    fn fork(&self) -> Option<io::Result<u32>> {
        self.file.exists().then(|| Err(Errno::AGAIN.into()))
    }
}

pub fn a_reload_without_processes_is_given_up_and_says_why() {
    let folder = Folder::new();
    let (file, control) = (folder.file("refused"), folder.file("control"));
    let files = [(REFUSED, &file), ("ORIBI_TEST_CONTROL", &control)];
    let variables = files.map(|(name, path)| (name, path.to_str().expect("it is plain")));
    let mut master = roles::start("master of mold without processes", &variables);
    let target = Target::Tcp(master.address());
    std::fs::write(&file, "").expect("the folder is ours");
    let answer = order(&control, "reload").expect("it answers");
    for part in ["generation 2 cannot serve", "a worker cannot be started: Resource temporarily unavailable", "ulimit -u"] {
        assert!(answer.contains(part), "{answer}");
    }
    get(&target).expect("the generation before serves on");
    std::fs::remove_file(&file).expect("it is there");
    master.signal(Signal::HUP);
    wait_until("another generation", || master.log().contains("generation 3 has taken over"));
    get(&target).expect("it serves");
}
