//! Marks as words of bits, and the marked elements of rows side by side: what masks, `nonzero` and partitions of indices
//! need. The highest level has instructions for it; elsewhere each element is written where the next marked one belongs.

use tensor_core::Element;

use crate::isa::{Isa, Level};

/// Marks of a word.
pub const WORD: usize = u64::BITS as usize;

/// The bits of some marks: bit i is set unless mark i is zero.
#[inline(always)]
pub fn word<I: Isa>(marks: &[u8; WORD]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if I::LEVEL == Level::V4 {
        // SAFETY: the caller runs at level `I`, so the machine has the instructions.
        return unsafe { v4::word(marks) };
    }
    let mut ones = [0; WORD];
    for i in 0..WORD {
        ones[i] = u8::from(marks[i] != 0);
    }
    let mut word = 0;
    for (i, &eight) in ones.as_chunks::<8>().0.iter().enumerate() {
        // Each one is moved to the place that it has in the high byte; no other product reaches that.
        word |= (u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
    }
    word
}

/// Writes the elements of `x` that `words` mark to `out`, in order, until it is full.
#[inline(always)]
pub fn compress<I: Isa, T: Element>(out: &mut [T], x: &[T], words: &[u64]) {
    #[cfg(target_arch = "x86_64")]
    if I::LEVEL == Level::V4 && size_of::<T>() <= 8 {
        // SAFETY: as in `word`.
        return unsafe { v4::compress(out, x, words) };
    }
    let mut at = 0;
    for (x, &word) in x.chunks(WORD).zip(words) {
        for (i, &x) in x.iter().enumerate() {
            if let Some(out) = out.get_mut(at) {
                *out = x;
            }
            at += (word >> i & 1) as usize;
        }
    }
}

/// Writes the numbers from `first` on that `words` mark to `out`, in order, until it is full.
#[inline(always)]
pub fn compress_numbers<I: Isa>(out: &mut [i64], first: i64, words: &[u64]) {
    #[cfg(target_arch = "x86_64")]
    if I::LEVEL == Level::V4 {
        // SAFETY: as in `word`.
        return unsafe { v4::compress_numbers(out, first, words) };
    }
    let mut at = 0;
    for (k, &word) in words.iter().enumerate() {
        let first = first + (k * WORD) as i64;
        let mut left = word;
        while left != 0 {
            if let Some(out) = out.get_mut(at) {
                *out = first + i64::from(left.trailing_zeros());
            }
            left &= left - 1;
            at += 1;
        }
    }
}

/// The reverse of [`compress`]: elements of `source`, in order, replace those of `out` that `words` mark.
#[inline(always)]
pub fn expand<I: Isa, T: Element>(out: &mut [T], source: &[T], words: &[u64]) {
    #[cfg(target_arch = "x86_64")]
    if I::LEVEL == Level::V4 && matches!(size_of::<T>(), 4 | 8) {
        // SAFETY: as in `word`.
        return unsafe { v4::expand(out, source, words) };
    }
    let mut at = 0;
    for (out, &word) in out.chunks_mut(WORD).zip(words) {
        for (i, out) in out.iter_mut().enumerate() {
            let marked = word >> i & 1 != 0;
            let next = source.get(at).copied().unwrap_or(*out);
            *out = if marked { next } else { *out };
            at += usize::from(marked);
        }
    }
}

/// Places that [`within`] looks at together.
pub const PLACES: usize = 256;

/// Writes the numbers of those places that lie in `low..low + len` to `found`, in order; gives how many.
#[inline(always)]
pub fn within<I: Isa>(found: &mut [u32; PLACES], places: &[i64], low: usize, len: usize) -> usize {
    let places = &places[..places.len().min(PLACES)];
    #[cfg(target_arch = "x86_64")]
    if I::LEVEL == Level::V4 {
        // SAFETY: as in `word`.
        return unsafe { v4::within(found, places, low, len) };
    }
    let mut n = 0;
    for (i, &place) in places.iter().enumerate() {
        found[n % PLACES] = i as u32;
        n += usize::from((place as usize).wrapping_sub(low) < len);
    }
    n
}

/// The instructions of the highest level. Every function needs them.
#[cfg(target_arch = "x86_64")]
mod v4 {
    use std::arch::x86_64::*;

    use tensor_core::Element;

    use super::{PLACES, WORD};

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub fn word(marks: &[u8; WORD]) -> u64 {
        // SAFETY: an array of 64 bytes.
        let marks = unsafe { _mm512_loadu_epi8(marks.as_ptr().cast()) };
        _mm512_test_epi8_mask(marks, marks)
    }

    /// As many set bits.
    #[inline(always)]
    fn ones(n: usize) -> u64 {
        if n >= 64 { !0 } else { (1 << n) - 1 }
    }

    /// `n <= 64 / size` elements of 1, 2, 4 or 8 bytes, as lanes of 4 or 8 bytes.
    ///
    /// # Safety
    /// `from` is valid for reads of `n` elements.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load<T>(from: *const T, n: usize) -> __m512i {
        let lanes = ones(n);
        // SAFETY: lanes beyond `n` are not read. Whole steps take the shorter way.
        unsafe {
            match size_of::<T>() {
                1 if n == 16 => _mm512_cvtepu8_epi32(_mm_loadu_epi8(from.cast())),
                2 if n == 16 => _mm512_cvtepu16_epi32(_mm256_loadu_epi16(from.cast())),
                4 if n == 16 => _mm512_loadu_epi32(from.cast()),
                8 if n == 8 => _mm512_loadu_epi64(from.cast()),
                1 => _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes as u16, from.cast())),
                2 => _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes as u16, from.cast())),
                4 => _mm512_maskz_loadu_epi32(lanes as u16, from.cast()),
                _ => _mm512_maskz_loadu_epi64(lanes as u8, from.cast()),
            }
        }
    }

    /// The reverse of [`load`].
    ///
    /// # Safety
    /// `to` is valid for writes of `n` elements.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn store<T>(to: *mut T, n: usize, value: __m512i) {
        let lanes = ones(n);
        // SAFETY: lanes beyond `n` are not written. Whole steps take the shorter way.
        unsafe {
            match size_of::<T>() {
                1 if n == 16 => _mm_storeu_epi8(to.cast(), _mm512_cvtepi32_epi8(value)),
                2 if n == 16 => _mm256_storeu_epi16(to.cast(), _mm512_cvtepi32_epi16(value)),
                4 if n == 16 => _mm512_storeu_epi32(to.cast(), value),
                8 if n == 8 => _mm512_storeu_epi64(to.cast(), value),
                1 => _mm_mask_storeu_epi8(to.cast(), lanes as u16, _mm512_cvtepi32_epi8(value)),
                2 => _mm256_mask_storeu_epi16(to.cast(), lanes as u16, _mm512_cvtepi32_epi16(value)),
                4 => _mm512_mask_storeu_epi32(to.cast(), lanes as u16, value),
                _ => _mm512_mask_storeu_epi64(to.cast(), lanes as u8, value),
            }
        }
    }

    /// Elements of a step.
    const fn lanes<T>() -> usize {
        if size_of::<T>() == 8 { 8 } else { 16 }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
    pub fn compress<T: Element>(out: &mut [T], x: &[T], words: &[u64]) {
        let step = const { lanes::<T>() };
        let mut at = 0;
        for (x, &word) in x.chunks(WORD).zip(words) {
            for (i, x) in x.chunks(step).enumerate() {
                let marks = word >> (i * step) & ones(x.len());
                // SAFETY: `x` has `x.len() <= step` elements.
                let value = unsafe { load(x.as_ptr(), x.len()) };
                let value = match step {
                    8 => _mm512_maskz_compress_epi64(marks as u8, value),
                    _ => _mm512_maskz_compress_epi32(marks as u16, value),
                };
                let room = out.len() - at;
                // What lies beyond the marked ones is written again by the next step.
                // SAFETY: at most as many elements as there is room for.
                unsafe { store(out.as_mut_ptr().add(at), room.min(step), value) };
                at += room.min(marks.count_ones() as usize);
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
    pub fn compress_numbers(out: &mut [i64], first: i64, words: &[u64]) {
        let mut at = 0;
        let mut numbers = _mm512_add_epi64(_mm512_set1_epi64(first), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
        for &word in words {
            for marks in word.to_le_bytes() {
                let room = out.len() - at;
                // SAFETY: at most as many elements as there is room for.
                unsafe {
                    store(out.as_mut_ptr().add(at), room.min(8), _mm512_maskz_compress_epi64(marks, numbers));
                }
                at += room.min(marks.count_ones() as usize);
                numbers = _mm512_add_epi64(numbers, _mm512_set1_epi64(8));
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
    pub fn expand<T: Element>(out: &mut [T], source: &[T], words: &[u64]) {
        let step = const { lanes::<T>() };
        let mut at = 0;
        for (out, &word) in out.chunks_mut(WORD).zip(words) {
            for (i, out) in out.chunks_mut(step).enumerate() {
                let left = source.len() - at;
                let marks = word >> (i * step) & ones(out.len());
                // SAFETY: `left` elements are left of the source, and `out` has `out.len() <= step`.
                unsafe {
                    let next = load(source.as_ptr().add(at), left.min(step));
                    let old = load(out.as_ptr(), out.len());
                    let new = match step {
                        8 => _mm512_mask_expand_epi64(old, marks as u8, next),
                        _ => _mm512_mask_expand_epi32(old, marks as u16, next),
                    };
                    store(out.as_mut_ptr(), out.len(), new);
                }
                at += left.min(marks.count_ones() as usize);
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt")]
    pub fn within(found: &mut [u32; PLACES], places: &[i64], low: usize, len: usize) -> usize {
        let (low, len) = (_mm512_set1_epi64(low as i64), _mm512_set1_epi64(len as i64));
        let mut numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let mut n = 0;
        for places in places.chunks(8) {
            // SAFETY: a chunk of `places.len() <= 8` elements; so many numbers at most were found in the chunks before that
            // all eight fit, since there are no more than `PLACES` places.
            unsafe {
                let at = _mm512_sub_epi64(load(places.as_ptr(), places.len()), low);
                let marks = _mm512_cmplt_epu64_mask(at, len) & super::v4::ones(places.len()) as u8;
                _mm256_storeu_epi32(found.as_mut_ptr().add(n).cast(), _mm256_maskz_compress_epi32(marks, numbers));
                n += marks.count_ones() as usize;
            }
            numbers = _mm256_add_epi32(numbers, _mm256_set1_epi32(8));
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Baseline, V3, V4, level};

    /// Marks without a pattern, about a third of them set.
    fn marks(n: usize) -> Vec<bool> {
        let mut state = n as u32 + 1;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 16 & 3 == 0
            })
            .collect()
    }

    fn words<I: Isa>(marks: &[bool]) -> Vec<u64> {
        marks
            .chunks(WORD)
            .map(|chunk| {
                let mut bytes = [0; WORD];
                bytes.iter_mut().zip(chunk).enumerate().for_each(|(i, (byte, &m))| *byte = u8::from(m) * (i as u8 | 1));
                I::run(|| word::<I>(&bytes))
            })
            .collect()
    }

    fn check_elements<I: Isa, T: Element>(of: impl Fn(usize) -> T) {
        for n in [0, 1, 7, 63, 64, 65, 130, 400] {
            let marks = marks(n);
            let words = words::<I>(&marks);
            let x: Vec<T> = (0..n).map(&of).collect();
            let wanted: Vec<T> = (0..n).filter(|&i| marks[i]).map(&of).collect();
            let mut out = vec![of(1000); wanted.len()];
            I::run(|| compress::<I, T>(&mut out, &x, &words));
            assert_eq!(out, wanted);
            let mut all = vec![of(999); n];
            I::run(|| expand::<I, T>(&mut all, &wanted, &words));
            assert!((0..n).all(|i| all[i] == if marks[i] { of(i) } else { of(999) }));
        }
    }

    fn check<I: Isa>() {
        check_elements::<I, u8>(|i| i as u8);
        check_elements::<I, i16>(|i| i as i16);
        check_elements::<I, f32>(|i| i as f32);
        check_elements::<I, i64>(|i| i as i64);
        check_elements::<I, tensor_core::Complex64>(|i| tensor_core::Complex64::new(i as f64, -1.0));
        for n in [0, 5, 64, 200] {
            let marks = marks(n);
            let wanted: Vec<i64> = (0..n).filter(|&i| marks[i]).map(|i| i as i64 + 7).collect();
            let mut out = vec![0; wanted.len()];
            I::run(|| compress_numbers::<I>(&mut out, 7, &words::<I>(&marks)));
            assert_eq!(out, wanted);
        }
        for n in [0, 3, 8, 250, PLACES] {
            let places: Vec<i64> = (0..n as i64).map(|i| i * 37 % 101).collect();
            for (low, len) in [(0, 101), (20, 30), (90, 0), (0, 1)] {
                let mut found = [0; PLACES];
                let count = I::run(|| within::<I>(&mut found, &places, low, len));
                let wanted: Vec<u32> =
                    (0..n as u32).filter(|&i| (low..low + len).contains(&(places[i as usize] as usize))).collect();
                assert_eq!(found[..count], wanted);
            }
        }
    }

    #[test]
    fn every_level_finds_the_marked() {
        check::<Baseline>();
        if level() >= Level::V3 {
            check::<V3>();
        }
        if level() >= Level::V4 {
            check::<V4>();
        }
    }
}
