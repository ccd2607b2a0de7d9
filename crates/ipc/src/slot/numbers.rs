//! Numbers for tests, the same in every run (xorshift64*).

pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) const fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(super) const fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit
    }

    /// Random bytes, fewer than `limit`.
    pub(super) fn text(&mut self, limit: usize) -> Vec<u8> {
        (0..self.below(limit)).map(|_| self.next() as u8).collect()
    }
}
