//! The hash of `htpasswd -m` (`$apr1$`), and that of crypt(3) from which it was made (`$1$`).

use md5::{Digest, Md5};
use zeroize::Zeroizing;

/// The letters of six bits each.
const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns the text of the hash, without its prefix and its salt. `magic` is the prefix, with both dollars.
pub(crate) fn hash(magic: &str, salt: &[u8], password: &[u8]) -> String {
    let of = |parts: &[&[u8]]| -> Zeroizing<[u8; 16]> {
        let mut digest = Md5::new();
        parts.iter().for_each(|part| digest.update(part));
        Zeroizing::new(digest.finalize().into())
    };
    let both = of(&[password, salt, password]);
    let mut digest = Md5::new();
    [password, magic.as_bytes(), salt].iter().for_each(|part| digest.update(part));
    password.chunks(16).for_each(|chunk| digest.update(&both[..chunk.len()]));
    let mut bits = password.len();
    while bits > 0 {
        // The odd choice is that of the first program, whose hashes all others must give.
        digest.update(if bits & 1 == 1 { &[0][..] } else { &password[..1] });
        bits >>= 1;
    }
    let mut last: Zeroizing<[u8; 16]> = Zeroizing::new(digest.finalize().into());
    for round in 0..1000 {
        let is_odd = round % 2 == 1;
        let (first, end): (&[u8], &[u8]) = if is_odd { (password, &*last) } else { (&*last, password) };
        let salt = if round % 3 == 0 { &[][..] } else { salt };
        let again = if round % 7 == 0 { &[][..] } else { password };
        last = of(&[first, salt, again, end]);
    }
    let mut text = String::with_capacity(22);
    let mut push = |mut bits: u32, count: usize| {
        for _ in 0..count {
            text.push(char::from(LETTERS[(bits & 63) as usize]));
            bits >>= 6;
        }
    };
    for [high, middle, low] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        push(u32::from(last[high]) << 16 | u32::from(last[middle]) << 8 | u32::from(last[low]), 4);
    }
    push(last[11].into(), 2);
    text
}
