//! Takes options from the query of an address.

/// Removes the option `name` from an address; `name` ends with `=`. Returns the address without the option, and the value of
/// the option, `None` if the address does not have it.
///
/// # Errors
/// The address has the option twice.
pub(super) fn take_option<'a>(address: &'a str, name: &str) -> Result<(String, Option<&'a str>), String> {
    let Some((place, options)) = address.split_once('?') else { return Ok((address.to_owned(), None)) };
    let (ours, others): (Vec<&str>, Vec<&str>) = options.split('&').partition(|option| option.starts_with(name));
    let value = match ours[..] {
        [] => return Ok((address.to_owned(), None)),
        [option] => &option[name.len()..],
        _ => return Err(format!("expected {name} once")),
    };
    let rest = if others.is_empty() { place.to_owned() } else { format!("{place}?{}", others.join("&")) };
    Ok((rest, Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_taken_from_between_others() {
        for (address, rest, value) in [
            (":1", ":1", None),
            (":1?b=2", ":1?b=2", None),
            (":1?a=1", ":1", Some("1")),
            ("/p?b=2&a=1/8,::1&c=3", "/p?b=2&c=3", Some("1/8,::1")),
            (":1?a=", ":1", Some("")),
        ] {
            assert_eq!(take_option(address, "a="), Ok((rest.to_owned(), value)), "{address}");
        }
        assert_eq!(take_option(":1?a=1&a=2", "a="), Err("expected a= once".to_owned()));
    }
}
