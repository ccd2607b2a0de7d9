//! Encoded responses, decoded by curl, which has the libraries that most clients have.

mod numbers;

use numbers::Numbers;
use oribi_encode::{Coding, Encoder, Filter, HeadWriter, Outcome, Settings, levels};
use oribi_message::ResponseHead;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

/// Answers one request: in chunks, with a flush behind each piece, in the coding that the request asks for.
fn answer(mut stream: &TcpStream, filter: &Filter, content: &[u8], level: u8) -> std::io::Result<Outcome> {
    let mut lines = BufReader::new(stream).lines();
    let mut accepted = Vec::new();
    while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
        if let Some((_, value)) = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("Accept-Encoding")) {
            accepted.push(value.to_owned());
        }
    }
    let values = accepted.iter().map(|value| value.trim().as_bytes());
    let request = filter.read_request(b"GET", values, std::iter::empty(), false);
    let head = ResponseHead { status: 200, fields: &[(b"Content-Type", b"text/html"), (b"Transfer-Encoding", b"chunked")] };
    let outcome = filter.decide(request, head.status, head.fields, None);
    let Outcome::Encode(coding) = outcome else { return Ok(outcome) };
    let mut bytes = b"HTTP/1.1 200 OK\r\n".to_vec();
    HeadWriter::default().write(outcome, head, |head| {
        head.fields.iter().for_each(|(name, value)| bytes.extend([name, &b": "[..], value, b"\r\n"].concat()));
    });
    bytes.extend_from_slice(b"\r\n");
    stream.write_all(&bytes)?;
    let mut encoder = Encoder::new(coding, level);
    let mut pieces = content.chunks(30_000).peekable();
    while let Some(piece) = pieces.next() {
        let mut output = Vec::new();
        encoder.write(piece, &mut output).expect("it is open");
        if pieces.peek().is_some() { encoder.flush(&mut output) } else { encoder.finish(&mut output) }.expect("it is open");
        stream.write_all(&[format!("{:x}\r\n", output.len()).as_bytes(), &output, b"\r\n"].concat())?;
    }
    stream.write_all(b"0\r\n\r\n")?;
    Ok(outcome)
}

#[test]
fn curl_decodes_what_it_accepts() {
    let content = Numbers(8).content(200_000);
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = format!("http://{}/", listener.local_addr().expect("an address"));
    let version = Command::new("curl").arg("--version").output().expect("curl is installed").stdout;
    let version = String::from_utf8_lossy(&version).into_owned();
    let mut codings = Vec::new();
    for (coding, library) in [(Coding::Gzip, "zlib"), (Coding::Brotli, "brotli"), (Coding::Zstd, "zstd")] {
        if !version.contains(library) {
            continue;
        }
        codings.push(coding);
        let filter = Filter::new(Settings { codings: vec![coding], ..Settings::default() });
        for level in levels(coding) {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--compressed", "--noproxy", "*", "--max-time", "60", &address]);
            let output = std::thread::scope(|scope| {
                let answered = scope.spawn(|| answer(&listener.accept().expect("a client").0, &filter, &content, level));
                let output = curl.output().expect("curl is installed");
                assert_eq!(answered.join().expect("it ends").expect("curl reads"), Outcome::Encode(coding));
                output
            });
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && output.stdout == content, "{coding:?} {level}: {message}");
        }
    }
    assert!(codings.contains(&Coding::Gzip), "{version}");
}
