//! The cells: one way of loading a server each, and the answer that it must give.

/// The name under which the instruction count is selected, beside the cells of [`ALL`].
pub const INSTRUCTIONS: &str = "instructions";
/// The name under which the count of system calls is selected, beside the cells of [`ALL`].
pub const SYSTEM_CALLS: &str = "system-calls";
/// Bytes in one streamed piece; there is one for each letter from `a` to `p`.
const PIECE: usize = 1024;

/// The kind of answer that a cell requires, which selects the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 11 bytes.
    Hello,
    /// 64 KiB in one piece.
    Body64k,
    /// A file of 1 MiB, which no app gives.
    File1m,
    /// The number of bytes received, in decimal.
    Count,
    /// 16 pieces of 1 KiB, without a length known beforehand.
    Stream,
    /// 11 bytes, sent by a route of Sinatra.
    Sinatra,
    /// 11 bytes, sent by an action of Rails.
    Rails,
}

impl Answer {
    /// Returns the name of the app in `bench/apps` that gives this answer. There is a file for each language, with the file
    /// name extension of the language.
    pub fn app(self) -> &'static str {
        match self {
            Answer::Hello => "hello",
            Answer::Body64k => "body64k",
            Answer::File1m => "file1m",
            Answer::Count => "upload",
            Answer::Stream => "stream",
            Answer::Sinatra => "sinatra",
            Answer::Rails => "rails",
        }
    }

    /// Returns the file name extension of the only language with such an app; `None` if all languages have one.
    pub fn only_language(self) -> Option<&'static str> {
        match self {
            Answer::Hello | Answer::Body64k | Answer::File1m | Answer::Count | Answer::Stream => None,
            Answer::Sinatra | Answer::Rails => Some("ru"),
        }
    }

    /// The target; the apps ignore it, nginx distinguishes its locations by it.
    pub fn path(self) -> &'static str {
        match self {
            Answer::Hello | Answer::Sinatra | Answer::Rails => "/",
            Answer::Body64k => "/64k",
            Answer::File1m => "/file1m",
            Answer::Count => "/upload",
            Answer::Stream => "/stream",
        }
    }
}

/// Whether and how connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// They are not.
    None,
    /// By TLS 1.3. A new connection begins with a full handshake.
    Tls,
    /// By TLS 1.3. Every connection is a new one, and its handshake resumes the session of the first connection.
    Resumed,
}

/// One way of loading a server.
#[derive(Debug)]
pub struct Cell {
    /// Its name for `--cells`.
    pub name: &'static str,
    /// Its name in the table and the plots.
    pub title: &'static str,
    /// The result of nginx in this cell, to which the ratios refer.
    pub yardstick: &'static str,
    /// Connections open at once.
    pub connections: usize,
    /// Requests written at once on a connection.
    pub depth: usize,
    /// Requests open at once on a connection of HTTP/2; 0 if it is one of HTTP/1.
    pub streams: usize,
    /// Whether and how connections are encrypted.
    pub encryption: Encryption,
    /// Whether each request asks for the connection to be closed.
    pub close: bool,
    /// Bytes of content sent with each request; none means GET.
    pub upload: usize,
    /// The expected response.
    pub answer: Answer,
}

impl Cell {
    const KEEP_ALIVE: Cell = Cell {
        name: "",
        title: "",
        yardstick: "`return 200`",
        connections: 64,
        depth: 1,
        streams: 0,
        encryption: Encryption::None,
        close: false,
        upload: 0,
        answer: Answer::Hello,
    };

    /// The body that every server must answer with, byte for byte.
    pub fn body(&self) -> Vec<u8> {
        match self.answer {
            Answer::Hello | Answer::Sinatra | Answer::Rails => b"Hello World".to_vec(),
            Answer::Body64k => (b'a'..=b'z').cycle().take(65536).collect(),
            Answer::File1m => (b'a'..=b'z').cycle().take(1 << 20).collect(),
            Answer::Count => self.upload.to_string().into_bytes(),
            Answer::Stream => (b'a'..=b'p').flat_map(|letter| [letter; PIECE]).collect(),
        }
    }

    /// One request of this cell, as bytes.
    pub fn request(&self) -> Vec<u8> {
        let method = if self.upload > 0 { "POST" } else { "GET" };
        let mut request = format!("{method} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n", self.answer.path());
        if self.close {
            request.push_str("Connection: close\r\n");
        }
        if self.upload > 0 {
            request.push_str(&format!("Content-Type: application/octet-stream\r\nContent-Length: {}\r\n", self.upload));
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        request.resize(request.len() + self.upload, b'u');
        request
    }
}

/// Every cell, in the order of the table.
pub const ALL: &[Cell] = &[
    Cell { name: "keep-alive-16", title: "Keep-alive, 16 connections", connections: 16, ..Cell::KEEP_ALIVE },
    Cell { name: "keep-alive-64", title: "Keep-alive, 64 connections", ..Cell::KEEP_ALIVE },
    Cell { name: "keep-alive-256", title: "Keep-alive, 256 connections", connections: 256, ..Cell::KEEP_ALIVE },
    Cell { name: "keep-alive-4096", title: "Keep-alive, 4096 connections", connections: 4096, ..Cell::KEEP_ALIVE },
    Cell { name: "short", title: "Short connections, 64 at once", close: true, ..Cell::KEEP_ALIVE },
    Cell { name: "pipelining", title: "Pipelining 16 deep, 64 connections", depth: 16, ..Cell::KEEP_ALIVE },
    Cell {
        name: "body-64k",
        title: "Body of 64 KiB, 64 connections",
        yardstick: "a file, by sendfile",
        answer: Answer::Body64k,
        ..Cell::KEEP_ALIVE
    },
    Cell {
        name: "upload-1m",
        title: "Upload of 1 MiB, 16 connections",
        yardstick: "`echo_read_request_body`, in memory",
        connections: 16,
        upload: 1 << 20,
        answer: Answer::Count,
        ..Cell::KEEP_ALIVE
    },
    Cell {
        name: "stream",
        title: "Stream of 16 pieces of 1 KiB, 64 connections",
        yardstick: "`echo_duplicate` and `echo_flush`, 16 times",
        answer: Answer::Stream,
        ..Cell::KEEP_ALIVE
    },
    Cell { name: "http2-64x10", title: "HTTP/2, 64 connections, 10 streams on each", streams: 10, ..Cell::KEEP_ALIVE },
    Cell {
        name: "http2-1x100",
        title: "HTTP/2, one connection, 100 streams",
        connections: 1,
        streams: 100,
        ..Cell::KEEP_ALIVE
    },
    Cell { name: "tls-64", title: "TLS, keep-alive, 64 connections", encryption: Encryption::Tls, ..Cell::KEEP_ALIVE },
    Cell {
        name: "tls-short",
        title: "TLS, a full handshake for each request, 16 at once",
        connections: 16,
        encryption: Encryption::Tls,
        close: true,
        ..Cell::KEEP_ALIVE
    },
    Cell {
        name: "tls-resumed",
        title: "TLS, a resumed session for each request",
        connections: 1,
        encryption: Encryption::Resumed,
        close: true,
        ..Cell::KEEP_ALIVE
    },
    Cell {
        name: "tls-file-1m",
        title: "TLS, a file of 1 MiB, 16 connections",
        yardstick: "a file",
        connections: 16,
        encryption: Encryption::Tls,
        answer: Answer::File1m,
        ..Cell::KEEP_ALIVE
    },
    Cell {
        name: "tls-http2-64x10",
        title: "TLS and HTTP/2, 64 connections, 10 streams on each",
        streams: 10,
        encryption: Encryption::Tls,
        ..Cell::KEEP_ALIVE
    },
    Cell {
        name: "tls-http2-1x100",
        title: "TLS and HTTP/2, one connection, 100 streams",
        connections: 1,
        streams: 100,
        encryption: Encryption::Tls,
        ..Cell::KEEP_ALIVE
    },
    Cell { name: "sinatra", title: "Sinatra, 64 connections", answer: Answer::Sinatra, ..Cell::KEEP_ALIVE },
    Cell { name: "rails", title: "Rails, 64 connections", answer: Answer::Rails, ..Cell::KEEP_ALIVE },
];

/// Whether `name` is a cell or one of the two counts.
pub fn is_known(name: &str) -> bool {
    name == INSTRUCTIONS || name == SYSTEM_CALLS || ALL.iter().any(|cell| cell.name == name)
}

/// Every name that `--cells` takes.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|cell| cell.name).chain([INSTRUCTIONS, SYSTEM_CALLS]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_size_their_names_say() {
        let size = |name| ALL.iter().find(|cell| cell.name == name).map(|cell| cell.body().len());
        assert_eq!(size("short"), Some(11));
        assert_eq!(size("body-64k"), Some(64 * 1024));
        assert_eq!(size("tls-file-1m"), Some(1024 * 1024));
        assert_eq!(size("upload-1m"), Some("1048576".len()));
        assert_eq!(size("stream"), Some(16 * 1024));
    }

    #[test]
    fn an_upload_announces_the_bytes_it_carries() {
        let cell = Cell { upload: 3, close: true, answer: Answer::Count, ..Cell::KEEP_ALIVE };
        let text = String::from_utf8(cell.request()).expect("ASCII");
        assert!(text.starts_with("POST /upload HTTP/1.1\r\n"));
        assert!(text.contains("Connection: close\r\n"));
        assert!(text.ends_with("Content-Length: 3\r\n\r\nuuu"));
    }
}
