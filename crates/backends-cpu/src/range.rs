//! Ranges: elements that follow from their number alone.

use tensor_aten::Tensor;
use tensor_core::{Complex, Element, Result, Scalar, bf16, check, f16};

use crate::isa::Isa;
use crate::loops::views::{lock, par_chunks};
use crate::parallel::GRAIN;
use crate::simd::Value;

/// The type that the elements of a range are computed in.
pub trait Ramp: Element {
    /// i64 for integers, f64 for f32 and f64, f32 for f16 and bf16.
    type Wide: Copy + Send + Sync;
    /// A number as the wide type: truncated for integers.
    fn wide(value: Scalar) -> Self::Wide;
    /// `start + step * i`
    fn at(start: Self::Wide, step: Self::Wide, i: usize) -> Self;
    /// Start and step, if a range of `n` elements is one of i32: its elements are then exact before they are rounded once.
    #[inline]
    fn whole(_start: Self::Wide, _step: Self::Wide, _n: usize) -> Option<(i32, i32)> {
        None
    }
    /// A whole number of such a range, rounded.
    #[inline(always)]
    fn of_whole(_value: i32) -> Self {
        Self::zeroed()
    }
}

macro_rules! ramps {
    ($($t:ty as $wide:ty: $read:ident, |$start:ident, $step:ident, $i:ident| $value:expr $(, $whole:ident)?;)*) => { $(
        impl Ramp for $t {
            type Wide = $wide;
            #[inline]
            fn wide(value: Scalar) -> $wide { value.$read() }
            #[inline(always)]
            fn at($start: $wide, $step: $wide, $i: usize) -> Self { $value }
            $(
                #[inline]
                fn whole(start: $wide, step: $wide, n: usize) -> Option<(i32, i32)> { $whole(start, step, n) }
                #[inline(always)]
                fn of_whole(value: i32) -> Self { value as $t }
            )?
        }
    )* };
}
ramps! {
    u8 as i64: to_i64, |start, step, i| start.wrapping_add(step.wrapping_mul(i as i64)) as u8;
    i8 as i64: to_i64, |start, step, i| start.wrapping_add(step.wrapping_mul(i as i64)) as i8;
    i16 as i64: to_i64, |start, step, i| start.wrapping_add(step.wrapping_mul(i as i64)) as i16;
    i32 as i64: to_i64, |start, step, i| start.wrapping_add(step.wrapping_mul(i as i64)) as i32;
    i64 as i64: to_i64, |start, step, i| start.wrapping_add(step.wrapping_mul(i as i64));
    f16 as f32: to_f32, |start, step, i| f16::down(start + step * i as f32);
    bf16 as f32: to_f32, |start, step, i| bf16::down(start + step * i as f32);
    f32 as f64: to_f64, |start, step, i| (start + step * i as f64) as f32, whole;
    f64 as f64: to_f64, |start, step, i| start + step * i as f64, whole;
}

/// [`Ramp::whole`] of numbers that may have a fraction. Minus zero is no i32.
fn whole(start: f64, step: f64, n: usize) -> Option<(i32, i32)> {
    let end = start + step * n as f64;
    let fits = |x: f64| x == f64::from(x as i32) && !(x == 0.0 && x.is_sign_negative());
    (fits(start) && fits(step) && fits(end)).then_some((start as i32, step as i32))
}

/// Sets each element of a contiguous 1-d tensor from its number.
#[inline]
fn fill<I: Isa, T: Element>(out: &Tensor, value: impl Fn(usize) -> T + Copy + Sync) -> Result<()> {
    lock(&[], &[out.as_impl()])?.write::<T>(0)?.with_dense(|out| {
        par_chunks::<I, T>(
            out,
            GRAIN,
            #[inline(always)]
            |start, part| {
                // A copy: what is captured by reference would be read again after each element that is written.
                let at = value;
                for (i, out) in part.iter_mut().enumerate() {
                    *out = at(start + i);
                }
            },
        );
    });
    Ok(())
}

/// `out[i] = start + step * i`
pub fn arange<I: Isa, T: Ramp>(out: &Tensor, start: Scalar, step: Scalar) -> Result<()> {
    let (start, step) = (T::wide(start), T::wide(step));
    if let Some((start, step)) = T::whole(start, step, out.numel() as usize) {
        return fill::<I, T>(
            out,
            #[inline(always)]
            move |i| T::of_whole(start.wrapping_add(step.wrapping_mul(i as i32))),
        );
    }
    fill::<I, T>(
        out,
        #[inline(always)]
        move |i| T::at(start, step, i),
    )
}

/// A type whose elements divide an interval.
pub trait Between: Element {
    /// What distances are computed in.
    type Step: Copy + Send + Sync;
    /// `(end - start) / n`
    fn step(start: Self, end: Self, n: usize) -> Self::Step;
    /// `from + step * i`
    fn along(from: Self, step: Self::Step, i: f64) -> Self;
}

macro_rules! between {
    ($($t:ty as $step:ty: |$x:ident| $up:expr, |$n:ident| $number:expr, |$y:ident| $down:expr;)*) => { $(
        impl Between for $t {
            type Step = $step;
            #[inline]
            fn step(start: Self, end: Self, n: usize) -> $step {
                let up = |$x: $t| -> $step { $up };
                let $n = n as f64;
                (up(end) - up(start)) / $number
            }
            #[inline(always)]
            fn along(from: Self, step: $step, i: f64) -> Self {
                let up = |$x: $t| -> $step { $up };
                let $n = i;
                let $y = up(from) + step * $number;
                $down
            }
        }
    )* };
}
between! {
    u8 as f64: |x| x as f64, |n| n, |y| y as i64 as u8;
    i8 as f64: |x| x as f64, |n| n, |y| y as i64 as i8;
    i16 as f64: |x| x as f64, |n| n, |y| y as i64 as i16;
    i32 as f64: |x| x as f64, |n| n, |y| y as i64 as i32;
    i64 as f64: |x| x as f64, |n| n, |y| y as i64;
    f16 as f32: |x| x.up(), |n| n as f32, |y| f16::down(y);
    bf16 as f32: |x| x.up(), |n| n as f32, |y| bf16::down(y);
    f32 as f32: |x| x, |n| n as f32, |y| y;
    f64 as f64: |x| x, |n| n, |y| y;
    Complex<f32> as Complex<f32>: |x| x, |n| n as f32, |y| y;
    Complex<f64> as Complex<f64>: |x| x, |n| n, |y| y;
}

/// `out[i] = start + (end - start) / (N - 1) * i`, from the nearer end.
pub fn linspace<I: Isa, T: Between>(out: &Tensor, start: Scalar, end: Scalar) -> Result<()> {
    let (start, end) = (start.checked_to::<T>()?, end.checked_to::<T>()?);
    let n = out.numel() as usize;
    check!(n > 0, "linspace: there is nothing to fill");
    if n == 1 {
        return fill::<I, T>(
            out,
            #[inline(always)]
            move |_| start,
        );
    }
    let step = T::step(start, end, n - 1);
    fill::<I, T>(
        out,
        #[inline(always)]
        move |i| {
            if i < n / 2 { T::along(start, step, i as f64) } else { T::along(end, step, -((n - 1 - i) as f64)) }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::with_level;

    fn values<T: Ramp + PartialEq>(n: i64, start: f64, step: f64) -> Vec<T> {
        let out = Tensor::new_dense(&[n], T::DTYPE, tensor_core::Device::CPU).unwrap();
        with_level!(I => arange::<I, T>(&out, start.into(), step.into())).unwrap();
        lock(&[out.as_impl()], &[]).unwrap().read::<T>(0).unwrap().dense().into_owned()
    }

    #[test]
    fn whole_ranges_are_those_of_any_numbers() {
        for (start, step) in [
            (0.0, 1.0),
            (-0.0, 1.0),
            (0.0, -0.0),
            (5.0, -3.0),
            (16_777_217.0, 9.0),
            (2_147_483_000.0, 1.0),
            (0.5, 2.0),
            (3.0, 1e9),
        ] {
            let n = 70_001;
            let (single, double) = (values::<f32>(n, start, step), values::<f64>(n, start, step));
            for i in 0..n as usize {
                let wanted = start + step * i as f64;
                assert_eq!(double[i].to_bits(), wanted.to_bits(), "{start} + {step} * {i}");
                assert_eq!(single[i].to_bits(), (wanted as f32).to_bits(), "{start} + {step} * {i}");
            }
        }
    }
}
