//! Decides where to listen: at addresses, at a host and a port, or at the host and the port in the environment (`HOST`,
//! `PORT`). The variables of the environment have an effect only if nothing else sets the address, because they may come from a
//! program that does not know this server, such as a shell, a package manager, or the hosting platform.

use super::acme;
use super::error::SettingError;
use super::given::{Given, row};
use super::masked::quoted;
use super::origin::Origin;
use super::setting::Draft;
use super::settings::{ListenAddress, SocketAddress};
use log::Level;
use std::net::ToSocketAddrs;

/// The default address of `oribi`: the port is plackup's 5000, but only for this machine.
const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 5000;

/// Returns the rank of a text: see [`Origin::rank`]. `HOST` and `PORT` of the environment rank below a file.
pub(super) fn rank(given: &Given) -> u8 {
    if is_tcp(given.row) && is_of_environment(given) { Origin::RANK_OF_FILLING } else { given.origin.rank() }
}

/// Whether a row adds to the listeners.
pub(super) fn adds_listener(given: usize) -> bool {
    given == row("listen") || given == row("socket")
}

/// Whether the text is applied only if no other text configures a listener.
pub(super) fn fills_in(given: &Given) -> bool {
    is_tcp(given.row) && is_of_environment(given)
}

fn is_tcp(given: usize) -> bool {
    given == row("host") || given == row("port")
}

fn is_of_environment(given: &Given) -> bool {
    matches!(given.origin, Origin::Environment(_))
}

/// Makes the listeners from `listen` and `socket` or from `host` and `port`: from those with the higher rank. `given` are the
/// texts that have precedence, and `all` are all texts. Returns the origin of the listeners; `None` if no text sets them.
pub(super) fn settle(draft: &mut Draft, given: &[Given], all: &[Given]) -> Result<Option<Origin>, SettingError> {
    let best = |wanted: fn(usize) -> bool| given.iter().filter(|given| wanted(given.row)).max_by_key(|given| rank(given));
    let (listen, tcp) = (best(adds_listener), best(is_tcp));
    let said = tcp.filter(|tcp| !is_of_environment(tcp));
    if let Some(listen) = listen
        && said.is_none_or(|said| rank(listen) >= rank(said))
    {
        // plackup repeats the address of `listen` as host and port. Different values are a choice of the user.
        if let Some(tcp) = said.filter(|tcp| tcp.origin == Origin::CommandLine && listen.origin == Origin::CommandLine) {
            let why = format!("it would have no effect beside `{}`; write --listen HOST:PORT for each", listen.name);
            return Err(SettingError::bad(&tcp.name, &tcp.text, why));
        }
        note_unused(draft, all, &listen.origin, &listen.origin.to_string());
        return Ok(Some(listen.origin.clone()));
    }
    if said.is_none() && !draft.settings.acme.certificates.is_empty() {
        draft.settings.listen = acme::addresses(draft.settings.acme_challenge);
        note_unused(draft, all, &Origin::File(String::new()), "--acme");
        return Ok(None);
    }
    let mut used = Vec::new();
    for filling in given.iter().filter(|given| fills_in(given)) {
        if filling.row == row("host") {
            if let Err(why) =
                filling.apply(draft).map_err(|_| "it is neither a host name nor an address").and_then(|()| look_up(draft))
            {
                draft.host = None;
                let text = quoted(&filling.text);
                note(draft, Level::Warn, format!("{} in the environment is not used: {text}: {why}", filling.name));
                continue;
            }
        } else {
            filling.apply(draft)?;
        }
        used.push(filling);
    }
    // A container or platform that sets the port in the environment connects from another host.
    let default_host = if used.iter().any(|given| given.row == row("port")) { "" } else { DEFAULT_HOST };
    let host = draft.host.take().unwrap_or_else(|| default_host.to_owned());
    let address = ListenAddress::tcp(&host, draft.port.unwrap_or(DEFAULT_PORT));
    if !used.is_empty() {
        let names: Vec<&str> = used.iter().map(|given| given.name.as_str()).collect();
        note(draft, Level::Info, format!("{} in the environment: listening on {address}", names.join(" and ")));
    }
    draft.settings.listen = vec![address];
    if let Some(said) = said {
        note_unused(draft, all, &said.origin, &said.origin.to_string());
    }
    Ok(said.or(used.last().copied()).map(|given| given.origin.clone()))
}

/// Looks up the host of the draft, to report an unknown name.
fn look_up(draft: &Draft) -> Result<(), &'static str> {
    let host = draft.host.as_deref().filter(|host| !host.is_empty());
    host.map_or(Ok(()), |host| (host, 0).to_socket_addrs().map(drop).map_err(|_| "there is no such host"))
}

/// Notes for the log that the port of the environment is not used, because `giver` gives other addresses. Does nothing if the
/// command line (or the environment) gives the addresses, because its user knows that.
fn note_unused(draft: &mut Draft, all: &[Given], origin: &Origin, giver: &str) {
    if !matches!(origin, Origin::File(_)) {
        return;
    }
    let has = |text: &str| {
        let port = text.trim().parse::<u16>().ok();
        let has =
            |address: &ListenAddress| matches!(&address.socket, SocketAddress::Tcp { port: own, .. } if Some(*own) == port);
        draft.settings.listen.iter().any(has)
    };
    if let Some(port) = all.iter().find(|given| given.row == row("port") && is_of_environment(given) && !has(&given.text)) {
        let text = quoted(&port.text);
        note(draft, Level::Info, format!("{}={text} in the environment is not used: {giver} gives addresses", port.name));
    }
}

fn note(draft: &mut Draft, level: Level, text: String) {
    draft.settings.notes.push((level, text));
}

#[cfg(test)]
mod tests {
    use crate::{Config, Origin};

    /// Returns the listeners and the notes for `name=value` texts of an environment, of a file and of a command line.
    fn settled(environment: &[&str], file: &[&str], command_line: &[&str]) -> (String, Vec<String>) {
        let variable = |name: &str| {
            let pair = environment.iter().filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name);
            pair.map(|(_, value)| value.to_owned())
        };
        let mut config = Config::with(variable, 1);
        let said = file.iter().map(|pair| (pair, Origin::File("oribi.rb:1".to_owned())));
        for (pair, origin) in said.chain(command_line.iter().map(|pair| (pair, Origin::CommandLine))) {
            let (name, value) = pair.split_once('=').expect("name=value");
            config.set(name, value, origin).expect(pair);
        }
        let settings = config.finish().expect("fits");
        let listen = settings.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        (listen, settings.notes.into_iter().map(|(level, text)| format!("{level}: {text}")).collect())
    }

    #[test]
    fn the_environment_fills_in_only_what_is_open_and_the_log_says_so() {
        const UNUSED: &str = "INFO: PORT=3000 in the environment is not used: oribi.rb:1 gives addresses";
        for (environment, file, command_line, listen, note) in [
            (&["PORT=3000"][..], &[][..], &[][..], "*:3000", "INFO: PORT in the environment: listening on *:3000"),
            (
                &["PORT=3000", "HOST=::1"],
                &[],
                &[],
                "[::1]:3000",
                "INFO: HOST and PORT in the environment: listening on [::1]:3000",
            ),
            (&["HOST=::1"], &[], &["port=80"], "[::1]:80", "INFO: HOST in the environment: listening on [::1]:80"),
            (&["PORT=3000"], &["host=::1"], &[], "[::1]:3000", "INFO: PORT in the environment: listening on [::1]:3000"),
            (&["PORT=3000"], &["listen=/x", "listen=:443"], &[], "unix:/x *:443", UNUSED),
            (&["PORT=3000"], &["port=443"], &[], "127.0.0.1:443", UNUSED),
            // The file may have taken its value from the environment.
            (&["PORT=3000"], &["port=3000", "host=::1"], &[], "[::1]:3000", ""),
            (&["PORT=3000", "HOST=0.0.0.0"], &[], &["listen=/x"], "unix:/x", ""),
            (&["PORT=many"], &[], &["listen=/x"], "unix:/x", ""),
            (
                &["PORT=3000"],
                &[],
                &["acme=example.org", "acme-agree-terms=on", "acme-storage=/var/lib/x"],
                "http://*:80 https://*:443",
                "INFO: PORT=3000 in the environment is not used: --acme gives addresses",
            ),
            (
                &["HOST=no such host"],
                &[],
                &["port=5001"],
                "127.0.0.1:5001",
                "WARN: HOST in the environment is not used: no such host: it is neither a host name nor an address",
            ),
            (
                &["HOST=x86_64-conda-linux-gnu"],
                &[],
                &["port=5001"],
                "127.0.0.1:5001",
                "WARN: HOST in the environment is not used: x86_64-conda-linux-gnu: there is no such host",
            ),
        ] {
            let (listens, notes) = settled(environment, file, command_line);
            assert_eq!(
                (listens.as_str(), notes.join("\n").as_str()),
                (listen, note),
                "{environment:?} {file:?} {command_line:?}"
            );
        }
    }
}
