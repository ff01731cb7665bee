//! [`Mt19937`]: the Mersenne twister of Matsumoto and Nishimura, 624 draws at a time. Bits only, no distributions.

/// Words of state.
const N: usize = 624;
/// The distance of the word that each new word is mixed with.
const M: usize = 397;
/// `next` of an engine that was seeded and not drawn from.
const FRESH: usize = N + 1;

/// The engine. It tempers a whole block when it makes one, so that a draw is a load.
#[derive(Clone, Debug)]
pub struct Mt19937 {
    words: [u32; N],
    /// The tempered words: what is drawn.
    out: [u32; N],
    /// The next draw's index in `out`; `N` or more when the block is used up.
    next: usize,
}

impl Mt19937 {
    /// The engine of a seed.
    pub fn new(seed: u32) -> Self {
        let mut words = [seed; N];
        for i in 1..N {
            let last = words[i - 1];
            words[i] = 1_812_433_253u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(i as u32);
        }
        Self { words, out: [0; N], next: FRESH }
    }

    /// The engine of saved words and of the position that [`Mt19937::position`] gave, if they fit together.
    pub fn restore(words: [u32; N], left: u32, next: u64) -> Option<Self> {
        let next = match (left, next) {
            (1, 0) => FRESH,
            (left, next @ 1..=624) if left as u64 + next == FRESH as u64 => next as usize,
            _ => return None,
        };
        let mut engine = Self { words, out: [0; N], next };
        engine.temper();
        Some(engine)
    }

    /// The raw words.
    pub fn words(&self) -> &[u32; N] {
        &self.words
    }

    /// How many draws are left before a new block is due, plus one, and the next draw's index, as PyTorch counts them.
    pub fn position(&self) -> (u32, u32) {
        if self.next == FRESH { (1, 0) } else { ((FRESH - self.next) as u32, self.next as u32) }
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.next >= N {
            self.refill();
        }
        let draw = self.out[self.next];
        self.next += 1;
        draw
    }

    /// The next 64 bits: two draws, the first one high.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let high = self.next_u32() as u64;
        (high << 32) | self.next_u32() as u64
    }

    /// Up to `most` draws, those that the block still has.
    #[inline]
    pub fn take(&mut self, most: usize) -> &[u32] {
        if self.next >= N && most > 0 {
            self.refill();
        }
        let start = self.next.min(N);
        let end = start + most.min(N - start);
        if end > start {
            self.next = end;
        }
        &self.out[start..end]
    }

    /// Up to `most` 64-bit draws as pairs of 32-bit ones: none if the block ends within the next pair.
    #[inline]
    pub fn take_pairs(&mut self, most: usize) -> &[[u32; 2]] {
        let ready = if self.next >= N { N } else { N - self.next };
        self.take(2 * most.min(ready / 2)).as_chunks().0
    }

    #[cold]
    fn refill(&mut self) {
        twist(&mut self.words);
        self.temper();
        self.next = 0;
    }

    fn temper(&mut self) {
        for (out, &word) in self.out.iter_mut().zip(&self.words) {
            let mut y = word;
            y ^= y >> 11;
            y ^= (y << 7) & 0x9d2c_5680;
            y ^= (y << 15) & 0xefc6_0000;
            *out = y ^ (y >> 18);
        }
    }
}

/// The recurrence's step: the high bit of one word, the rest of the next, and a word further on.
#[inline(always)]
fn mix(word: u32, next: u32, far: u32) -> u32 {
    let y = (word & 0x8000_0000) | (next & 0x7fff_ffff);
    far ^ (y >> 1) ^ ((y & 1).wrapping_neg() & 0x9908_b0df)
}

/// Makes the next 624 words in place. Slices without overlap let the loops vectorise.
fn twist(words: &mut [u32; N]) {
    let (low, high) = words.split_at_mut(M);
    let first_high = high[0];
    // New words 0..227 need old words 397..624.
    for i in 0..N - M {
        let next = low[i + 1];
        low[i] = mix(low[i], next, high[i]);
    }
    // New words 227..397 need the new words 0..170, and old words up to 397.
    let (done, rest) = low.split_at_mut(N - M);
    for i in 0..rest.len() {
        let next = if i + 1 < rest.len() { rest[i + 1] } else { first_high };
        rest[i] = mix(rest[i], next, done[i]);
    }
    // New words 397..623 need the new words 170..396.
    for i in 0..high.len() - 1 {
        high[i] = mix(high[i], high[i + 1], low[i + M - (N - M)]);
    }
    high[N - M - 1] = mix(high[N - M - 1], low[0], low[M - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook's loop.
    fn naive_twist(words: &mut [u32; N]) {
        for i in 0..N {
            words[i] = mix(words[i], words[(i + 1) % N], words[(i + M) % N]);
        }
    }

    #[test]
    fn the_ten_thousandth_draw_is_the_standards() {
        // [rand.predef] of the C++ standard, for the default seed 5489.
        let mut engine = Mt19937::new(5489);
        for _ in 1..10_000 {
            engine.next_u32();
        }
        assert_eq!(engine.next_u32(), 4_123_659_995);
    }

    #[test]
    fn blocks_equal_the_textbooks() {
        let mut fast = Mt19937::new(1).words;
        let mut naive = fast;
        for _ in 0..3 {
            twist(&mut fast);
            naive_twist(&mut naive);
            assert_eq!(fast, naive);
        }
    }

    #[test]
    fn taken_draws_are_the_single_ones() {
        let (mut single, mut many) = (Mt19937::new(3), Mt19937::new(3));
        assert!(many.take(0).is_empty());
        assert_eq!(many.position(), (1, 0));
        for most in [1, 600, 600, 24, 5000, 0, 7] {
            let taken = many.take(most).to_vec();
            assert!(taken.len() <= most && (most == 0 || !taken.is_empty()));
            assert!(taken.into_iter().all(|draw| draw == single.next_u32()));
            assert_eq!(many.position(), single.position());
        }
    }

    #[test]
    fn taken_pairs_are_the_single_ones() {
        let (mut single, mut many) = (Mt19937::new(3), Mt19937::new(3));
        for most in [1, 0, 200, 500, usize::MAX, 9] {
            let pairs = many.take_pairs(most).to_vec();
            assert!(pairs.len() <= most.min(N / 2));
            assert!(pairs.into_iter().flatten().all(|draw| draw == single.next_u32()));
            assert_eq!(many.next_u32(), single.next_u32());
        }
        while many.position() != (2, 623) {
            assert_eq!(many.next_u32(), single.next_u32());
        }
        assert!(many.take_pairs(5).is_empty());
        assert_eq!(many.next_u64(), single.next_u64());
    }

    #[test]
    fn positions_come_back() {
        let mut engine = Mt19937::new(3);
        for _ in 0..700 {
            let (left, next) = engine.position();
            let mut twin = Mt19937::restore(*engine.words(), left, next as u64).unwrap();
            assert_eq!(twin.next_u32(), engine.next_u32());
        }
        for (left, next) in [(0, 1), (1, 1), (2, 0), (624, 625), (u32::MAX, u64::MAX)] {
            assert!(Mt19937::restore(*engine.words(), left, next).is_none());
        }
    }
}
