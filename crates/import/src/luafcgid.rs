//! The configuration of luafcgid: a Lua script whose globals are the settings. Only plain assignments are read; the script is
//! not run.

use crate::address::V4;
use crate::draft::Draft;
use crate::note::Key;
use crate::unreadable::Unreadable;

const WHOLE: &str = "`oribi luafcgid FILE` runs the whole file unchanged";

/// Fills a draft.
///
/// # Errors
/// The file assigns no known name.
pub(crate) fn read(text: &str, draft: &mut Draft) -> Result<(), Unreadable> {
    let mut known = false;
    let mut block = 0_i64;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.split("--").next().unwrap_or_default().trim().trim_end_matches(';').trim();
        if line.is_empty() || index == 0 && line.starts_with('#') {
            continue;
        }
        let opens = |line: &str| {
            let count = |letter| i64::try_from(line.matches(letter).count()).unwrap_or(0);
            count('{') - count('}') + count('(') - count(')')
        };
        if block > 0 {
            block += opens(line);
            continue;
        }
        block = opens(line).max(0);
        let assignment = line.split_once('=').filter(|(name, value)| is_name(name.trim()) && !value.starts_with('='));
        let Some((name, value)) = assignment.map(|(name, value)| (name.trim(), value.trim())) else {
            draft.lost(&Key::at(number, "statement"), format!("only plain assignments are read: {WHOLE}"));
            continue;
        };
        known |= setting(name, value, &Key::at(number, name), draft);
    }
    if !known {
        return Err(Unreadable::new("the file sets nothing that luafcgid knows"));
    }
    if draft.listens.is_empty() {
        draft.listen(format!("fcgi://{V4}:9000"), &Key::new("default of luafcgid"));
    }
    let text = "luafcgid runs the script that the web server names, and an app here is one script: write [app.NAME] with \
         file = \"app.lua\", or use `oribi luafcgid FILE`";
    draft.lost(&Key::new("scripts"), text);
    Ok(())
}

/// Carries an assignment over. Returns whether luafcgid knows the name.
fn setting(name: &str, value: &str, key: &Key, draft: &mut Draft) -> bool {
    let literal = literal(value);
    let flag = match name {
        "listen" | "backlog" | "maxpost" | "logfile" => None,
        "workers" => Some("threads of the app is the number of requests at once"),
        "states" => Some("the flag --states of oribi"),
        "clones" => Some("the flag --clones of oribi"),
        "sweep" => Some("the flag --sweep of oribi"),
        "retries" => Some("the flag --retries of oribi"),
        "showerrors" => Some("the flag --show-errors of oribi"),
        "handler" => Some("the flag --handler of oribi"),
        "watchdog" => Some("the flag --time-limit of oribi, or request-timeout of the app"),
        "maxcount" => Some("the flag --state-requests of oribi"),
        "hooks" => Some("the flag --hooks of oribi"),
        "daemonize" => Some("a service manager sends the server to the background, or oribi -c oribi.toml -D"),
        "buffering" | "headers" | "httpstatus" | "contenttype" => Some("the script sets these for its answer: see docs/lua.md"),
        "headersize" | "bodysize" => {
            draft.same(key, "buffers grow by themselves");
            return true;
        }
        _ => {
            draft.lost(key, format!("not known: {WHOLE}"));
            return false;
        }
    };
    if let Some(reason) = flag {
        draft.lost(key, format!("{reason}; {WHOLE}"));
        return true;
    }
    let Some(literal) = literal else {
        draft.lost(key, format!("the value is no plain text or number: {WHOLE}"));
        return true;
    };
    match name {
        "listen" => {
            let address = if literal.starts_with('/') {
                format!("fcgi+unix:{literal}")
            } else if literal.starts_with(':') {
                format!("fcgi://{V4}{literal}")
            } else {
                format!("fcgi://{literal}")
            };
            draft.listen(if literal.contains("://") { literal } else { address }, key);
        }
        "backlog" if literal.starts_with(['-', '0']) => draft.same(key, "the default of Oribi"),
        "backlog" => draft.server.set("backlog", literal, key),
        "maxpost" => draft.server.set("max-body-size", literal, key),
        _ => draft.server.set("error-log", literal, key),
    }
    true
}

/// The value of a plain text, number or boolean.
fn literal(value: &str) -> Option<String> {
    for quote in ['"', '\''] {
        if let Some(inside) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return (!inside.contains([quote, '\\'])).then(|| inside.to_owned());
        }
    }
    let plain = |byte: u8| byte.is_ascii_digit() || byte == b'-';
    let product: Option<u64> = value.split('*').map(|part| part.trim().parse::<u64>().ok()).product();
    if value.bytes().all(plain) && !value.is_empty() {
        Some(value.to_owned())
    } else {
        product.map(|number| number.to_string())
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !text.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Whether a text looks like such a file.
pub(crate) fn is_file(text: &str) -> bool {
    let names = ["listen", "workers", "states", "sweep", "clones", "maxpost", "logfile"];
    let sets = |line: &str| line.split_once('=').is_some_and(|(name, _)| names.contains(&name.trim()));
    text.lines().filter(|line| sets(line)).count() >= 2
}
