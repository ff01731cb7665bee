//! Conversions between f32 and the two 16-bit floats: of one, in integer arithmetic that vectorises on every level; of many
//! f16, by the instructions for that where the level has them.

use tensor_core::{bf16, f16};

use crate::isa::Isa;

/// Widens an f16: exact.
#[inline(always)]
pub fn f16_to_f32(value: f16) -> f32 {
    let bits = value.to_bits() as u32;
    let magnitude = (bits & 0x7fff) << 13;
    // The product rebiases the exponent, subnormals included; infinities and NaNs keep their pattern.
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = magnitude | 0x7f80_0000;
    let magnitude = if magnitude >= 0x0f80_0000 { special } else { scaled };
    f32::from_bits(magnitude | (bits & 0x8000) << 16)
}

/// Rounds to the nearest f16, ties to even.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> f16 {
    const INFINITY: u32 = 0x7f80_0000;
    /// 65536 and above overflow; what lies below it rounds correctly by itself.
    const OVERFLOW: u32 = (127 + 16) << 23;
    const NORMAL: u32 = (127 - 14) << 23;
    /// 0.5: adding it aligns a subnormal f16's bits with the end of the significand.
    const ALIGN: u32 = (127 - 15 + 23 - 10 + 1) << 23;
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let special = if magnitude > INFINITY { 0x7e00 } else { 0x7c00 };
    let subnormal = (f32::from_bits(magnitude) + f32::from_bits(ALIGN)).to_bits().wrapping_sub(ALIGN);
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_add(0xc800_0fffu32.wrapping_add(odd)) >> 13;
    let finite = if magnitude < NORMAL { subnormal } else { normal };
    let magnitude = if magnitude >= OVERFLOW { special } else { finite };
    f16::from_bits((magnitude | (bits >> 16) & 0x8000) as u16)
}

/// [`f16_to_f32`], by the instruction where the level has it: a loop of these becomes one of vectors.
#[inline(always)]
pub fn widened<I: Isa>(value: f16) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if I::LEVEL >= crate::isa::Level::V3 {
        // SAFETY: `Isa::run` checked that the machine has the level's features.
        return unsafe { x86::widened(value) };
    }
    f16_to_f32(value)
}

/// [`f16_to_f32`] of `n` numbers.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of as many; they lie apart. Neither needs to be aligned.
#[inline(always)]
pub unsafe fn widen<I: Isa>(from: *const f16, to: *mut f32, n: usize) {
    #[allow(unused_mut, reason = "other machines have no such instructions")]
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if I::LEVEL >= crate::isa::Level::V3 {
        done = n - n % 8;
        // SAFETY: forwarded from the caller; `Isa::run` checked that the machine has the level's features.
        unsafe { x86::widen(from, to, done) };
    }
    for i in done..n {
        // SAFETY: forwarded from the caller.
        unsafe { to.add(i).write_unaligned(f16_to_f32(from.add(i).read_unaligned())) };
    }
}

/// [`f32_to_f16`] of `n` numbers; what is no number keeps the first bits of its payload.
///
/// # Safety
/// As [`widen`].
#[inline(always)]
pub unsafe fn narrow<I: Isa>(from: *const f32, to: *mut f16, n: usize) {
    #[allow(unused_mut, reason = "other machines have no such instructions")]
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if I::LEVEL >= crate::isa::Level::V3 {
        done = n - n % 8;
        // SAFETY: forwarded from the caller; `Isa::run` checked that the machine has the level's features.
        unsafe {
            // By the width of the registers, so that what is in them need not go through memory.
            if I::LEVEL >= crate::isa::Level::V4 && n.is_multiple_of(16) {
                x86::narrow16(from, to, n);
            } else {
                x86::narrow(from, to, done);
            }
        }
    }
    for i in done..n {
        // SAFETY: forwarded from the caller.
        unsafe { to.add(i).write_unaligned(f32_to_f16(from.add(i).read_unaligned())) };
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use tensor_core::f16;

    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

    /// # Safety
    /// The machine has F16C.
    #[inline]
    #[target_feature(enable = "avx,f16c")]
    pub(super) unsafe fn widened(value: f16) -> f32 {
        _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(value.to_bits().into())))
    }

    /// # Safety
    /// As [`super::widen`], with `n` a multiple of 8, on a machine that has F16C.
    #[inline]
    #[target_feature(enable = "avx,f16c")]
    pub(super) unsafe fn widen(from: *const f16, to: *mut f32, n: usize) {
        for i in (0..n).step_by(8) {
            // SAFETY: forwarded from the caller: eight numbers from `i` on.
            unsafe { _mm256_storeu_ps(to.add(i), _mm256_cvtph_ps(_mm_loadu_si128(from.add(i).cast()))) };
        }
    }

    /// # Safety
    /// As [`widen`].
    #[inline]
    #[target_feature(enable = "avx,f16c")]
    pub(super) unsafe fn narrow(from: *const f32, to: *mut f16, n: usize) {
        for i in (0..n).step_by(8) {
            // SAFETY: as above.
            unsafe { _mm_storeu_si128(to.add(i).cast(), _mm256_cvtps_ph::<NEAREST>(_mm256_loadu_ps(from.add(i)))) };
        }
    }

    /// # Safety
    /// As [`widen`], with `n` a multiple of 16, on a machine that has AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn narrow16(from: *const f32, to: *mut f16, n: usize) {
        for i in (0..n).step_by(16) {
            // SAFETY: forwarded from the caller: sixteen numbers from `i` on.
            unsafe { _mm256_storeu_si256(to.add(i).cast(), _mm512_cvtps_ph::<NEAREST>(_mm512_loadu_ps(from.add(i)))) };
        }
    }
}

/// Widens a bf16: exact.
#[inline(always)]
pub fn bf16_to_f32(value: bf16) -> f32 {
    f32::from_bits((value.to_bits() as u32) << 16)
}

/// Rounds to the nearest bf16, ties to even. Every NaN becomes the quiet one, as in PyTorch.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> bf16 {
    // Selected before the rounding: a selection of 16-bit numbers takes narrower vectors, and packs the comparison as well.
    let bits = if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
    bf16::from_bits((bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::with_level;

    #[test]
    fn many_convert_as_one_does() {
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let floats: Vec<f32> = (0..=u16::MAX)
            .flat_map(|x| [0, 0x7fff, 0x8000, 0x8001, 0xfff].map(|y| (x as u32) << 16 | y))
            .map(f32::from_bits)
            .collect();
        for n in [0, 1, 7, 8, 9, 1000, halves.len()] {
            with_level!(I => I::run(|| {
                let (mut wide, mut back) = (vec![0f32; n], vec![f16::ZERO; n]);
                // SAFETY: both have `n` elements.
                unsafe { widen::<I>(halves.as_ptr(), wide.as_mut_ptr(), n) };
                assert!(wide.iter().zip(&halves).all(|(w, h)| w.to_bits() | 0x40_0000 == f16_to_f32(*h).to_bits() | 0x40_0000 || (w.is_finite() && *w == f16_to_f32(*h))));
                let floats = &floats[floats.len() - n..];
                // SAFETY: as above.
                unsafe { narrow::<I>(floats.as_ptr(), back.as_mut_ptr(), n) };
                assert!(back.iter().zip(floats).all(|(h, w)| h.to_bits() == f32_to_f16(*w).to_bits() || (h.is_nan() && w.is_nan())));
            }));
        }
    }

    #[test]
    fn every_f16_and_bf16_survives() {
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert_eq!(f16_to_f32(h).to_bits() & !0x40_0000, h.to_f32().to_bits() & !0x40_0000, "{bits:x}");
            assert_eq!(bf16_to_f32(b).to_bits(), (bits as u32) << 16);
            if !h.is_nan() {
                assert_eq!(f32_to_f16(f16_to_f32(h)).to_bits(), bits);
            }
            if !b.is_nan() {
                assert_eq!(f32_to_bf16(bf16_to_f32(b)).to_bits(), bits);
            }
        }
    }

    #[test]
    fn rounding_is_to_the_nearest_even() {
        for i in 0..2_000_000u32 {
            let x = f32::from_bits(i.wrapping_mul(2_654_435_761));
            if x.is_nan() {
                assert!(f32_to_f16(x).is_nan() && f32_to_bf16(x).is_nan());
            } else {
                assert_eq!(f32_to_f16(x).to_bits(), f16::from_f32(x).to_bits(), "{x:e}");
                assert_eq!(f32_to_bf16(x).to_bits(), bf16::from_f32(x).to_bits(), "{x:e}");
            }
        }
    }
}
