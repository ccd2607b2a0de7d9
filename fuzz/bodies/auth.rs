//! Properties of all files of users and of all values of Authorization.

use oribi_auth::{Credentials, Users};

/// Checks the bytes as a value of Authorization, and as a file of users.
pub fn check(data: &[u8]) {
    if let Some(credentials) = Credentials::read(data) {
        let (user, password) = (credentials.user(), credentials.password());
        assert!(data[..5].eq_ignore_ascii_case(b"Basic") && !user.contains(&b':'));
        assert!(!user.iter().chain(password).any(u8::is_ascii_control));
        assert!(user.len() + password.len() < data.len());
    }
    let lines = data.split(|byte| *byte == b'\n').count();
    // Passwords are not compared: a valid hash may take long on purpose.
    match (Users::read(data, false), Users::read(data, true)) {
        (Ok(strong), Ok(all)) => {
            assert_eq!(strong.len(), all.len());
            assert!(strong.len() <= lines);
        }
        (Ok(_), Err(mistakes)) => panic!("more is accepted than with weak hashes: {mistakes:?}"),
        (Err(mistakes), _) => {
            assert!(!mistakes.is_empty() && mistakes.len() <= lines);
            assert!(mistakes.is_sorted_by_key(|mistake| mistake.line));
            assert!(mistakes.iter().all(|mistake| (1..=lines).contains(&mistake.line) && !mistake.message.contains('\n')));
        }
    }
}
