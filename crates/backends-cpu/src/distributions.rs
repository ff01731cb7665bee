//! Rarer distributions into contiguous rows. One thread draws: the stream has one order.

use tensor_aten::Tensor;
use tensor_core::generator::GeneratorState;
use tensor_core::{Element, Generator, Result, Scalar, check};

use crate::loops::views::lock;
use crate::simd::{Arith, Math, Real as Number64, RealFloating};

/// Fills a row with one draw an element.
fn each<T: Element>(out: &Tensor, generator: &Generator, draw: impl Fn(&mut GeneratorState) -> f64) -> Result<()> {
    let mut state = generator.lock();
    let locked = lock(&[], &[out.as_impl()])?;
    locked.write::<T>(0)?.with_dense(|out| {
        out.iter_mut().for_each(|out| *out = T::from_scalar(Scalar::Float(draw(&mut state))));
    });
    Ok(())
}

/// Cauchy numbers of median `numbers[0]` and scale `numbers[1]`.
pub fn cauchy<T: Element>(out: &Tensor, generator: &Generator, numbers: [Scalar; 2]) -> Result<()> {
    let [median, sigma] = numbers.map(Scalar::to_f64);
    each::<T>(out, generator, |state| state.cauchy(median, sigma))
}

/// Exponentials of normal numbers of mean `numbers[0]` and deviation `numbers[1]`.
pub fn log_normal<T: Element>(out: &Tensor, generator: &Generator, numbers: [Scalar; 2]) -> Result<()> {
    let [mean, std] = numbers.map(Scalar::to_f64);
    each::<T>(out, generator, |state| state.log_normal(mean, std))
}

/// How many trials of probability `numbers[0]` the first success takes.
pub fn geometric<T: Element>(out: &Tensor, generator: &Generator, numbers: [Scalar; 2]) -> Result<()> {
    let p = numbers[0].to_f64();
    each::<T>(out, generator, |state| state.geometric(p))
}

/// Whole numbers with the rate of each element of `rates` (f64), which are checked first.
pub fn poisson<T: Element>(out: &Tensor, rates: &Tensor, generator: &Generator, _: bool) -> Result<()> {
    let mut state = generator.lock();
    let locked = lock(&[rates.as_impl()], &[out.as_impl()])?;
    let rates = locked.read::<f64>(0)?.dense();
    check!(rates.iter().all(|&rate| rate >= 0.0), "invalid Poisson rate, expected rate to be non-negative");
    locked.write::<T>(0)?.with_dense(|out| {
        for (out, &rate) in out.iter_mut().zip(rates.iter()) {
            *out = T::from_scalar(Scalar::Int(state.poisson(rate)));
        }
    });
    Ok(())
}

/// The sums of a row up to each element, divided by that of all; the last one is 1.
fn cumulative<T: RealFloating>(row: &[T]) -> Result<Vec<T::Op>> {
    let mut sum = T::Op::ZERO;
    let mut sums = Vec::with_capacity(row.len());
    for p in row {
        let p = p.up();
        check!(p >= T::Op::ZERO, "invalid multinomial distribution (encountering probability entry < 0)");
        check!(
            Number64::to_f64(p).is_finite(),
            "invalid multinomial distribution (encountering probability entry = infinity or NaN)"
        );
        sum = sum.add(p);
        sums.push(sum);
    }
    check!(sum > T::Op::ZERO, "invalid multinomial distribution (sum of probabilities <= 0)");
    sums.iter_mut().for_each(|s| *s = s.div(sum));
    if let Some(last) = sums.last_mut() {
        *last = T::Op::ONE;
    }
    Ok(sums)
}

/// `out` (rows, samples), i64: for each the first category of `p` (rows, categories) whose cumulative probability reaches a
/// uniform number. Both may lack rows.
pub fn multinomial<T: RealFloating>(out: &Tensor, p: &Tensor, generator: &Generator, _: bool) -> Result<()> {
    let categories = p.sizes().last().copied().unwrap_or(1) as usize;
    let samples = out.sizes().last().copied().unwrap_or(1) as usize;
    let mut state = generator.lock();
    let locked = lock(&[p.as_impl()], &[out.as_impl()])?;
    let p = locked.read::<T>(0)?.dense();
    let rows = p.chunks(categories.max(1)).map(cumulative).collect::<Result<Vec<_>>>()?;
    locked.write::<i64>(0)?.with_dense(|out| {
        for (out, sums) in out.chunks_mut(samples.max(1)).zip(&rows) {
            for out in out {
                let draw: f64 = state.uniform(0.0, 1.0);
                *out = sums.partition_point(|s| Number64::to_f64(*s) < draw) as i64;
            }
        }
    });
    Ok(())
}

/// `out = x` and `slopes = 1` where x is positive, else `out = x * slopes` with uniform slopes of [`bounds[0]`, `bounds[1]`).
pub fn rrelu<T: RealFloating>(
    [out, slopes]: [&Tensor; 2],
    x: &Tensor,
    generator: &Generator,
    bounds: [f64; 2],
) -> Result<()> {
    // Bounds as the computation holds them.
    let [low, high] = bounds.map(|bound| Number64::to_f64(T::Op::from_f64(bound)));
    let mut state = generator.lock();
    let locked = lock(&[x.as_impl()], &[out.as_impl(), slopes.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    let (mut first, mut second) = (locked.write::<T>(0)?, locked.write::<T>(1)?);
    first.with_dense(|out| {
        second.with_dense(|slopes| {
            for ((out, slope), x) in out.iter_mut().zip(slopes).zip(x.iter()) {
                let rises = !(x.up() <= T::Op::ZERO);
                let drawn = if rises { T::Op::ONE } else { T::Op::from_f64(state.uniform(low, high)) };
                *out = if rises { *x } else { T::down(x.up().mul(drawn)) };
                *slope = T::down(drawn);
            }
        });
    });
    Ok(())
}
