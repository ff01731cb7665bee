//! Single draws: uniform, whole and other random numbers, bit for bit those of PyTorch's CPU generator.
//!
//! Single draws of distributions with real parameters are f64, whatever the tensor's dtype; the caller rounds them.

use num_traits::{Float, Zero};

use super::GeneratorState;
use crate::{Bool, Element, bf16, f16};

/// The types that PyTorch computes draws in: f64 for f64 elements, else f32.
pub trait Compute: Real<Acc = Self> + Float {
    /// Bits of a draw as a number in [0, 1): 53 of 64 for f64, else 24 of 32.
    fn unit(state: &mut GeneratorState) -> Self;
    /// Rounds a double.
    fn from_double(value: f64) -> Self;
    /// Fills a slice with [`Compute::unit`], each passed through a function.
    fn units_fill<T>(state: &mut GeneratorState, out: &mut [T], f: impl Fn(Self) -> T);
    /// Turns blocks of 16 uniform numbers into normal ones; see [`super::normal`]. The length is a multiple of 16.
    fn normal_blocks(data: &mut [Self], mean: Self, std: Self);
}

/// The real floating elements, as the generator sees them.
pub trait Real: Element {
    /// The type that draws are computed in.
    type Acc: Compute;
    /// True if the block over the end of `normal_fill` comes after draws for the numbers that it replaces.
    const DRAWS_TAIL_TWICE: bool;
    /// Rounds to this type.
    fn narrow(acc: Self::Acc) -> Self;
    /// Rounds a double to this type, by way of `Acc` as PyTorch does.
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Self::narrow(Self::Acc::from_double(value))
    }
}

macro_rules! reals {
    ($($ty:ty, $acc:ty, $twice:literal, $narrow:expr;)*) => { $(
        impl Real for $ty {
            type Acc = $acc;
            const DRAWS_TAIL_TWICE: bool = $twice;
            #[inline(always)]
            fn narrow(acc: $acc) -> Self { ($narrow)(acc) }
        }
    )* };
}
reals! {
    f64, f64, true, |x| x;
    f32, f32, true, |x| x;
    f16, f32, false, f16::from_f32;
    bf16, f32, false, bf16::from_f32;
}

impl Compute for f32 {
    #[inline(always)]
    fn unit(state: &mut GeneratorState) -> Self {
        unit_f32(state.random())
    }
    #[inline(always)]
    fn from_double(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn units_fill<T>(state: &mut GeneratorState, out: &mut [T], f: impl Fn(f32) -> T) {
        let mut rest = out;
        while !rest.is_empty() {
            let draws = state.take(rest.len());
            let (now, later) = rest.split_at_mut(draws.len());
            // No iterators: in a kernel that is compiled for wider vectors their functions would be calls.
            for i in 0..now.len().min(draws.len()) {
                now[i] = f(unit_f32(draws[i]));
            }
            rest = later;
        }
    }
    #[inline(always)]
    fn normal_blocks(data: &mut [Self], mean: Self, std: Self) {
        super::normal::blocks_f32(data, mean, std);
    }
}

impl Compute for f64 {
    #[inline(always)]
    fn unit(state: &mut GeneratorState) -> Self {
        unit_f64(state.random64())
    }
    #[inline(always)]
    fn from_double(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn units_fill<T>(state: &mut GeneratorState, out: &mut [T], f: impl Fn(f64) -> T) {
        let mut rest = out;
        while !rest.is_empty() {
            let pairs = state.take_pairs(rest.len());
            if pairs.is_empty() {
                rest[0] = f(Self::unit(state));
                rest = &mut rest[1..];
                continue;
            }
            let (now, later) = rest.split_at_mut(pairs.len());
            for i in 0..now.len().min(pairs.len()) {
                let [high, low] = pairs[i];
                now[i] = f(unit_f64(((high as u64) << 32) | low as u64));
            }
            rest = later;
        }
    }
    #[inline(always)]
    fn normal_blocks(data: &mut [Self], mean: Self, std: Self) {
        super::normal::blocks_f64(data, mean, std);
    }
}

/// The low 24 bits of a draw, scaled to [0, 1).
#[inline(always)]
fn unit_f32(bits: u32) -> f32 {
    const SCALE: u32 = 1 << f32::MANTISSA_DIGITS;
    // Below 2^24, so that the detour over i32, which every machine converts at once, changes nothing.
    (bits & (SCALE - 1)) as i32 as f32 * (1.0 / SCALE as f32)
}

/// The low 53 bits of a draw, scaled to [0, 1).
#[inline(always)]
fn unit_f64(bits: u64) -> f64 {
    const SCALE: u64 = 1 << f64::MANTISSA_DIGITS;
    (bits & (SCALE - 1)) as i64 as f64 * (1.0 / SCALE as f64)
}

/// The bounds of a uniform distribution, made ready for draws.
#[derive(Clone, Copy)]
struct Range<T: Real> {
    from: T::Acc,
    span: T::Acc,
    to: T,
}

impl<T: Real> Range<T> {
    #[inline(always)]
    fn new(from: f64, to: f64) -> Self {
        let (from, to) = (T::Acc::from_double(from), T::Acc::from_double(to));
        Self { from, span: to - from, to: T::narrow(to) }
    }

    /// Scales a number in [0, 1), with one rounding. A result that rounds up to `to` becomes `from`.
    #[inline(always)]
    fn scale(self, unit: T::Acc) -> T {
        // Without an addend the product is rounded once anyway, and needs no fused instruction.
        let scaled = if self.from.is_zero() { unit * self.span } else { unit.mul_add(self.span, self.from) };
        let value = T::narrow(scaled);
        if value == self.to { T::narrow(self.from) } else { value }
    }
}

/// Elements that `random_` fills: all but the complex ones.
pub trait Whole: Element {
    /// `random_()` draws from 0 up to this, exclusive: 2^digits of an integer, one more of a floating type.
    const SPAN: u64;
    /// True if `random_()` takes 64 bits for a number.
    const LONG: bool;
    /// Converts an integer as a C cast does.
    fn from_i64(value: i64) -> Self;
}

macro_rules! wholes {
    ($($ty:ty, $span:expr, $long:literal, $from:expr;)*) => { $(
        impl Whole for $ty {
            const SPAN: u64 = $span;
            const LONG: bool = $long;
            #[inline(always)]
            fn from_i64(value: i64) -> Self { ($from)(value) }
        }
    )* };
}
wholes! {
    u8, 1 << 8, false, |v| v as u8;
    i8, 1 << 7, false, |v| v as i8;
    i16, 1 << 15, false, |v| v as i16;
    i32, 1 << 31, false, |v| v as i32;
    i64, 1 << 63, true, |v| v;
    Bool, 2, false, |v| Bool::new(v != 0);
    f16, (1 << 11) + 1, false, |v| f16::from_f32(v as f32);
    bf16, (1 << 8) + 1, false, |v| bf16::from_f32(v as f32);
    f32, (1 << 24) + 1, false, |v| v as f32;
    f64, (1 << 53) + 1, true, |v| v as f64;
}

/// The range from which on [`GeneratorState::random_from_to`] takes 64 bits a number.
const LONG_RANGE: u64 = 1 << 28;

impl GeneratorState {
    /// A number in [from, to): 53 bits of a 64-bit draw for f64, else 24 of 32 bits, rounded to the type.
    #[inline(always)]
    pub fn uniform<T: Real>(&mut self, from: f64, to: f64) -> T {
        Range::<T>::new(from, to).scale(T::Acc::unit(self))
    }

    /// Fills a slice as [`GeneratorState::uniform`] in turn.
    ///
    /// Inlined into its caller, so that a kernel compiled for wider vectors fills with them.
    #[inline(always)]
    pub fn uniform_fill<T: Real>(&mut self, out: &mut [T], from: f64, to: f64) {
        let range = Range::<T>::new(from, to);
        T::Acc::units_fill(
            self,
            out,
            #[inline(always)]
            |unit| range.scale(unit),
        );
    }

    /// Fills a slice with what a function makes of numbers in [0, 1), in turn; `|u: f64| u < p` draws as
    /// [`GeneratorState::bernoulli`] does.
    #[inline(always)]
    pub fn units_fill<A: Compute, T>(&mut self, out: &mut [T], f: impl Fn(A) -> T) {
        A::units_fill(self, out, f);
    }

    /// `base` plus a number in [0, range). A range of 0 stands for 2^64.
    #[inline]
    pub fn random_from_to<T: Whole>(&mut self, range: u64, base: i64) -> T {
        let draw = match range {
            0 => self.random64(),
            LONG_RANGE.. => self.random64() % range,
            // Both fit in 32 bits, where division is cheaper.
            _ => (self.random() % range as u32) as u64,
        };
        T::from_i64(draw.wrapping_add(base as u64) as i64)
    }

    /// Any 64-bit integer, converted.
    #[inline]
    pub fn random_full_64<T: Whole>(&mut self) -> T {
        self.random_from_to(0, 0)
    }

    /// What `random_()` draws: the type's non-negative integers, as far as the type counts them one by one.
    #[inline]
    pub fn random_value<T: Whole>(&mut self) -> T {
        let draw = if T::LONG { self.random64() } else { self.random() as u64 };
        T::from_i64((draw % T::SPAN) as i64)
    }

    /// True with probability `p`, by an f64 draw (`bernoulli_(p)`, dropout).
    #[inline]
    pub fn bernoulli(&mut self, p: f64) -> bool {
        f64::unit(self) < p
    }

    /// True with probability `p`, by an f32 draw (`bernoulli(p)` where `p` is a tensor below f64).
    #[inline]
    pub fn bernoulli_f32(&mut self, p: f32) -> bool {
        f32::unit(self) < p
    }

    /// A normal number by Box and Muller's method. The other one of the pair is kept for the next call.
    #[inline]
    pub fn normal(&mut self, mean: f64, std: f64) -> f64 {
        let unit = match self.next_normal_f64.take() {
            Some(kept) => kept,
            None => {
                let (u1, u2) = (f64::unit(self), f64::unit(self));
                let radius = (-2.0 * (-u2).ln_1p()).sqrt();
                let theta = 2.0 * std::f64::consts::PI * u1;
                self.next_normal_f64 = Some(radius * theta.sin());
                radius * theta.cos()
            }
        };
        unit.mul_add(std, mean)
    }

    /// The exponential of a normal number.
    pub fn log_normal(&mut self, mean: f64, std: f64) -> f64 {
        self.normal(mean, std).exp()
    }

    /// An exponential number of rate `lambda`.
    #[inline]
    pub fn exponential(&mut self, lambda: f64) -> f64 {
        -1.0 / lambda * (-f64::unit(self)).ln_1p()
    }

    /// How many trials of probability `p` the first success takes.
    pub fn geometric(&mut self, p: f64) -> f64 {
        (f64::unit(self).ln() / (-p).ln_1p()).ceil()
    }

    /// A Cauchy number.
    pub fn cauchy(&mut self, median: f64, sigma: f64) -> f64 {
        (std::f64::consts::PI * (f64::unit(self) - 0.5)).tan().mul_add(sigma, median)
    }

    /// A Poisson number of rate `lambda`, which is not negative.
    pub fn poisson(&mut self, lambda: f64) -> i64 {
        if lambda >= 10.0 {
            return self.poisson_by_rejection(lambda);
        }
        // Knuth: uniform numbers are multiplied until the product falls below e^-lambda.
        let limit = (-lambda).exp();
        let (mut product, mut count) = (1.0, 0);
        if lambda == 0.0 {
            return 0;
        }
        loop {
            product *= f64::unit(self);
            if product.partial_cmp(&limit) != Some(std::cmp::Ordering::Greater) {
                return count;
            }
            count += 1;
        }
    }

    /// Hörmann's transformed rejection (PTRS, 1993), for rates of 10 and more.
    fn poisson_by_rejection(&mut self, lambda: f64) -> i64 {
        let b = 0.931 + 2.53 * lambda.sqrt();
        let a = -0.059 + 0.02483 * b;
        let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
        let v_r = 0.9277 - 3.6224 / (b - 2.0);
        let log_lambda = lambda.ln();
        loop {
            let u = f64::unit(self) - 0.5;
            let v = f64::unit(self);
            let us = 0.5 - u.abs();
            let k = ((2.0 * a / us + b) * u + lambda + 0.43).floor();
            if us >= 0.07 && v <= v_r {
                return k as i64;
            }
            if k < 0.0 || (us < 0.013 && v > us) {
                continue;
            }
            let accepted = v.ln() + inverse_alpha.ln() - (a / (us * us) + b).ln();
            if accepted <= -lambda + k * log_lambda - ln_factorial(k) {
                return k as i64;
            }
        }
    }

    /// Puts a slice in random order, as `randperm` does: forward, swapping each element with one from there on.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        // From this length on, 32 bits would favour some orders too much.
        let long = items.len() as u64 >= u32::MAX as u64 / 20;
        for i in 0..items.len().saturating_sub(1) {
            let left = (items.len() - i) as u64;
            let draw = if long { self.random64() } else { self.random() as u64 };
            items.swap(i, i + (draw % left) as usize);
        }
    }
}

/// ln k! of a whole number: the product below 16, else Stirling's series, whose next term is below 1e-16 there.
fn ln_factorial(k: f64) -> f64 {
    let n = k + 1.0;
    if n < 17.0 {
        return (2..n as u32).map(|i| i as f64).product::<f64>().ln();
    }
    let r = 1.0 / (n * n);
    let series = (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r * (1.0 / 1680.0 - r / 1188.0)))) / n;
    (n - 0.5) * n.ln() - n + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Generator;

    #[test]
    fn factorials_agree_at_the_seam() {
        let mut sum = 0.0;
        for k in 1..60 {
            sum += (k as f64).ln();
            assert!((ln_factorial(k as f64) - sum).abs() <= 4e-15 * sum.max(1.0), "{k}");
        }
    }

    #[test]
    fn extreme_parameters_end() {
        let generator = Generator::with_seed(0);
        let mut state = generator.lock();
        for lambda in [0.0, 1e-300, 9.999, 10.0, 1e18, f64::INFINITY, f64::NAN, -1.0] {
            state.poisson(lambda);
        }
        assert_eq!(state.poisson(0.0), 0);
        let full: i64 = state.random_full_64();
        let wide: i64 = state.random_from_to(u64::MAX, i64::MIN);
        assert_ne!(full, wide);
        assert_eq!(state.random_from_to::<u8>(1, 300), 44);
        let mut none: [u8; 0] = [];
        state.shuffle(&mut none);
    }
}
