//! One directive of a pattern: `%h`, `%{Referer}i`, `%!200{ms}T`, or `%(addr)`.

use super::{AccessItem as Item, Found, Instant, Statuses, TimeForm, Unit};

/// The letters of strftime that are known.
const CALENDAR: &str = "%aAbBdeFhHImMprRStTyYzZ";

/// Reads one of Apache's from the beginning of `text`, which is a `%`; returns what follows it, too.
///
/// # Errors
/// Says what is not understood.
pub(super) fn directive(text: &str) -> Result<(Found, &str), String> {
    let (statuses, text) = statuses(&text[1..])?;
    // Apache tells by these whether the first or the last of several internal requests is meant. There is only one here.
    let mut rest = text.trim_start_matches(['<', '>']);
    let mut argument = None;
    if let Some(inner) = rest.strip_prefix('{') {
        let (inside, behind) = inner.split_once('}').ok_or("there is no } behind the {")?;
        (argument, rest) = (Some(inside), behind);
    }
    let letter = rest.chars().next().ok_or("a letter is missing behind it; write %% for a %")?;
    let item = match (letter, argument) {
        ('o', Some(name)) => Found::ResponseField(field_name(name)?, statuses),
        ('l' | 'u', None) => Found::Nothing,
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
        'm' => Item::Method,
        'p' => Item::ServerPort,
        'P' => Item::Process,
        'q' => Item::Query,
        'r' => Item::RequestLine,
        's' => Item::Status,
        't' => Item::Time(Instant::Begin, TimeForm::Common),
        'T' => Item::Duration(Unit::Seconds),
        'U' => Item::Path,
        'v' => Item::ServerName,
        'V' => Item::Host,
        'C' | 'i' | 'o' => return Err(format!("expected a name, as in %{{Name}}{letter}")),
        _ => {
            let known = "%a %b %B %D %h %H %l %m %p %P %q %r %s %t %T %u %U %v %V, and %{...} before C i o t T";
            return Err(format!("%{letter} is not known; known are {known}"));
        }
    })
}

fn with_argument(letter: char, argument: &str) -> Result<Item, String> {
    Ok(match letter {
        'i' => Item::RequestField(field_name(argument)?),
        'C' => Item::Cookie(field_name(argument)?),
        'T' => Item::Duration(unit(argument)?),
        't' => time(argument)?,
        _ => return Err(format!("%{{{argument}}}{letter} is not known; %{{...}} may stand before C i o t T")),
    })
}

fn unit(text: &str) -> Result<Unit, String> {
    match text {
        "s" => Ok(Unit::Seconds),
        "ms" => Ok(Unit::Milliseconds),
        "us" => Ok(Unit::Microseconds),
        _ => Err("the units of %{...}T are s, ms and us".to_owned()),
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
                // Two in a row are one.
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

/// Reads the statuses before a letter: `400,501` or `!200`.
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

/// A name as it is looked for: in lower case.
fn field_name(text: &str) -> Result<Vec<u8>, String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_token) {
        return Err(format!("{text:?} cannot be a name"));
    }
    Ok(text.to_ascii_lowercase().into_bytes())
}

/// Reads one of uWSGI's from the beginning of `text`, which is a `%(`; returns what follows it, too.
///
/// # Errors
/// Says what is not understood.
pub(super) fn named(text: &str) -> Result<(Found, &str), String> {
    let (name, rest) = text[2..].split_once(')').ok_or("there is no ) behind the (")?;
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
        "user" => return Ok((Found::Nothing, rest)),
        _ => match name.strip_prefix("var.HTTP_") {
            Some(name) => Item::RequestField(field_name(&name.replace('_', "-"))?),
            None => {
                let known = "addr cl epoch host ltime method micros msecs pid proto referer rsize secs status time tmicros \
                             tmsecs uagent uri user, and var.HTTP_ with the name of a field";
                return Err(format!("%({name}) is not known; known are {known}"));
            }
        },
    };
    Ok((Found::Item(item, None), rest))
}
