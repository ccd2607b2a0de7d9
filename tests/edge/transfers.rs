//! Content of every size and in both directions, compared byte by byte.

use crate::connection::{Connection, request};
use crate::language::{FILES, Language, content_of_file};
use crate::response::letters;
use crate::turn;

crate::in_every_language!(
    uploads_arrive_as_they_were_sent,
    responses_of_every_size_arrive,
    slow_readers_get_all_of_a_stream,
    files_that_apps_name_are_sent,
);

// Lua has no sockets that an app could take.
crate::in_language!(perl_takes, Perl, an_app_that_takes_the_socket_has_it);
crate::in_language!(ruby_takes, Ruby, an_app_that_takes_the_socket_has_it);

/// Sizes just below and above the limits of packets, buffers, slots and memory.
const SIZES: [usize; 12] =
    [1, 2, 1000, 4096, 16_383, 16_385, 65_535, 65_537, 262_145, (1 << 20) - 1, (1 << 20) + 1, 20_000_000];

fn uploads_arrive_as_they_were_sent(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let mut connection = Connection::open(site.address);
    for (number, size) in (1..).zip(SIZES) {
        let content = letters(number, size);
        std::thread::scope(|scope| {
            // Half-way through, others are answered.
            connection.send(&request("POST", &format!("/upload?{number}"), &content)[..size / 2 + 1]);
            scope.spawn(|| Connection::open(site.address).get_fast(number));
        });
        connection.send(&request("POST", &format!("/upload?{number}"), &content)[size / 2 + 1..]);
        let response = connection.answer().0;
        assert_eq!(response.status, 200, "{size} bytes");
        assert!(response.content == content, "{size} bytes came back differently ({} bytes)", response.content.len());
        // The same in chunks.
        connection
            .send(format!("POST /upload?{number} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes());
        for piece in content.chunks(50_000) {
            connection.send(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
        }
        connection.send(b"0\r\n\r\n");
        let response = connection.answer().0;
        assert!(response.status == 200 && response.content == content, "{size} bytes in chunks: {}", response.status);
    }
}

fn responses_of_every_size_arrive(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let mut connection = Connection::open(site.address);
    for (number, size) in (1..).zip(SIZES) {
        for target in
            [format!("/big?{number}&{size}"), format!("/stream?{number}&{size}&7"), format!("/stream?{number}&{size}&1")]
        {
            let response = connection.get(&target);
            assert_eq!(response.status, 200, "{target}");
            assert!(response.content == letters(number, size), "{target}: not what was asked for");
        }
    }
    let many = connection.get("/stream?5&20000&20000");
    assert!(many.content == letters(5, 20_000), "twenty thousand pieces");
    for (name, length) in FILES {
        let response = connection.get(&format!("/files/{name}"));
        assert!(response.content == content_of_file(length), "the file {name}");
    }
}

fn slow_readers_get_all_of_a_stream(language: Language) {
    const LENGTH: usize = 2_000_000;
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "3"]);
    std::thread::scope(|scope| {
        for number in 1..=6 {
            let address = site.address;
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                let in_pieces = number % 2 == 0;
                let target =
                    if in_pieces { format!("/stream?{number}&{LENGTH}&40") } else { format!("/big?{number}&{LENGTH}") };
                connection.ask(&target);
                for _ in 0..40 {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    connection.receive(20_000).expect("the server sends");
                }
                let response = connection.answer().0;
                assert!(response.content == letters(number, LENGTH), "{target} read slowly");
                connection.get_fast(number);
            });
        }
    });
}

fn files_that_apps_name_are_sent(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let mut connection = Connection::open(site.address);
    for number in 0..20 {
        let response = connection.get(&format!("/named?{number}"));
        assert!(response.status == 200 && response.content == content_of_file(FILES[0].1), "{response:?}");
    }
}

fn an_app_that_takes_the_socket_has_it(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    for number in 0..20 {
        let mut connection = Connection::open(site.address);
        connection.get_fast(number);
        connection.ask(&format!("/hijack?{number}"));
        let response = connection.answer().0;
        assert_eq!((response.status, &*response.content), (200, format!("hijack {number}\n").as_bytes()));
        assert_eq!(connection.receive(100), Ok(0), "the app has closed it");
    }
}
