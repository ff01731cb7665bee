//! Elementwise parts of losses and their gradients. Reductions are the callers'.

use crate::elementwise;
use crate::simd::{Arith, Math, RealFloating, RealMath};

elementwise! {
    /// `(a - b)^2`
    pub fn mse_loss<T: (RealFloating)>(a: T, b: T) -> T {
        let d = T::down(a.up().sub(b.up())).up();
        T::down(d.mul(d))
    }
    /// `norm * (a - b) * grad`; inputs: grad, a, b; parameter: norm.
    pub fn mse_loss_backward<T: RealFloating>(grad: T, a: T, b: T; norm: T::Op) -> T {
        T::down(norm.mul(a.up().sub(b.up())).mul(grad.up()))
    }

    /// `|a - b|` beyond parameter 0 (beta), a parabola within it.
    pub fn smooth_l1_loss<T: RealFloating>(a: T, b: T; beta: T::Op) -> T {
        let (d, half): (_, T::Op) = (a.up().sub(b.up()).abs(), Math::from_f64(0.5));
        T::down(if d < beta { half.mul(d).mul(d).div(beta) } else { d.sub(half.mul(beta)) })
    }
    /// The gradient of `smooth_l1_loss`; inputs: grad, a, b; parameters: norm, beta.
    pub fn smooth_l1_loss_backward<T: RealFloating>(grad: T, a: T, b: T; norm: T::Op, beta: T::Op) -> T {
        let (d, grad) = (a.up().sub(b.up()), grad.up());
        let inside = norm.mul(d).mul(grad).div(beta);
        let above = if d >= beta { norm.mul(grad) } else { inside };
        T::down(if d <= beta.neg() { norm.neg().mul(grad) } else { above })
    }

    /// `delta * (|a - b| - delta / 2)` beyond parameter 0 (delta), half the square within it.
    pub fn huber_loss<T: RealFloating>(a: T, b: T; delta: T::Op) -> T {
        let (d, half): (_, T::Op) = (a.up().sub(b.up()).abs(), Math::from_f64(0.5));
        T::down(if d < delta { half.mul(d).mul(d) } else { delta.mul(d.sub(half.mul(delta))) })
    }
    /// The gradient of `huber_loss`; inputs: grad, a, b; parameters: norm, delta.
    pub fn huber_loss_backward<T: RealFloating>(grad: T, a: T, b: T; norm: T::Op, delta: T::Op) -> T {
        let (d, grad) = (a.up().sub(b.up()), grad.up());
        let inside = norm.mul(d).mul(grad);
        let above = if d >= delta { norm.mul(grad).mul(delta) } else { inside };
        T::down(if d <= delta.neg() { norm.neg().mul(grad).mul(delta) } else { above })
    }

    /// `-weight * (target * log(x) + (1 - target) * log(1 - x))` with logarithms of at least -100; no weight here.
    pub fn binary_cross_entropy<T: RealFloating>(x: T, target: T) -> T {
        let (x, target, one): (_, _, T::Op) = (x.up(), target.up(), Arith::ONE);
        let floor: T::Op = Math::from_f64(-100.0);
        let at_least = |v: T::Op| if v < floor { floor } else { v };
        let of_one = at_least(x.log::<I>()).mul(target);
        let of_zero = at_least(x.neg().log1p::<I>()).mul(target.sub(one));
        T::down(of_zero.sub(of_one))
    }
    /// `grad * (x - target) / max((1 - x) * x, 1e-12)`; inputs: grad, x, target.
    pub fn binary_cross_entropy_backward<T: RealFloating>(grad: T, x: T, target: T) -> T {
        let (x, one): (_, T::Op) = (x.up(), Arith::ONE);
        let least: T::Op = Math::from_f64(1e-12);
        let product = one.sub(x).mul(x);
        let product = if product < least { least } else { product };
        T::down(grad.up().mul(x.sub(target.up())).div(product))
    }
}
