//! Sockets of scripts with TLS, and peers that hold certificates of an authority that the test makes.

use super::{body, content, redis_command};
use crate::lua_directory::{PATIENCE, Server, TestDirectory};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const APP: &str = include_str!("tls.lua");
const REDIS: &str = include_str!("redis.lua");

/// Makes `ca.pem`, and the certificates `good.pem`, `other.pem` and `expired.pem` with their key `key.pem`.
fn certificates(place: &TestDirectory) {
    place.file("index.txt", "");
    place.file("serial", "01\n");
    for (name, server, extra) in [
        ("good", "DNS:localhost,IP:127.0.0.1", ""),
        ("other", "DNS:other.example", ""),
        ("expired", "DNS:localhost", "default_startdate=20200101000000Z\ndefault_enddate=20200201000000Z\n"),
    ] {
        let text = format!(
            "[ca]\ndefault_ca=own\n[own]\ndatabase=index.txt\nnew_certs_dir=.\nserial=serial\ndefault_md=sha256\ndefault_days=30\n\
             policy=any\ncertificate=ca.pem\nprivate_key=key.pem\nx509_extensions=server\nunique_subject=no\n{extra}[any]\n\
             commonName=supplied\n[server]\nsubjectAltName={server}\n"
        );
        place.file(&format!("{name}.cnf"), &text);
    }
    let openssl = |arguments: &str| {
        let output = place.command("openssl").args(arguments.split(' ')).output().expect("openssl is installed");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    };
    openssl(
        "req -x509 -nodes -days 30 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=authority -keyout key.pem -out ca.pem",
    );
    openssl("req -new -key key.pem -subj /CN=server -out server.csr");
    for name in ["good", "other", "expired"] {
        openssl(&format!("ca -batch -notext -config {name}.cnf -in server.csr -out {name}.pem"));
    }
}

/// A program that is killed when the value is dropped.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    let listeners: [TcpListener; COUNT] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    listeners.map(|listener| listener.local_addr().expect("bound").port())
}

fn wait_for_port(port: u16) {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < PATIENCE, "the peer does not listen");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Starts nginx at a port with a good certificate, one with an expired one, and one without TLS. It is one process, so that nothing
/// of it is left when it is killed.
fn nginx(place: &TestDirectory) -> (Peer, [u16; 3]) {
    let ports = free_ports::<3>();
    let [good, expired, plain] = ports;
    place.file("html/big", &"big ".repeat(500_000));
    let root = place.0.join("html");
    let server = |port: u16, tls: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port}{tls}; ssl_certificate_key key.pem; root {}; keepalive_requests 1000;\n\
             location = / {{ return 200 \"to [$ssl_server_name] by $ssl_protocol\"; }} }}\n",
            root.display()
        )
    };
    let text = format!(
        "daemon off; master_process off; pid nginx.pid; error_log nginx.log;\n events {{ worker_connections 100; }}\n http {{ access_log off;\n\
         client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
         {} {} {} }}\n",
        server(good, " ssl; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate good.pem"),
        server(expired, " ssl; ssl_protocols TLSv1.2; ssl_certificate expired.pem"),
        server(plain, ""),
    );
    let file = place.file("nginx.conf", &text);
    let mut command = place.command("nginx");
    command.args(["-e", "nginx.log", "-p"]).arg(&place.0).arg("-c").arg(file);
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let peer = Peer(command.env("PATH", path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("nginx is installed"));
    ports.into_iter().for_each(wait_for_port);
    (peer, ports)
}

/// A server of `tls.lua` that trusts the authority of the test.
fn serve(place: &TestDirectory, concurrency: &str, arguments: &[&str]) -> Server {
    place.file("app.lua", APP);
    let mut command = place.command(env!("CARGO_BIN_EXE_oribi"));
    command.env("SSL_CERT_FILE", place.0.join("ca.pem"));
    place.serve_as(command, &[&["app.lua", "--concurrency", concurrency], arguments].concat())
}

#[test]
fn certificates_are_verified_unless_a_script_turns_it_off() {
    let place = TestDirectory::new();
    certificates(&place);
    let (_nginx, [good, expired, plain]) = nginx(&place);
    for concurrency in ["100", "1"] {
        let mut server = serve(&place, concurrency, &[]);
        let ask = |query: String| body(&place, &format!("/fetch?{query}"));
        assert_eq!(ask(format!("port={good}")), "to [localhost] by TLSv1.3", "{}", place.log());
        assert_eq!(ask(format!("port={good}&host=127.0.0.1")), "to [] by TLSv1.3");
        assert_eq!(ask(format!("port={good}&name=other.example")), "nil certificate host mismatch");
        assert_eq!(ask(format!("port={good}&name=other.example&verify=false")), "to [other.example] by TLSv1.3");
        assert_eq!(ask(format!("port={good}&name=not+a+name")), "nil bad server name");
        assert_eq!(ask(format!("port={expired}")), "nil certificate expired");
        assert_eq!(ask(format!("port={expired}&verify=false")), "to [localhost] by TLSv1.2");
        assert_eq!(ask(format!("port={plain}")), "nil the peer does not speak TLS");
        let other = ask(format!("port={good}&file=/etc/ssl/certs/ca-certificates.crt"));
        assert_eq!(other, "nil certificate of an unknown authority");
        assert!(ask(format!("port={good}&file=missing.pem")).contains("missing.pem: No such file"));
        assert_eq!(ask(format!("port={good}&path=/big")).len(), 2_000_000);
        server.terminate();
        super::ends(&place, &mut server);
    }
}

#[test]
fn kept_connections_have_the_tls_that_was_asked_for() {
    let place = TestDirectory::new();
    certificates(&place);
    let (_nginx, [good, ..]) = nginx(&place);
    let _server = serve(&place, "100", &[]);
    let times = |query: &str| body(&place, &format!("/times?port={good}{query}"));
    assert_eq!(["", "", ""].map(times), ["0", "1", "2"]);
    // Without verification it is another connection, also for drivers that shake no hands on a kept one.
    assert_eq!(times("&verify=false"), "0");
    assert_eq!(times("&verify=false"), "1");
    assert_eq!(times("&verify=false&said=yes"), "2");
    assert_eq!(times(""), "3");
    // A pool with a name has any; the handshake finds out.
    assert_eq!(times("&pool=own&verify=false"), "0");
    assert_eq!(times("&pool=own&verify=false"), "1");
    assert_eq!(times("&pool=own"), "0");
    assert_eq!(times("&pool=own"), "1");
}

/// Passes connections on to `port`; ends each after `most` bytes of the server's.
fn cutting(port: u16, most: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a connection");
            let mut server = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            let (mut from, mut to) = (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
            thread::spawn(move || std::io::copy(&mut from, &mut to));
            let mut bytes = vec![0; most];
            let mut count = 0;
            while count < most {
                match server.read(&mut bytes[count..]) {
                    Ok(0) => break,
                    Ok(read) => {
                        client.write_all(&bytes[count..count + read]).expect("the script reads");
                        count += read;
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
                }
            }
            let _ = client.shutdown(std::net::Shutdown::Write);
        }
    });
    own
}

#[test]
fn a_part_of_a_response_is_not_taken_for_the_whole() {
    let place = TestDirectory::new();
    certificates(&place);
    let (_nginx, [good, ..]) = nginx(&place);
    let _server = serve(&place, "100", &[]);
    let cut = cutting(good, 200_000);
    assert_eq!(body(&place, &format!("/fetch?port={cut}&path=/big")), "nil TLS connection cut off");
    let cut = cutting(good, 100);
    let failed = body(&place, &format!("/fetch?port={cut}"));
    assert_eq!(failed, "nil the peer has closed the connection during the handshake");
}

#[test]
fn a_handshake_ends_in_time_and_with_its_client() {
    let place = TestDirectory::new();
    certificates(&place);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let _server = serve(&place, "100", &["--edge", "on"]);
    assert_eq!(body(&place, &format!("/fetch?port={port}&timeout=0.05")), "nil timeout");
    drop(listener.accept().expect("it has come"));
    let client = place.ask(&format!("/fetch?port={port}&timeout=600"));
    let (mut peer, _) = listener.accept().expect("another one");
    peer.read_exact(&mut [0; 5]).expect("the head of a record");
    client.shutdown(std::net::Shutdown::Both).expect("open");
    drop(client);
    // The rest of the greeting, and no more.
    peer.read_to_end(&mut Vec::new()).expect("the script has ended");
}

#[test]
fn kept_connections_are_closed_when_their_time_is_over() {
    let place = TestDirectory::new();
    certificates(&place);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let _server = serve(&place, "100", &["--sweep", "10ms"]);
    assert_eq!(body(&place, &format!("/idle?port={port}")), "kept");
    let (mut peer, _) = listener.accept().expect("it has come");
    assert_eq!(peer.read(&mut [0]).expect("the end"), 0, "without another request");
}

#[test]
fn a_driver_of_redis_speaks_tls() {
    let place = TestDirectory::new();
    certificates(&place);
    let [port] = free_ports::<1>();
    let mut command = redis_command(&place);
    command.args(["--port", "0", "--tls-port", &port.to_string(), "--tls-cert-file", "good.pem", "--tls-key-file", "key.pem"]);
    command.args(["--tls-ca-cert-file", "ca.pem", "--tls-auth-clients", "no"]);
    let _redis = Peer(command.spawn().expect("redis-tools is installed"));
    wait_for_port(port);
    for concurrency in ["100", "1"] {
        place.file("app.lua", REDIS);
        let mut command = place.command(env!("CARGO_BIN_EXE_oribi"));
        command.env("REDIS", format!("tls:localhost:{port}")).env("SSL_CERT_FILE", place.0.join("ca.pem"));
        let mut server = place.serve_as(command, &["app.lua", "--concurrency", concurrency]);
        for times in 0..3 {
            assert_eq!(body(&place, &format!("/set?{times}")), format!("reused {times}"), "{concurrency}: {}", place.log());
        }
        assert_eq!(body(&place, "/late"), "nil timeout nilconnection in dubious state");
        assert_eq!(body(&place, "/closed"), "nil closed [] closed");
        assert_eq!(body(&place, "/pieces"), "one,two,three abc,d,nil");
        if concurrency == "100" {
            let waiting: Vec<_> = (0..20).map(|_| place.ask("/pop")).collect();
            super::wait_for(&place, "/blocked", "20");
            assert_eq!(body(&place, "/push?20"), "pushed");
            let mut values: Vec<String> = waiting.into_iter().map(|it| content(&super::answer(it))).collect();
            values.sort_unstable();
            values.dedup();
            assert_eq!(values.len(), 20, "each request has another value");
            assert_eq!(body(&place, "/shared"), "nil socket busy nil closed PONG");
        }
        server.terminate();
        super::ends(&place, &mut server);
        let _ = std::fs::remove_file(place.0.join("x.sock"));
    }
}
