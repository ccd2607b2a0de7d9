//! Numbers with their nouns, for messages.

/// `1 worker`, `2 workers`: for nouns whose plural ends in `s`.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|number| super::counted(number, "worker")), ["0 workers", "1 worker", "2 workers"]);
    }
}
