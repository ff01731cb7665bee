//! Random numbers into contiguous rows. One thread draws: the stream has one order.

use tensor_aten::Tensor;
use tensor_core::generator::draw::{Real, Whole};
use tensor_core::{Element, Generator, Result, Scalar};

use crate::isa::Isa;
use crate::loops::views::lock;

/// Calls `f` with the elements of a row and the generator's state.
#[inline]
fn row<I: Isa, T: Element>(
    out: &Tensor,
    generator: &Generator,
    f: impl FnOnce(&mut [T], &mut tensor_core::generator::GeneratorState),
) -> Result<()> {
    let mut state = generator.lock();
    let locked = lock(&[], &[out.as_impl()])?;
    locked.write::<T>(0)?.with_dense(|out| {
        I::run(
            #[inline(always)]
            || f(out, &mut state),
        )
    });
    Ok(())
}

/// Uniform numbers of [`numbers[0]`, `numbers[1]`).
pub fn uniform<I: Isa, T: Real + Element>(out: &Tensor, generator: &Generator, numbers: [Scalar; 2]) -> Result<()> {
    row::<I, T>(
        out,
        generator,
        #[inline(always)]
        |out, state| state.uniform_fill(out, numbers[0].to_f64(), numbers[1].to_f64()),
    )
}

/// Normal numbers of mean `numbers[0]` and deviation `numbers[1]`, in blocks from 16 elements on.
pub fn normal<I: Isa, T: Real + Element>(out: &Tensor, generator: &Generator, numbers: [Scalar; 2]) -> Result<()> {
    row::<I, T>(
        out,
        generator,
        #[inline(always)]
        |out, state| state.normal_fill(out, numbers[0].to_f64(), numbers[1].to_f64()),
    )
}

/// Normal numbers one by one, as tensors that are not contiguous get them.
pub fn normal_serial<I: Isa, T: Real + Element>(
    out: &Tensor,
    generator: &Generator,
    numbers: [Scalar; 2],
) -> Result<()> {
    let [mean, std] = numbers.map(Scalar::to_f64);
    row::<I, T>(out, generator, |out, state| {
        for out in out {
            *out = T::from_scalar(Scalar::Float(state.normal(mean, std)));
        }
    })
}

/// Exponential numbers of rate `numbers[0]`.
pub fn exponential<I: Isa, T: Real + Element>(out: &Tensor, generator: &Generator, numbers: [Scalar; 2]) -> Result<()> {
    row::<I, T>(out, generator, |out, state| {
        for out in out {
            *out = T::from_scalar(Scalar::Float(state.exponential(numbers[0].to_f64())));
        }
    })
}

/// 1 with probability `numbers[0]`, else 0.
pub fn bernoulli<I: Isa, T: Element>(out: &Tensor, generator: &Generator, numbers: [Scalar; 2]) -> Result<()> {
    let [zero, one] = [0, 1].map(|v| T::from_scalar(Scalar::Int(v)));
    let p = numbers[0].to_f64();
    row::<I, T>(
        out,
        generator,
        #[inline(always)]
        |out, state| {
            state.units_fill(
                out,
                #[inline(always)]
                |u: f64| if u < p { one } else { zero },
            )
        },
    )
}

/// 1 with the probability of each element of `p`, by f64 or f32 draws, else 0.
pub fn bernoulli_each<I: Isa, T: Element>(out: &Tensor, p: &Tensor, generator: &Generator, wide: bool) -> Result<()> {
    let [zero, one] = [0, 1].map(|v| T::from_scalar(Scalar::Int(v)));
    let mut state = generator.lock();
    let locked = lock(&[p.as_impl()], &[out.as_impl()])?;
    let p = locked.read::<f64>(0)?.dense();
    locked.write::<T>(0)?.with_dense(|out| {
        for (out, &p) in out.iter_mut().zip(p.iter()) {
            let hit = if wide { state.bernoulli(p) } else { state.bernoulli_f32(p as f32) };
            *out = if hit { one } else { zero };
        }
    });
    Ok(())
}

/// Whole numbers of [base, base + range): `numbers[0]` is the range as an unsigned number, `numbers[1]` the base.
pub fn random_from_to<I: Isa, T: Whole + Element>(
    out: &Tensor,
    generator: &Generator,
    numbers: [Scalar; 2],
) -> Result<()> {
    let (range, base) = (numbers[0].to_i64() as u64, numbers[1].to_i64());
    row::<I, T>(out, generator, |out, state| {
        for out in out {
            *out = state.random_from_to(range, base);
        }
    })
}

/// Whole numbers that the type counts one by one.
pub fn random<I: Isa, T: Whole + Element>(out: &Tensor, generator: &Generator, _: [Scalar; 2]) -> Result<()> {
    row::<I, T>(out, generator, |out, state| {
        for out in out {
            *out = state.random_value();
        }
    })
}

/// The numbers from 0 on in random order.
pub fn permutation<I: Isa, T: Element>(out: &Tensor, generator: &Generator, _: [Scalar; 2]) -> Result<()> {
    row::<I, T>(out, generator, |out, state| {
        for (i, out) in out.iter_mut().enumerate() {
            *out = T::from_scalar(Scalar::Int(i as i64));
        }
        state.shuffle(out);
    })
}
