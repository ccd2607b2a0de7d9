//! Finds equal names among many without comparing every pair.

/// Sorts `numbers` by their names, and numbers with equal names by themselves. Yields each group of at least two numbers that
/// share a name.
pub fn equal_names<'n, 'b>(numbers: &'n mut [u32], name: impl Fn(u32) -> &'b [u8]) -> impl Iterator<Item = &'n [u32]> {
    numbers.sort_unstable_by(|&one, &other| name(one).cmp(name(other)).then(one.cmp(&other)));
    let numbers: &'n [u32] = numbers;
    numbers.chunk_by(move |&one, &other| name(one) == name(other)).filter(|group| group.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use core::cell::Cell;

    #[test]
    fn names_that_stand_several_times_are_found_in_order() {
        let names: [&[u8]; 7] = [b"b", b"a", b"", b"b", b"ab", b"a", b"b"];
        let mut numbers: Vec<u32> = (0..7).collect();
        let groups: Vec<&[u32]> = equal_names(&mut numbers, |number| names[number as usize]).collect();
        assert_eq!(groups, [&[1, 5][..], &[0, 3, 6]]);
    }

    #[test]
    fn many_names_are_compared_far_less_often_than_in_pairs() {
        let names: Vec<[u8; 4]> = (0..65536_u32).map(|number| number.wrapping_mul(0x9e37_79b9).to_be_bytes()).collect();
        let mut numbers: Vec<u32> = (0..65536).collect();
        let looks = Cell::new(0_usize);
        let name = |number: u32| {
            looks.set(looks.get() + 1);
            &names[number as usize][..]
        };
        assert_eq!(equal_names(&mut numbers, name).count(), 0);
        // Two reads of a name for each comparison, with about n * log n comparisons.
        assert!(looks.get() < 65536 * 16 * 4, "{}", looks.get());
    }
}
