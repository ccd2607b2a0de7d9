//! A native lane without a supervisor, for profilers. `native PORT [MODEL]`, with a model as for `--io`.
use oribi_host::{After, Host, Native, Runtime};
use oribi_io::Model;
use oribi_server::config::{IoModel, ListenAddress, Settings};
use oribi_server::lane::{ContextSupply, LaneSetup, Renewal, run};
use oribi_server::listen::{Shard, listen_sockets, open};
use oribi_server::scoreboard::WorkerSlot;
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
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(5000);
    let listen = vec![ListenAddress::tcp("127.0.0.1", port)];
    let model = std::env::args().nth(2).and_then(|name| Model::named(&name)).unwrap_or(Model::Epoll);
    let io = IoModel::Chosen(model);
    let settings = Settings { listen, io, ..Settings::default() };
    let listeners = open(&settings).map_err(std::io::Error::other)?;
    let (wake, _writer) = std::io::pipe()?;
    let setup = LaneSetup {
        settings: &settings,
        listeners: &listeners,
        listen_sockets: &listen_sockets(&listeners, Shard::ONLY),
        slot: &WorkerSlot::unshared(),
        running: &[],
        wake: wake.as_fd(),
        must_log: true,
    };
    run(&setup, &mut Only)
}
