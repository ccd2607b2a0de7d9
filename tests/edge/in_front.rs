//! Edges under the launchers of the languages, and behind a web server that speaks FastCGI.

use crate::connection::{Connection, request};
use crate::language::{Language, Launcher, Site};
use crate::load::{Load, Opened, Plan, Question};
use crate::response::letters;
use crate::server::{Folder, Server, send, wait_until};
use crate::turn;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

crate::with_all_kinds_of_workers!(nginx_has_an_answer_to_every_request);

#[test]
fn plackup_can_have_an_edge() {
    launched(Launcher::Plackup, Language::Perl);
}

#[test]
fn rackup_can_have_an_edge() {
    launched(Launcher::Rackup, Language::Ruby);
}

/// Tests slow requests, and recycled and killed workers, under a launcher that is itself the supervisor.
fn launched(launcher: Launcher, language: Language) {
    let _turn = turn::beside_others();
    let mut site = Site::start(launcher, language, &["--workers", "2", "--max-requests", "300"]);
    let kept = Opened::new(site.address, 16);
    let mut slow = Connection::open(site.address);
    slow.ask("/sleep?1&1");
    site.wait_inside(1);
    let fast = kept.begin(Plan { connections: 16, pace: None, requests: Some(100), question: Question::fast });
    fast.wait().must_be_perfect("fast requests beside a slow one");
    assert!(slow.is_quiet(), "they were answered while it was under way");
    assert_eq!(slow.answer().0.status, 200);

    let address = site.address;
    let load = workers_come_and_go(&mut site, address, &mut slow);
    slow.get_fast(3);
    load.stop().must_be_perfect("requests while workers come and go");
    site.server.signal(Signal::TERM);
    assert_eq!(site.server.wait(), 0, "it stops:\n{}", site.server.log());
}

/// Loads the server at `address` while its workers are recycled, and kills a worker that is answering the request of `slow`.
/// Returns the load, which continues.
fn workers_come_and_go(site: &mut Site, address: SocketAddr, slow: &mut Connection) -> Load {
    let load = Load::start(address, Plan { connections: 16, pace: None, requests: None, question: Question::fast });
    let mut seen = BTreeSet::new();
    wait_until("six workers have answered", || {
        seen.append(&mut load.workers());
        seen.len() >= 6
    });
    slow.ask("/sleep?2&30");
    send(site.wait_inside(2), Signal::KILL);
    assert_eq!(slow.answer().0.status, 502);
    load.wait_for_more(100);
    load
}

/// An nginx that passes everything on to `upstream` by FastCGI.
fn nginx(folder: &Folder, upstream: SocketAddr) -> (Server, SocketAddr) {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback is there");
    // As root nginx would hand its work to another user, which may not enter the temporary folder.
    let user = if rustix::process::getuid().is_root() { "user root;" } else { "" };
    let kept: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};\n", folder.0.display()))
        .concat();
    let text = format!(
        "{user} daemon off; worker_processes 1; pid {}/nginx.pid;
        events {{ worker_connections 1024; }}
        http {{
            access_log off; client_max_body_size 64m; keepalive_requests 1000000; {kept}
            upstream oribi {{ server {upstream}; keepalive 8; }}
            server {{
                listen {address};
                fastcgi_keep_conn on;
                location / {{ include /etc/nginx/fastcgi_params; fastcgi_pass oribi; }}
            }}
        }}\n",
        folder.0.display()
    );
    let configuration = folder.file("nginx.conf");
    std::fs::write(&configuration, text).expect("the folder is writable");
    let mut command = Command::new("/usr/sbin/nginx");
    let nginx = Server::run(command.arg("-p").arg(&folder.0).arg("-c").arg(&configuration).args(["-e", "stderr"]));
    wait_until("nginx", || TcpStream::connect(address).is_ok());
    (nginx, address)
}

fn nginx_has_an_answer_to_every_request(language: Language) {
    let _turn = turn::beside_others();
    let mut site = language.start(&["--workers", "2", "--max-requests", "300", "--listen", "fcgi://127.0.0.1:0"]);
    let folder = Folder::new();
    let (nginx, address) = nginx(&folder, site.address);

    let mut slow = Connection::open(address);
    slow.ask("/sleep?1&1");
    site.wait_inside(1);
    let kept = Opened::new(address, 16);
    kept.begin(Plan { connections: 16, pace: None, requests: Some(100), question: Question::fast })
        .wait()
        .must_be_perfect("beside a slow one");
    assert!(slow.is_quiet(), "they were answered while it was under way");
    assert_eq!(slow.answer().0.status, 200);

    for (number, size) in (10..).zip([1, 5000, 100_000, 3_000_000]) {
        let content = letters(number, size);
        slow.send(&request("POST", &format!("/upload?{number}"), &content));
        let response = slow.answer().0;
        assert!(response.status == 200 && response.content == content, "an upload of {size} bytes: {}", response.status);
        let response = slow.get(&format!("/stream?{number}&{size}&5"));
        assert!(response.status == 200 && response.content == content, "a stream of {size} bytes: {}", response.status);
    }

    let load = workers_come_and_go(&mut site, address, &mut slow);
    load.stop().must_be_perfect("requests through nginx while workers come and go");
    nginx.signal(Signal::TERM);
}
