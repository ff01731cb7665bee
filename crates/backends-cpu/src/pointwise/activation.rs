//! Activations of neural networks and their gradients. In a gradient, `grad` comes first.

use tensor_core::iter::TensorIter;
use tensor_core::{DType, Result};

use crate::elementwise;
use crate::isa::Isa;
use crate::simd::{Arith, Floating, Math, Ordered, Real, RealFloating, RealMath};

/// A constant of the computation's type.
macro_rules! c {
    ($value:expr) => {
        Math::from_f64($value)
    };
}

const SQRT_HALF: f64 = std::f64::consts::FRAC_1_SQRT_2;
/// sqrt(2 / pi), and the cubic term of the tanh form of GELU.
const BETA: f64 = std::f64::consts::FRAC_2_SQRT_PI * SQRT_HALF;
const KAPPA: f64 = 0.044715;

elementwise! {
    /// `max(x, 0)`; NaN stays.
    pub fn relu<T: Ordered>(x: T) -> T { T::down(x.up().maximum(<T::Op as Arith>::ZERO)) }

    /// `x` above parameter 0, else parameter 1.
    pub fn threshold<T: Ordered>(x: T; limit: T::Op, value: T::Op) -> T {
        T::down(if x.up() <= limit { value } else { x.up() })
    }
    /// `grad` where `x` is above parameter 0, else 0; inputs: x, grad.
    pub fn threshold_backward<T: Ordered>(x: T, grad: T; limit: T::Op) -> T {
        T::down(if x.up() <= limit { <T::Op as Arith>::ZERO } else { grad.up() })
    }

    /// `x / (1 + exp(-x))`
    pub fn silu<T: Floating>(x: T) -> T { T::down(x.up().mul(x.up().sigmoid::<I>())) }
    /// `grad * s * (1 + x * (1 - s))`, s = sigmoid(x)
    pub fn silu_backward<T: Floating>(grad: T, x: T) -> T {
        let (x, one) = (x.up(), <T::Op as Arith>::ONE);
        let s = x.sigmoid::<I>();
        T::down(grad.up().mul(s).mul(one.add(x.mul(one.sub(s)))))
    }

    /// `grad * conj(y * (1 - y))`
    pub fn sigmoid_backward<T: Floating>(grad: T, y: T) -> T {
        let y = y.up();
        T::down(grad.up().mul(<T::Op as Arith>::ONE.sub(y).mul(y).conj()))
    }
    /// `grad * conj(1 - y * y)`
    pub fn tanh_backward<T: Floating>(grad: T, y: T) -> T {
        let y = y.up();
        T::down(grad.up().mul(<T::Op as Arith>::ONE.sub(y.mul(y)).conj()))
    }

    fn gelu_erf<T: RealFloating>(x: T) -> T {
        let x = x.up();
        // But for f64, PyTorch's is no number at either infinity.
        let odd = T::DTYPE != DType::F64;
        let x = if odd & !x.is_finite() { c!(f64::NAN) } else { x };
        // Twice the product, then half: it overflows where PyTorch's does.
        T::down(x.add(x).mul(x.normal_cdf::<I>()).mul(c!(0.5)))
    }
    // (1 + tanh(y)) / 2 is sigmoid(2 y), which needs no second branch near 0.
    fn gelu_tanh<T: RealFloating>(x: T) -> T {
        let x = x.up();
        let inner = x.add(x.mul(x).mul(x).mul(c!(KAPPA))).mul(c!(2.0 * BETA));
        T::down(x.mul(inner.sigmoid::<I>()))
    }
    fn gelu_erf_backward<T: RealFloating>(grad: T, x: T) -> T {
        let x = x.up();
        let pdf = x.mul(x).mul(c!(-0.5)).exp::<I>().mul(c!(BETA * 0.5));
        T::down(grad.up().mul(x.normal_cdf::<I>().add(x.mul(pdf))))
    }
    fn gelu_tanh_backward<T: RealFloating>(grad: T, x: T) -> T {
        let (x, one) = (x.up(), <T::Op as Arith>::ONE);
        let inner = x.add(x.mul(x).mul(x).mul(c!(KAPPA))).mul(c!(2.0 * BETA));
        let s = inner.sigmoid::<I>();
        let slope = one.add(x.mul(x).mul(c!(3.0 * KAPPA))).mul(c!(2.0 * BETA));
        T::down(grad.up().mul(s.add(x.mul(slope).mul(s.mul(one.sub(s))))))
    }

    /// `x` above 0, else parameter 0 times `x`.
    pub fn leaky_relu<T: RealFloating>(x: T; slope: T::Op) -> T {
        let x = x.up();
        T::down(if x > <T::Op as Arith>::ZERO { x } else { x.mul(slope) })
    }
    /// `grad` where `x` is above 0, else parameter 0 times `grad`.
    pub fn leaky_relu_backward<T: RealFloating>(grad: T, x: T; slope: T::Op) -> T {
        let grad = grad.up();
        T::down(if x.up() > <T::Op as Arith>::ZERO { grad } else { grad.mul(slope) })
    }
    /// `x` above 0, else `x * weight`.
    pub fn prelu<T: RealFloating>(x: T, weight: T) -> T {
        let x = x.up();
        T::down(if x > <T::Op as Arith>::ZERO { x } else { x.mul(weight.up()) })
    }
    /// The gradients of `prelu`: outputs of x and weight; inputs: x, weight, grad.
    pub fn prelu_backward<T: RealFloating>(x: T, weight: T, grad: T) -> (T, T) {
        let (x, grad, zero) = (x.up(), grad.up(), <T::Op as Arith>::ZERO);
        let above = x > zero;
        let of_x = if above { grad } else { weight.up().mul(grad) };
        let of_weight = if above { zero } else { x.mul(grad) };
        (T::down(of_x), T::down(of_weight))
    }

    /// `scale * x` above 0, else `alpha * (exp(x * input_scale) - 1)`; parameters: alpha * scale, scale, input_scale.
    pub fn elu<T: RealFloating>(x: T; negative: T::Op, positive: T::Op, inner: T::Op) -> T {
        let x = x.up();
        let below = x.mul(inner).expm1::<I>().mul(negative);
        T::down(if x < <T::Op as Arith>::ZERO { below } else { x.mul(positive) })
    }
    /// The gradient of `elu` by its input; parameters as there.
    pub fn elu_backward<T: RealFloating>(grad: T, x: T; negative: T::Op, positive: T::Op, inner: T::Op) -> T {
        let (grad, x) = (grad.up(), x.up());
        let below = grad.mul(inner).mul(negative).mul(x.mul(inner).exp::<I>());
        T::down(if x <= <T::Op as Arith>::ZERO { below } else { grad.mul(positive) })
    }
    /// The gradient of `elu` by its result; parameters as there.
    pub fn elu_backward_result<T: RealFloating>(grad: T, y: T; negative: T::Op, positive: T::Op, inner: T::Op) -> T {
        let (grad, y) = (grad.up(), y.up());
        let below = grad.mul(inner).mul(y.add(negative));
        T::down(if y <= <T::Op as Arith>::ZERO { below } else { grad.mul(positive) })
    }

    /// `log(1 + exp(beta x)) / beta`, linear where `beta x` is above the limit; parameters: beta, limit.
    pub fn softplus<T: RealFloating>(x: T; beta: T::Op, limit: T::Op) -> T {
        let x = x.up();
        let scaled = x.mul(beta);
        T::down(if scaled > limit { x } else { scaled.exp::<I>().log1p::<I>().div(beta) })
    }
    /// The gradient of `softplus`; parameters as there.
    pub fn softplus_backward<T: RealFloating>(grad: T, x: T; beta: T::Op, limit: T::Op) -> T {
        let (grad, scaled) = (grad.up(), x.up().mul(beta));
        let z = scaled.exp::<I>();
        T::down(if scaled > limit { grad } else { grad.mul(z).div(z.add(<T::Op as Arith>::ONE)) })
    }

    /// `log(sigmoid(x))`
    pub fn log_sigmoid<T: RealFloating>(x: T) -> T {
        let (x, zero) = (x.up(), <T::Op as Arith>::ZERO);
        T::down(x.minimum(zero).sub(x.abs().neg().exp::<I>().log1p::<I>()))
    }
    /// `grad * (1 - sigmoid(x))`
    pub fn log_sigmoid_backward<T: RealFloating>(grad: T, x: T) -> T {
        T::down(grad.up().mul(x.up().neg().sigmoid::<I>()))
    }

    /// `x * tanh(softplus(x))`
    pub fn mish<T: RealFloating>(x: T) -> T {
        let x = x.up();
        T::down(x.mul(x.exp::<I>().log1p::<I>().tanh::<I>()))
    }
    /// The gradient of `mish`.
    pub fn mish_backward<T: RealFloating>(grad: T, x: T) -> T {
        let (x, one) = (x.up(), <T::Op as Arith>::ONE);
        let t = x.exp::<I>().log1p::<I>().tanh::<I>();
        T::down(grad.up().mul(t.add(x.mul(x.sigmoid::<I>()).mul(one.sub(t.mul(t))))))
    }

    /// `min(max(x + 3, 0), 6) / 6`
    pub fn hardsigmoid<T: RealFloating>(x: T) -> T {
        T::down(x.up().add(c!(3.0)).maximum(c!(0.0)).minimum(c!(6.0)).div(c!(6.0)))
    }
    /// The gradient of `hardsigmoid`.
    pub fn hardsigmoid_backward<T: RealFloating>(grad: T, x: T) -> T {
        let (x, three): (_, T::Op) = (x.up(), c!(3.0));
        let inside = (x > three.neg()) & (x < three);
        T::down(if inside { grad.up().div(c!(6.0)) } else { <T::Op as Arith>::ZERO })
    }
    /// `x * min(max(x + 3, 0), 6) / 6`
    pub fn hardswish<T: RealFloating>(x: T) -> T {
        let x = x.up();
        T::down(x.mul(x.add(c!(3.0)).maximum(c!(0.0)).minimum(c!(6.0))).div(c!(6.0)))
    }
    /// The gradient of `hardswish`.
    pub fn hardswish_backward<T: RealFloating>(grad: T, x: T) -> T {
        let (grad, x, three, zero): (_, _, T::Op, _) = (grad.up(), x.up(), c!(3.0), <T::Op as Arith>::ZERO);
        let half: T::Op = c!(0.5);
        let middle = grad.mul(x.div(three).add(half));
        let upper = if x < three { middle } else { grad };
        T::down(if x <= three.neg() { zero } else { upper })
    }
    /// `grad` where `x` lies within parameters 0 and 1, else 0.
    pub fn hardtanh_backward<T: RealFloating>(grad: T, x: T; low: T::Op, high: T::Op) -> T {
        let outside = (x.up() <= low) | (x.up() >= high);
        T::down(if outside { <T::Op as Arith>::ZERO } else { grad.up() })
    }
    /// `x` where its magnitude is above parameter 0, else 0.
    pub fn hardshrink<T: RealFloating>(x: T; limit: T::Op) -> T {
        let v = x.up();
        T::down(if (v >= limit.neg()) & (v <= limit) { <T::Op as Arith>::ZERO } else { v })
    }
    /// `x` moved towards 0 by parameter 0.
    pub fn softshrink<T: RealFloating>(x: T; limit: T::Op) -> T {
        let v = x.up();
        let below = if v < limit.neg() { v.add(limit) } else { v.mul(<T::Op as Arith>::ZERO) };
        T::down(if v > limit { v.sub(limit) } else { below })
    }
    /// `grad` where the magnitude of `x` is above parameter 0, else 0: the gradient of both shrinks.
    pub fn shrink_backward<T: RealFloating>(grad: T, x: T; limit: T::Op) -> T {
        let v = x.up();
        T::down(if (v >= limit.neg()) & (v <= limit) { <T::Op as Arith>::ZERO } else { grad.up() })
    }

    /// `a * sigmoid(b)`
    pub fn glu<T: RealFloating>(a: T, b: T) -> T { T::down(a.up().mul(b.up().sigmoid::<I>())) }
}

/// `x * Phi(x)`, or its tanh form where parameter 0 is true.
pub fn gelu<I: Isa, T: RealFloating>(iter: &TensorIter) -> Result<()> {
    if iter.param(0).to_bool() { gelu_tanh::<I, T>(iter) } else { gelu_erf::<I, T>(iter) }
}

/// The gradient of `gelu`, or of its tanh form where parameter 0 is true.
pub fn gelu_backward<I: Isa, T: RealFloating>(iter: &TensorIter) -> Result<()> {
    if iter.param(0).to_bool() { gelu_tanh_backward::<I, T>(iter) } else { gelu_erf_backward::<I, T>(iter) }
}
