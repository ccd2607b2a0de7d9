//! A Lua lane without a supervisor: what profilers look at. `lane PORT SCRIPT`
use oribi_host::{After, Host, Runtime};
use oribi_lua::script_path::ScriptSource;
use oribi_lua::{LuaRuntime, LuaSettings};
use oribi_server::config::{ListenAddress, Settings};
use oribi_server::lane::{ContextSupply, LaneSetup, Renewal, run};
use oribi_server::listen::{Shard, listen_sockets, open};
use oribi_server::scoreboard::WorkerSlot;
use std::os::fd::AsFd;

struct Only(LuaRuntime);

impl ContextSupply for Only {
    fn first(&mut self) -> Result<Box<dyn Host>, String> {
        self.0.worker_started(1);
        self.0.open(false)
    }

    fn due(&self) -> u64 {
        u64::MAX
    }

    fn renew(&mut self, present: Box<dyn Host>, _answered: u64, _after: After) -> Renewal {
        Renewal::Serve(present, u64::MAX)
    }
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().and_then(|port| port.parse().ok()).unwrap_or(5000);
    let script = arguments.next().unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/examples/hello.lua").to_owned());
    let runtime = LuaRuntime::new(LuaSettings::new(ScriptSource::One(script.into())))?;
    let listen = vec![ListenAddress::tcp("127.0.0.1", port)];
    let settings = Settings { listen, ..Settings::default() };
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
    run(&setup, &mut Only(runtime))
}
