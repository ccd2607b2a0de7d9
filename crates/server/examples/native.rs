//! A native lane without a supervisor: what profilers look at. `native PORT`
use oribi_host::{After, Host, Native, Runtime};
use oribi_server::config::Settings;
use oribi_server::lane::{ContextSupply, LaneSetup, Renewal, run};
use oribi_server::process::{Listener, WorkerSlot};
use std::os::fd::AsFd;

struct Only;

impl ContextSupply for Only {
    fn first(&mut self) -> Result<Box<dyn Host>, String> {
        Native::new("Hello World").open(false)
    }

    fn due(&self) -> u64 {
        u64::MAX
    }

    fn renew(&mut self, present: Box<dyn Host>, _answered: u64, _after: After) -> Renewal {
        Renewal::Serve(present, u64::MAX)
    }
}

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "5000".to_owned());
    let socket = std::net::TcpListener::bind(format!("127.0.0.1:{port}"))?;
    socket.set_nonblocking(true)?;
    let listeners = [Listener {
        socket: socket.into(),
        display: format!("http://127.0.0.1:{port}"),
        server_name: "127.0.0.1".to_owned(),
        server_port: port,
        unix: false,
    }];
    let settings = Settings::default();
    let (wake, _writer) = std::io::pipe()?;
    let setup =
        LaneSetup { settings: &settings, listeners: &listeners, slot: &WorkerSlot::unshared(), wake: wake.as_fd() };
    run(&setup, &mut Only)
}
