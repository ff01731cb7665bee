//! Floating-point numbers taken apart.

use tensor_aten::Tensor;
use tensor_core::Result;

use crate::isa::Baseline;
use crate::loops::views::{lock, par_chunks2};
use crate::parallel::GRAIN;
use crate::simd::{Math, Real, RealFloating};

/// `x = mantissa * 2^exponent`, the mantissa at least 1/2 and below 1 in magnitude; the exponent is 0 where there is none.
pub fn frexp<T: RealFloating>(mantissa: &Tensor, exponent: &Tensor, x: &Tensor) -> Result<()> {
    let locked = lock(&[x.as_impl()], &[mantissa.as_impl(), exponent.as_impl()])?;
    let x = locked.read::<T>(0)?.dense();
    let (mut mantissa, mut exponent) = (locked.write::<T>(0)?, locked.write::<i32>(1)?);
    mantissa.with_dense(|mantissa| {
        exponent.with_dense(|exponent| {
            par_chunks2::<Baseline, _, _>(mantissa, exponent, GRAIN / 8, |start, mantissa, exponent| {
                for ((m, e), x) in mantissa.iter_mut().zip(exponent).zip(&x[start..]) {
                    let x = Real::to_f64(x.up());
                    let (fraction, power) = if x.is_finite() { libm::frexp(x) } else { (x, 0) };
                    (*m, *e) = (T::down(Math::from_f64(fraction)), power);
                }
            });
        });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_every_kind_of_number() -> Result<()> {
        let x = vec![0.0, -0.0, 1.0, -3.5, 1e-310, f64::MAX, f64::NEG_INFINITY];
        let n = x.len();
        let out = (Tensor::from_vec(vec![0.0f64; n], &[n as i64])?, Tensor::from_vec(vec![7i32; n], &[n as i64])?);
        frexp::<f64>(&out.0, &out.1, &Tensor::from_vec(x.clone(), &[n as i64])?)?;
        let (m, e) = (out.0.to_vec::<f64>()?, out.1.to_vec::<i32>()?);
        assert_eq!(e[..4], [0, 0, 1, 2]);
        assert_eq!(e[5..], [1024, 0]);
        assert!(m[1].is_sign_negative() && m[6] == f64::NEG_INFINITY);
        for i in 2..6 {
            assert!((0.5..1.0).contains(&m[i].abs()), "{}", m[i]);
            assert_eq!(libm::ldexp(m[i], e[i]), x[i]);
        }
        Ok(())
    }
}
