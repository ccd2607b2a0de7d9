//! Numbers that are the same in every run (xorshift64*).

pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 33) as usize) % limit
    }

    /// Content with repetitions at all distances, some of which are far.
    pub fn content(&mut self, length: usize) -> Vec<u8> {
        let mut content = Vec::with_capacity(length + 512);
        while content.len() < length {
            if content.len() > 16 && self.below(3) > 0 {
                let start = self.below(content.len());
                let end = (start + 1 + self.below(200)).min(content.len());
                content.extend_from_within(start..end);
            } else {
                let count = 1 + self.below(30);
                content.extend((0..count).map(|_| self.next() as u8));
            }
        }
        content.truncate(length);
        content
    }
}
