//! The letters of a regular expression that mean something by themselves.

/// Returns each letter that is neither escaped nor in a class, with its place, and with the number of groups that are open before it.
pub(super) fn meaningful(expression: &str) -> impl Iterator<Item = (usize, char, usize)> {
    let (mut depth, mut is_class) = (0_usize, false);
    let mut letters = expression.char_indices();
    std::iter::from_fn(move || {
        loop {
            let (at, letter) = letters.next()?;
            let before = depth;
            match letter {
                '\\' => _ = letters.next(),
                '[' => is_class = true,
                ']' => is_class = false,
                _ if is_class => {}
                _ => {
                    match letter {
                        '(' => depth += 1,
                        ')' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    return Some((at, letter, before));
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::meaningful;

    #[test]
    fn escaped_letters_and_classes_are_left_out() {
        let found: Vec<_> = meaningful(r"a(\)[)|]b|(c))").collect();
        let expected =
            [(0, 'a', 0), (1, '(', 0), (8, 'b', 1), (9, '|', 1), (10, '(', 1), (11, 'c', 2), (12, ')', 2), (13, ')', 1)];
        assert_eq!(found, expected);
    }
}
