//! Parses one directive of a pattern: `%h`, `%{Referer}i`, `%!200{ms}T`, or `%(addr)`.

use super::{AccessItem as Item, Found, Instant, Radix, Statuses, TimeForm, Unit};

/// The names of the parts of a request's duration.
const PARTS: [&str; 4] = ["queue", "first", "app", "send"];

/// The supported letters of strftime.
const CALENDAR: &str = "%aAbBdeFhHImMprRStTyYzZ";

/// Parses a directive of Apache at the start of `text`, which begins with `%`. Also returns the text after the directive.
///
/// # Errors
/// The part of the directive that is not understood.
pub(super) fn directive(text: &str) -> Result<(Found, &str), String> {
    let (statuses, text) = statuses(&text[1..])?;
    // In Apache these signs choose between the first and the last of several internal requests. This server has only one.
    let mut rest = text.trim_start_matches(['<', '>']);
    let mut argument = None;
    if let Some(inner) = rest.strip_prefix('{') {
        let (inside, behind) = inner.split_once('}').ok_or("there is no } after the {")?;
        (argument, rest) = (Some(inside), behind);
    }
    let letter = rest.chars().next().ok_or("a letter is missing after it; write %% for a %")?;
    let item = match (letter, argument) {
        ('^', _) => return Err("%^ti and %^to are not supported: trailers are not kept until the line is written".to_owned()),
        ('o', Some(name)) => Found::ResponseField(field_name(name)?, statuses),
        ('l', None) => Found::Nothing,
        (letter, None) => Found::Item(simple(letter)?, statuses),
        (letter, Some(argument)) => Found::Item(with_argument(letter, argument)?, statuses),
    };
    Ok((item, &rest[letter.len_utf8()..]))
}

fn simple(letter: char) -> Result<Item, String> {
    Ok(match letter {
        'a' | 'h' => Item::Client,
        'b' => Item::BytesOrDash,
        'B' => Item::Bytes,
        'D' => Item::Duration(Unit::Microseconds),
        'H' => Item::Version,
        'k' => Item::Earlier,
        'L' => Item::RequestId,
        'm' => Item::Method,
        'p' => Item::ServerPort,
        'P' => Item::Process,
        'q' => Item::Query,
        'r' => Item::RequestLine,
        's' => Item::Status,
        't' => Item::Time(Instant::Begin, TimeForm::Common),
        'T' => Item::Duration(Unit::Seconds),
        'u' => Item::User,
        'U' => Item::Path,
        'v' => Item::ServerName,
        'V' => Item::Host,
        'X' => Item::Ending,
        'C' | 'e' | 'i' | 'n' | 'o' => return Err(format!("expected a name, as in %{{Name}}{letter}")),
        _ => {
            let why = match letter {
                'A' => {
                    "is not supported, because the address at which a client has arrived is not kept; %v and %p are the \
                     server's name and port"
                }
                'f' | 'R' => "is not supported: an app answers, and has neither a file name nor a handler",
                'I' | 'O' | 'S' => {
                    "is not supported: bytes of headers are not counted for each request; %B is the size of the content, and \
                     metrics count all bytes"
                }
                _ => {
                    "is not known; known are %a %b %B %D %h %H %k %l %L %m %p %P %q %r %s %t %T %u %U %v %V %X, and %{...} before \
                     a C e h i n o p P t T"
                }
            };
            return Err(format!("%{letter} {why}"));
        }
    })
}

fn with_argument(letter: char, argument: &str) -> Result<Item, String> {
    Ok(match letter {
        'i' => Item::RequestField(field_name(argument)?),
        'C' => Item::Cookie(field_name(argument)?),
        'e' => variable(argument).unwrap_or_else(|| Err(unknown_variable(&format!("%{{{argument}}}e"))))?,
        'a' | 'h' if argument == "c" => Item::Peer,
        'p' => port(argument)?,
        'P' => process(argument)?,
        'n' => note(argument)?,
        'T' => duration(argument)?,
        't' => time(argument)?,
        'a' | 'h' => {
            return Err(format!("%{{{argument}}}{letter} is not known; %{{c}}{letter} is the other end of the connection"));
        }
        _ => return Err(format!("%{{{argument}}}{letter} is not known; %{{...}} may stand before a C e h i n o p P t T")),
    })
}

/// Parses the argument of `%{...}p`: the port of the server or the port of the client.
fn port(whose: &str) -> Result<Item, String> {
    match whose {
        "canonical" | "local" => Ok(Item::ServerPort),
        "remote" => Ok(Item::ClientPort),
        _ => Err(format!("%{{{whose}}}p is not known; known are canonical, local and remote")),
    }
}

/// Parses the argument of `%{...}P`: the id of the process or of the thread that writes the line.
fn process(which: &str) -> Result<Item, String> {
    match which {
        "pid" => Ok(Item::Process),
        "tid" => Ok(Item::Thread(Radix::Decimal)),
        "hextid" => Ok(Item::Thread(Radix::Hexadecimal)),
        _ => Err(format!("%{{{which}}}P is not known; known are pid, tid and hextid")),
    }
}

/// Returns the item for a variable of the environment that apps get (RFC 3875, section 4.1). `None` if the log does not have
/// the value of the variable.
fn variable(name: &str) -> Option<Result<Item, String>> {
    Some(Ok(match name {
        "CONTENT_LENGTH" | "CONTENT_TYPE" => Item::RequestField(name.to_ascii_lowercase().replace('_', "-").into_bytes()),
        "REMOTE_ADDR" => Item::Client,
        "REMOTE_PORT" => Item::ClientPort,
        "REMOTE_USER" => Item::User,
        "REQUEST_METHOD" => Item::Method,
        "REQUEST_URI" => Item::PathAndQuery,
        "SERVER_NAME" => Item::ServerName,
        "SERVER_PORT" => Item::ServerPort,
        "SERVER_PROTOCOL" => Item::Version,
        _ => return name.strip_prefix("HTTP_").map(|field| field_name(&field.replace('_', "-")).map(Item::RequestField)),
    }))
}

fn unknown_variable(written: &str) -> String {
    format!(
        "{written} is not supported: the environment of the app is not kept. Known are CONTENT_LENGTH CONTENT_TYPE REMOTE_ADDR \
         REMOTE_PORT REMOTE_USER REQUEST_METHOD REQUEST_URI SERVER_NAME SERVER_PORT SERVER_PROTOCOL, and HTTP_ with the \
         name of a field"
    )
}

/// Parses `ms`, `queue`, `queue:ms`.
fn duration(argument: &str) -> Result<Item, String> {
    let (named, text) = argument.split_once(':').map_or((argument, "us"), |(named, unit)| (named, unit));
    match PARTS.into_iter().find(|part| *part == named) {
        Some(part) => unit(text).map(|unit| Item::Part(part, unit)),
        None => unit(argument).map(Item::Duration),
    }
}

/// A note of the server about a request.
fn note(name: &str) -> Result<Item, String> {
    match name {
        "trace_id" => Ok(Item::Trace),
        "span_id" => Ok(Item::Span),
        _ => Err(format!("{name:?} is not known; the notes %{{...}}n are trace_id and span_id")),
    }
}

fn unit(text: &str) -> Result<Unit, String> {
    match text {
        "s" => Ok(Unit::Seconds),
        "ms" => Ok(Unit::Milliseconds),
        "us" => Ok(Unit::Microseconds),
        _ => {
            Err("the units of %{...}T are s, ms and us; parts of the time are queue, first, app and send, as in %{queue}T or \
                  %{app:ms}T"
                .to_owned())
        }
    }
}

fn time(argument: &str) -> Result<Item, String> {
    let (instant, form) = match argument.split_once(':') {
        Some(("begin", form)) => (Instant::Begin, form),
        Some(("end", form)) => (Instant::End, form),
        _ => (Instant::Begin, argument),
    };
    let form = match form {
        "" => TimeForm::Common,
        "sec" => TimeForm::Since(Unit::Seconds),
        "msec" => TimeForm::Since(Unit::Milliseconds),
        "usec" => TimeForm::Since(Unit::Microseconds),
        "msec_frac" => TimeForm::Fraction(Unit::Milliseconds),
        "usec_frac" => TimeForm::Fraction(Unit::Microseconds),
        _ => {
            let mut letters = form.split('%').skip(1);
            while let Some(piece) = letters.next() {
                // Two percent signs are one.
                let letter = piece.chars().next().or_else(|| letters.next().map(|_| '%'));
                if letter.is_none_or(|letter| !CALENDAR.contains(letter)) {
                    let known = CALENDAR.trim_start_matches('%');
                    return Err(format!("a time is sec, msec, usec, msec_frac, usec_frac, or has % before one of {known}"));
                }
            }
            TimeForm::Calendar(form.to_owned())
        }
    };
    Ok(Item::Time(instant, form))
}

/// Parses the statuses before a letter: `400,501` or `!200`.
fn statuses(text: &str) -> Result<(Option<Statuses>, &str), String> {
    let (others, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
    let end = rest.find(|character: char| !character.is_ascii_digit() && character != ',').unwrap_or(rest.len());
    let (list, behind) = rest.split_at(end);
    if list.is_empty() && !others {
        return Ok((None, text));
    }
    let listed: Result<Vec<u16>, _> = list.split(',').map(str::parse).collect();
    let listed = listed.map_err(|_| "expected statuses with commas between them, as in %!200,304{Referer}i")?;
    Ok((Some(Statuses { others, listed }), behind))
}

/// Checks the name of a field and returns it in lower case.
fn field_name(text: &str) -> Result<Vec<u8>, String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_token) {
        return Err(format!("{text:?} cannot be a name"));
    }
    Ok(text.to_ascii_lowercase().into_bytes())
}

/// Parses a directive of uWSGI at the start of `text`, which begins with `%(`. Also returns the text after the directive.
///
/// # Errors
/// The part of the directive that is not understood.
pub(super) fn named(text: &str) -> Result<(Found, &str), String> {
    let (name, rest) = text[2..].split_once(')').ok_or("there is no ) after the (")?;
    let item = match name {
        "addr" => Item::Client,
        "method" => Item::Method,
        "uri" => Item::PathAndQuery,
        "proto" => Item::Version,
        "host" => Item::Host,
        "status" => Item::Status,
        "rsize" => Item::Bytes,
        "referer" => Item::RequestField(b"referer".to_vec()),
        "uagent" => Item::RequestField(b"user-agent".to_vec()),
        "cl" => Item::RequestField(b"content-length".to_vec()),
        "secs" => Item::Duration(Unit::Seconds),
        "msecs" => Item::Duration(Unit::Milliseconds),
        "micros" => Item::Duration(Unit::Microseconds),
        "ltime" => Item::Time(Instant::Begin, TimeForm::Calendar("%d/%b/%Y:%T %z".to_owned())),
        "time" | "epoch" => Item::Time(Instant::Begin, TimeForm::Since(Unit::Seconds)),
        "tmsecs" => Item::Time(Instant::Begin, TimeForm::Since(Unit::Milliseconds)),
        "tmicros" => Item::Time(Instant::Begin, TimeForm::Since(Unit::Microseconds)),
        "pid" => Item::Process,
        "user" => Item::User,
        _ => match name.strip_prefix("var.").map(variable) {
            Some(Some(item)) => item?,
            Some(None) => return Err(unknown_variable(&format!("%({name})"))),
            None => {
                let known = "addr cl epoch host ltime method micros msecs pid proto referer rsize secs status time tmicros \
                             tmsecs uagent uri user, and var. with the name of a variable, as in var.HTTP_ACCEPT";
                return Err(format!("%({name}) is not known; known are {known}"));
            }
        },
    };
    Ok((Found::Item(item, None), rest))
}
