//! Normal numbers in blocks of 16: what `normal_` and `randn` draw for 16 elements and more.
//!
//! Of a block's uniform numbers the first 8 give the radii and the last 8 the angles of Box and Muller's method; cosines
//! go to the first half, sines to the second. Single draws are in [`super::draw`].

use num_traits::Zero;

use super::GeneratorState;
use super::draw::{Compute, Real};

/// Elements that are made at once: enough for loops to vectorise, few enough for the stack.
const CHUNK: usize = 256;

impl GeneratorState {
    /// Fills a slice with normal numbers: in blocks from 16 elements on, below that one by one with the kept number.
    ///
    /// A tensor that is not contiguous is filled one by one whatever its size: use [`GeneratorState::normal`].
    #[inline(always)]
    pub fn normal_fill<T: Real>(&mut self, out: &mut [T], mean: f64, std: f64) {
        if out.len() < 16 {
            for x in out {
                *x = T::from_f64(self.normal(mean, std));
            }
            return;
        }
        self.normal_blocks(out.len(), mean, std, |at, made: &[T]| out[at..at + made.len()].copy_from_slice(made));
    }

    /// `n >= 16` normal numbers in blocks: `put(at, made)` stores the next ones at `at..at + made.len()`.
    ///
    /// If 16 does not divide `n`, the last block lies at `n - 16` and is stored over the end of the one before.
    /// Fewer than 16 numbers have no blocks: nothing is drawn. Inlined into its caller, so that a kernel compiled for
    /// wider vectors (and for FMA, which f32 needs) computes with them.
    #[inline(always)]
    pub fn normal_blocks<T: Real>(&mut self, n: usize, mean: f64, std: f64, mut put: impl FnMut(usize, &[T])) {
        if n < 16 {
            return;
        }
        let (mean, std) = (T::Acc::from_double(mean), T::Acc::from_double(std));
        let whole = n - n % 16;
        let chunks = (0..whole).step_by(CHUNK).map(|at| (at, CHUNK.min(whole - at), 0));
        // The tail's own uniform numbers are drawn, and then replaced by new ones for the whole last block.
        let dropped = if T::DRAWS_TAIL_TWICE { n - whole } else { 0 };
        let last = (n > whole).then_some((n - 16, 16, dropped));
        let zero = T::Acc::zero();
        for (at, len, dropped) in chunks.chain(last) {
            let mut made = [zero; CHUNK];
            for len in [dropped, len] {
                T::Acc::units_fill(
                    self,
                    &mut made[..len],
                    #[inline(always)]
                    |unit| unit,
                );
            }
            T::Acc::normal_blocks(&mut made[..len], mean, std);
            let mut rounded = [T::narrow(zero); CHUNK];
            for i in 0..len {
                rounded[i] = T::narrow(made[i]);
            }
            put(at, &rounded[..len]);
        }
    }
}

/// The blocks of f64, through the standard library's functions.
#[inline(always)]
pub(super) fn blocks_f64(data: &mut [f64], mean: f64, std: f64) {
    for block in data.chunks_exact_mut(16) {
        for j in 0..8 {
            let radius = (-2.0 * (1.0 - block[j]).ln()).sqrt();
            let (sin, cos) = (2.0 * std::f64::consts::PI * block[j + 8]).sin_cos();
            block[j] = (radius * cos).mul_add(std, mean);
            block[j + 8] = (radius * sin).mul_add(std, mean);
        }
    }
}

/// The blocks of f32, which PyTorch computes with Cephes' single-precision polynomials and fused multiply-adds.
///
/// Every step is one rounded operation, so the bits are the same at any vector width.
#[inline(always)]
pub(super) fn blocks_f32(data: &mut [f32], mean: f32, std: f32) {
    const HALF: usize = CHUNK / 2;
    // No iterators: in a kernel that is compiled for wider vectors their functions would be calls.
    for chunk in data.chunks_mut(CHUNK) {
        let (mut first, mut second) = ([0f32; HALF], [0f32; HALF]);
        let blocks = chunk.as_chunks_mut::<16>().0;
        for i in 0..blocks.len() {
            for j in 0..8 {
                (first[8 * i + j], second[8 * i + j]) = (blocks[i][j], blocks[i][8 + j]);
            }
        }
        for i in 0..8 * blocks.len() {
            let radius = (-2.0 * ln(1.0 - first[i])).sqrt();
            let (sin, cos) = sin_cos(2.0 * std::f32::consts::PI * second[i]);
            first[i] = (radius * cos).mul_add(std, mean);
            second[i] = (radius * sin).mul_add(std, mean);
        }
        for i in 0..blocks.len() {
            for j in 0..8 {
                (blocks[i][j], blocks[i][8 + j]) = (first[8 * i + j], second[8 * i + j]);
            }
        }
    }
}

/// a + x (b + x (c + ..)), the highest power first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut y = coefficients[0];
    for &c in &coefficients[1..] {
        y = y.mul_add(x, c);
    }
    y
}

/// Cephes' `logf` for normal positive numbers: a polynomial on [sqrt(1/2), sqrt(2)), plus the exponent times ln 2.
#[allow(clippy::excessive_precision)] // Cephes' decimals
#[inline(always)]
fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    let mantissa = f32::from_bits((bits & 0x007f_ffff) | 0x3f00_0000);
    let exponent = (bits >> 23) as i32 - 126;
    let small = mantissa < std::f32::consts::FRAC_1_SQRT_2;
    let e = exponent as f32 - if small { 1.0 } else { 0.0 };
    let x = (mantissa - 1.0) + if small { mantissa } else { 0.0 };
    let z = x * x;
    let mut y = polynomial(
        x,
        [
            7.037_683_629_2e-2,
            -1.151_461_031_0e-1,
            1.167_699_874_0e-1,
            -1.242_014_084_6e-1,
            1.424_932_278_7e-1,
            -1.666_805_766_5e-1,
            2.000_071_476_5e-1,
            -2.499_999_399_3e-1,
            3.333_333_117_4e-1,
        ],
    );
    y = (y * x).mul_add(z, e * -2.121_944_40e-4);
    y = z.mul_add(-0.5, y);
    e.mul_add(0.693_359_375, x + y)
}

/// Cephes' `sinf` and `cosf` for numbers in [0, 8): the octant's polynomials on [-pi/4, pi/4].
#[allow(clippy::excessive_precision)] // Cephes' decimals
#[inline(always)]
fn sin_cos(x: f32) -> (f32, f32) {
    /// Adding it rounds a number below 2^22 to a whole one, which then stands in the low bits.
    const WHOLE: f32 = (1 << 23) as f32;
    const FOUR_OVER_PI: f32 = 2.0 * std::f32::consts::FRAC_2_PI;
    let y = x * FOUR_OVER_PI;
    let nearest = (y + WHOLE) - WHOLE;
    let octant = (nearest - if nearest > y { 1.0 } else { 0.0 } + WHOLE).to_bits().wrapping_add(1) & 0xe;
    let y = octant as i32 as f32;
    // pi / 4 in three parts.
    let parts = [-0.785_156_25, -2.418_756_484_985_351_6e-4, -3.774_894_977_445_941e-8];
    let r = y.mul_add(parts[2], y.mul_add(parts[1], y.mul_add(parts[0], x)));
    let z = r * r;
    let cos = polynomial(z, [2.443_315_711_809_948e-5, -1.388_731_625_493_765e-3, 4.166_664_568_298_827e-2]) * z;
    let cos = cos.mul_add(z, -(z * 0.5)) + 1.0;
    let sin = polynomial(z, [-1.951_529_589_1e-4, 8.332_160_873_6e-3, -1.666_665_461_1e-1]) * z;
    let sin = sin.mul_add(r, r);
    let swap = octant & 2 != 0;
    let (s, c) = if swap { (cos, sin) } else { (sin, cos) };
    let sign = |value: f32, flip: u32| f32::from_bits(value.to_bits() ^ (flip << 29));
    (sign(s, octant & 4), sign(c, !octant.wrapping_sub(2) & 4))
}
