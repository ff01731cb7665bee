//! Plans of transforms, kept by length: what RustFFT and RealFFT work out before they can run.

use std::sync::Arc;

use num_complex::Complex;
use parking_lot::Mutex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftNum, FftPlanner};
use tensor_core::Element;

/// How many plans of a kind are kept.
const KEPT: usize = 16;
/// Plans of longer transforms are not kept: their tables are as long.
const LONGEST: usize = 1 << 20;

/// Plans in the order of their last use, the newest last.
pub struct Recent<P: ?Sized>(Mutex<Vec<(usize, Arc<P>)>>);

impl<P: ?Sized> Recent<P> {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The plan of a length, made if it is not among those kept.
    fn get(&self, n: usize, make: impl FnOnce() -> Arc<P>) -> Arc<P> {
        let mut kept = self.0.lock();
        if let Some(at) = kept.iter().position(|(length, _)| *length == n) {
            let found = kept.remove(at);
            let plan = Arc::clone(&found.1);
            kept.push(found);
            return plan;
        }
        // Others need not wait while it is made.
        drop(kept);
        let plan = make();
        if n <= LONGEST {
            let mut kept = self.0.lock();
            if kept.len() >= KEPT {
                kept.remove(0);
            }
            kept.push((n, Arc::clone(&plan)));
        }
        plan
    }
}

/// The plans of one real type.
pub struct Plans<T> {
    forward: Recent<dyn Fft<T>>,
    inverse: Recent<dyn Fft<T>>,
    from_real: Recent<dyn RealToComplex<T>>,
    to_real: Recent<dyn ComplexToReal<T>>,
}

/// The parts of complex numbers that have transforms.
pub trait Part: Element + FftNum {
    /// The plans of this type.
    fn plans() -> &'static Plans<Self>;
    /// The nearest number.
    fn nearest(value: f64) -> Self;
}

macro_rules! parts {
    ($($t:ty)*) => { $(
        impl Part for $t {
            fn plans() -> &'static Plans<Self> {
                static PLANS: Plans<$t> = Plans {
                    forward: Recent::new(),
                    inverse: Recent::new(),
                    from_real: Recent::new(),
                    to_real: Recent::new(),
                };
                &PLANS
            }
            fn nearest(value: f64) -> Self {
                value as $t
            }
        }
    )* };
}
parts!(f32 f64);

/// Complex to complex, not scaled.
pub fn complex<T: Part>(n: usize, forward: bool) -> Arc<dyn Fft<T>> {
    let plans = T::plans();
    if forward {
        plans.forward.get(n, || FftPlanner::new().plan_fft_forward(n))
    } else {
        plans.inverse.get(n, || FftPlanner::new().plan_fft_inverse(n))
    }
}

/// Forward from n real numbers to the first half, not scaled.
pub fn from_real<T: Part>(n: usize) -> Arc<dyn RealToComplex<T>> {
    T::plans().from_real.get(n, || RealFftPlanner::new().plan_fft_forward(n))
}

/// Inverse from the first half to n real numbers, not scaled.
pub fn to_real<T: Part>(n: usize) -> Arc<dyn ComplexToReal<T>> {
    T::plans().to_real.get(n, || RealFftPlanner::new().plan_fft_inverse(n))
}

/// Working memory.
pub fn scratch<T: Part>(n: usize) -> Vec<Complex<T>> {
    vec![Complex::new(T::zero(), T::zero()); n]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_plans_are_kept_as_may_be() {
        let recent = Recent::<dyn Fft<f32>>::new();
        let make = |n| FftPlanner::new().plan_fft_forward(n);
        let first = recent.get(1, || make(1));
        for n in 2..=KEPT {
            recent.get(n, || make(n));
        }
        assert!(Arc::ptr_eq(&first, &recent.get(1, || make(1))));
        for n in 100..100 + KEPT {
            recent.get(n, || make(n));
        }
        assert_eq!(recent.0.lock().len(), KEPT);
        assert!(!Arc::ptr_eq(&first, &recent.get(1, || make(1))));
    }
}
