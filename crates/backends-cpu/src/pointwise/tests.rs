//! Each kernel against a naive version, at every level that the machine has: integers exhaustively, floats over special values.

use tensor_core::iter::{IterConfig, TensorIter};
use tensor_core::strides::{self, Dims};
use tensor_core::{Bool, Complex32, Element, Result, Scalar, Storage, TensorImpl, TensorRef, bf16, f16};

use super::*;
use crate::copy::copy;
use crate::isa::{Baseline, Isa, Level, V3, V4, level};
use crate::loops::views::lock;
use crate::simd::{Number, Value};

type Kernel = fn(&TensorIter) -> Result<()>;

/// A kernel at the levels that this machine has.
macro_rules! levels {
    ($kernel:ident, $t:ty) => {{
        let all: [(Level, Kernel); 3] = [
            (Level::Baseline, $kernel::<Baseline, $t>),
            (Level::V3, $kernel::<V3, $t>),
            (Level::V4, $kernel::<V4, $t>),
        ];
        all.into_iter().filter(|(l, _)| *l <= level()).map(|(_, kernel)| kernel).collect::<Vec<Kernel>>()
    }};
}

fn tensor<T: Element>(values: &[T]) -> TensorRef {
    let sizes = Dims::from_slice(&[values.len() as i64]);
    let strides = strides::contiguous(&sizes);
    TensorImpl::new(Storage::from_vec(values.to_vec()), T::DTYPE, &sizes, &strides, 0).unwrap()
}

/// What a kernel makes of its inputs.
fn run<O: Element>(kernel: Kernel, inputs: &[TensorRef], params: &[Scalar]) -> Result<Vec<O>> {
    let out = tensor(&vec![O::zeroed(); inputs.first().map_or(7, |t| t.numel() as usize)]);
    let mut config = IterConfig::new().check_all_same_dtype(false).output(Some(&out));
    for input in inputs {
        config = config.input(input);
    }
    let mut iter = config.build()?;
    iter.set_params(params);
    kernel(&iter)?;
    let locked = lock(&[&out], &[])?;
    Ok(locked.read::<O>(0)?.dense().into_owned())
}

/// Every pair of the values.
fn pairs<T: Element>(values: &[T]) -> (Vec<T>, Vec<T>) {
    values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).unzip()
}

fn i8s() -> Vec<i8> {
    (i8::MIN..=i8::MAX).collect()
}

#[track_caller]
fn integers<O: Element>(kernels: Vec<Kernel>, params: &[Scalar], divides: bool, naive: impl Fn(i64, i64) -> O) {
    let (mut a, mut b) = pairs(&i8s());
    if divides {
        (a, b) = a.into_iter().zip(b).filter(|&(_, b)| b != 0).unzip();
    }
    let inputs = [tensor(&a), tensor(&b)];
    for kernel in kernels {
        let got = run::<O>(kernel, &inputs, params).unwrap();
        for i in 0..a.len() {
            assert_eq!(got[i], naive(a[i] as i64, b[i] as i64), "{} and {}", a[i], b[i]);
        }
    }
}

fn naive_power(a: i64, b: i64) -> i8 {
    match (a, b) {
        (1, _) => 1,
        (-1, _) => 1 - 2 * (b & 1) as i8,
        (_, b) if b < 0 => 0,
        (a, b) => (0..b).fold(1i8, |p, _| p.wrapping_mul(a as i8)),
    }
}

#[test]
fn integer_operators_wrap_and_round_as_upstream() {
    let three = [Scalar::Int(3)];
    integers::<i8>(levels!(add, i8), &three, false, |a, b| (a + 3 * b) as i8);
    integers::<i8>(levels!(add, i8), &[Scalar::Int(1)], false, |a, b| (a + b) as i8);
    integers::<i8>(levels!(sub, i8), &three, false, |a, b| (a - 3 * b) as i8);
    integers::<i8>(levels!(rsub, i8), &three, false, |a, b| (b - 3 * a) as i8);
    integers::<i8>(levels!(mul, i8), &[], false, |a, b| (a * b) as i8);
    integers::<i8>(levels!(maximum, i8), &[], false, |a, b| a.max(b) as i8);
    integers::<i8>(levels!(minimum, i8), &[], false, |a, b| a.min(b) as i8);
    integers::<i8>(levels!(pow, i8), &[], false, naive_power);
    integers::<i8>(levels!(div_floor, i8), &[], true, |a, b| (a as f64 / b as f64).floor() as i64 as i8);
    integers::<i8>(levels!(div_trunc, i8), &[], true, |a, b| (a as f64 / b as f64).trunc() as i64 as i8);
    integers::<i8>(levels!(remainder, i8), &[], true, |a, b| (a - b * (a as f64 / b as f64).floor() as i64) as i8);
    integers::<i8>(levels!(fmod, i8), &[], true, |a, b| (a - b * (a as f64 / b as f64).trunc() as i64) as i8);
    integers::<i8>(levels!(bitwise_and, i8), &[], false, |a, b| (a & b) as i8);
    integers::<i8>(levels!(bitwise_or, i8), &[], false, |a, b| (a | b) as i8);
    integers::<i8>(levels!(bitwise_xor, i8), &[], false, |a, b| (a ^ b) as i8);
    integers::<i8>(
        levels!(bitwise_left_shift, i8),
        &[],
        false,
        |a, b| {
            if (0..8).contains(&b) { (a << b) as i8 } else { 0 }
        },
    );
    integers::<i8>(levels!(bitwise_right_shift, i8), &[], false, |a, b| {
        (a >> if (0..8).contains(&b) { b } else { 7 }) as i8
    });
    integers::<i8>(levels!(gcd, i8), &[], false, |a, b| {
        let (mut a, mut b) = (a.abs(), b.abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a as i8
    });
    integers::<Bool>(levels!(eq, i8), &[], false, |a, b| Bool::new(a == b));
    integers::<Bool>(levels!(lt, i8), &[], false, |a, b| Bool::new(a < b));
    integers::<Bool>(levels!(ge, i8), &[], false, |a, b| Bool::new(a >= b));
    integers::<Bool>(levels!(logical_xor, i8), &[], false, |a, b| Bool::new((a != 0) != (b != 0)));
    integers::<i8>(levels!(abs_of_first, i8), &[], false, |a, _| (a as i8).wrapping_abs());
}

crate::elementwise! {
    fn abs_of_first<T: Number>(a: T, _b: T) -> <T as Value>::Abs {
        <T as Value>::Abs::down(crate::simd::Arith::modulus::<I>(a.up()))
    }
}

#[test]
fn integer_division_by_zero_is_an_error_and_padding_is_not() {
    for n in [1usize, 5, 63, 200] {
        let (a, mut b) = (vec![9i32; n], vec![2i32; n]);
        for kernel in
            [div_floor::<Baseline, i32>, div_trunc::<Baseline, i32>, remainder::<Baseline, i32>, fmod::<Baseline, i32>]
        {
            assert!(run::<i32>(kernel, &[tensor(&a), tensor(&b)], &[]).is_ok());
        }
        b[n - 1] = 0;
        let error = run::<i32>(remainder::<Baseline, i32>, &[tensor(&a), tensor(&b)], &[]).unwrap_err();
        assert_eq!(error.message(), "ZeroDivisionError");
    }
    let smallest = run::<i64>(div_floor::<Baseline, i64>, &[tensor(&[i64::MIN]), tensor(&[-1i64])], &[]).unwrap();
    assert_eq!(smallest, [i64::MIN], "the quotient that overflows wraps");
}

#[test]
fn truth_values_of_any_byte() {
    let (a, b) = ([Bool(0), Bool(2), Bool(255), Bool(0)], [Bool(1), Bool(1), Bool(0), Bool(0)]);
    let check = |kernels: Vec<Kernel>, expected: [u8; 4]| {
        for kernel in kernels {
            let got = run::<Bool>(kernel, &[tensor(&a), tensor(&b)], &[Scalar::Int(1)]).unwrap();
            assert_eq!(got, expected.map(Bool));
        }
    };
    check(levels!(add, Bool), [1, 1, 1, 0]);
    check(levels!(mul, Bool), [0, 1, 0, 0]);
    check(levels!(eq, Bool), [0, 1, 0, 1]);
    check(levels!(gt, Bool), [0, 0, 1, 0]);
    check(levels!(maximum, Bool), [1, 1, 1, 0]);
    check(levels!(bitwise_xor, Bool), [1, 0, 1, 0]);
}

const SPECIAL: [f64; 26] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.1,
    -0.7,
    2.5,
    -2.5,
    7.25,
    -11.0,
    100.5,
    1e-3,
    -1e-5,
    30.0,
    -30.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Equal up to `tolerance`, relative to the exact value.
fn close(got: f64, exact: f64, tolerance: f64) -> bool {
    got.is_nan() && exact.is_nan() || got == exact || (got - exact).abs() <= tolerance * exact.abs().max(1e-3)
}

fn number<T: Element>(x: f64) -> T {
    T::from_scalar(Scalar::Float(x))
}

#[track_caller]
fn unary<T: Value>(kernels: Vec<Kernel>, params: &[f64], tolerance: f64, naive: impl Fn(f64) -> f64) {
    let values: Vec<T> = SPECIAL.iter().chain(&SPECIAL).chain(&SPECIAL).map(|&x| number(x)).collect();
    let params: Vec<Scalar> = params.iter().map(|&p| Scalar::Float(p)).collect();
    for kernel in kernels {
        let got = run::<T>(kernel, &[tensor(&values)], &params).unwrap();
        for (x, got) in values.iter().zip(&got) {
            let exact = number::<T>(naive(x.to_scalar().to_f64())).to_scalar().to_f64();
            assert!(close(got.to_scalar().to_f64(), exact, tolerance), "{x:?}: got {got:?}, want {exact}");
        }
    }
}

#[track_caller]
fn binary<T: Value>(kernels: Vec<Kernel>, params: &[f64], tolerance: f64, naive: impl Fn(f64, f64) -> f64) {
    let (a, b) = pairs::<T>(&SPECIAL.map(number));
    let params: Vec<Scalar> = params.iter().map(|&p| Scalar::Float(p)).collect();
    for kernel in kernels {
        let got = run::<T>(kernel, &[tensor(&a), tensor(&b)], &params).unwrap();
        for i in 0..a.len() {
            let naive = naive(a[i].to_scalar().to_f64(), b[i].to_scalar().to_f64());
            let exact = number::<T>(naive).to_scalar().to_f64();
            let got = got[i].to_scalar().to_f64();
            assert!(close(got, exact, tolerance), "{:?} and {:?}: got {got}, want {exact}", a[i], b[i]);
        }
    }
}

/// Runs a check at each real floating dtype, with a tolerance for it.
macro_rules! floats {
    ($check:ident, $kernel:ident, $params:expr, $naive:expr) => {
        $check::<f64>(levels!($kernel, f64), $params, 1e-13, $naive);
        $check::<f32>(levels!($kernel, f32), $params, 2e-6, $naive);
        $check::<f16>(levels!($kernel, f16), $params, 2e-3, $naive);
        $check::<bf16>(levels!($kernel, bf16), $params, 1.6e-2, $naive);
    };
}

fn sigmoid_of(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn erf_of(x: f64) -> f64 {
    libm::erf(x)
}

#[test]
fn unary_operators_of_floats() {
    floats!(unary, neg, &[], |x| -x);
    floats!(unary, abs, &[], f64::abs);
    floats!(unary, sign, &[], |x| if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        0.0
    });
    floats!(unary, floor, &[], f64::floor);
    floats!(unary, ceil, &[], f64::ceil);
    floats!(unary, trunc, &[], f64::trunc);
    floats!(unary, round, &[], f64::round_ties_even);
    floats!(unary, frac, &[], |x| x - x.trunc());
    floats!(unary, sqrt, &[], f64::sqrt);
    floats!(unary, reciprocal, &[], |x| 1.0 / x);
    floats!(unary, rsqrt, &[], |x| 1.0 / x.sqrt());
    floats!(unary, sigmoid, &[], sigmoid_of);
    floats!(unary, relu, &[], |x| if x > 0.0 || x.is_nan() { x } else { 0.0 });
    floats!(unary, silu, &[], |x| x * sigmoid_of(x));
    floats!(unary, threshold, &[0.25, -9.0], |x| if x <= 0.25 { -9.0 } else { x });
    floats!(unary, clamp, &[-1.25, 2.0], |x| if x.is_nan() { x } else { x.clamp(-1.25, 2.0) });
    floats!(unary, clamp_min, &[-1.25], |x| if x < -1.25 { -1.25 } else { x });
    floats!(unary, leaky_relu, &[0.125], |x| if x > 0.0 { x } else { x * 0.125 });
    floats!(unary, hardsigmoid, &[], |x| if x.is_nan() { x } else { (x + 3.0).clamp(0.0, 6.0) / 6.0 });
    floats!(unary, nan_to_num, &[1.0, 2.0, 3.0], |x| match x {
        x if x.is_nan() => 1.0,
        f64::INFINITY => 2.0,
        f64::NEG_INFINITY => 3.0,
        x => x,
    });
    floats!(unary, sin, &[], f64::sin);
    floats!(unary, cos, &[], f64::cos);
    floats!(unary, pow_tensor_scalar, &[3.0], |x| x * x * x);
    floats!(unary, pow_tensor_scalar, &[-2.0], |x| 1.0 / (x * x));
    floats!(unary, pow_tensor_scalar, &[1.5], |x| x.powf(1.5));
    unary::<f64>(levels!(gelu, f64), &[0.0], 1e-13, |x| 0.5 * x * (1.0 + erf_of(x * std::f64::consts::FRAC_1_SQRT_2)));
    unary::<f32>(levels!(gelu, f32), &[1.0], 3e-5, |x| {
        0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
    });
    unary::<f32>(levels!(elu, f32), &[1.5, 2.0, 1.0], 2e-6, |x| if x < 0.0 { 1.5 * x.exp_m1() } else { 2.0 * x });
    unary::<f64>(levels!(softplus, f64), &[2.0, 20.0], 1e-13, |x| {
        if x * 2.0 > 20.0 { x } else { (x * 2.0).exp().ln_1p() / 2.0 }
    });
}

#[test]
fn far_arguments_of_circular_functions() {
    let mut values = vec![0.5f32; 300];
    values[130] = 1e20;
    values[299] = -3.4e38;
    for kernel in levels!(sin, f32) {
        let got = run::<f32>(kernel, &[tensor(&values)], &[]).unwrap();
        for (x, got) in values.iter().zip(got) {
            assert!((got as f64 - (*x as f64).sin()).abs() < 1e-7, "{x}");
        }
    }
}

fn floor_division(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    let r = a % b;
    let mut q = (a - r) / b;
    if r != 0.0 && (b < 0.0) != (r < 0.0) {
        q -= 1.0;
    }
    if q == 0.0 { 0f64.copysign(a / b) } else { (q + 0.5).floor() }
}

fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn remainder_of(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (b < 0.0) != (r < 0.0) { r + b } else { r }
}

#[test]
fn binary_operators_of_floats() {
    floats!(binary, add, &[2.0], |a, b| a + 2.0 * b);
    floats!(binary, sub, &[2.0], |a, b| a - 2.0 * b);
    floats!(binary, mul, &[], |a, b| a * b);
    floats!(binary, div, &[], |a, b| a / b);
    floats!(binary, maximum, &[], larger);
    floats!(binary, fmax, &[], f64::max);
    floats!(binary, fmin, &[], f64::min);
    floats!(binary, copysign, &[], f64::copysign);
    floats!(binary, lerp_scalar, &[0.25], |a, b| a + 0.25 * (b - a));
    floats!(binary, sigmoid_backward, &[], |g, y| g * (1.0 - y) * y);
    floats!(binary, tanh_backward, &[], |g, y| g * (1.0 - y * y));
    floats!(binary, threshold_backward, &[0.5], |x, g| if x <= 0.5 { 0.0 } else { g });
    floats!(binary, mse_loss, &[], |a, b| (a - b) * (a - b));
    binary::<f32>(levels!(pow, f32), &[], 1e-6, f64::powf);
    binary::<f64>(levels!(pow, f64), &[], 1e-14, f64::powf);
    binary::<f32>(levels!(div_floor, f32), &[], 1e-6, |a, b| floor_division(a as f32 as f64, b as f32 as f64));
    binary::<f64>(levels!(div_floor, f64), &[], 1e-15, floor_division);
    binary::<f64>(levels!(div_trunc, f64), &[], 1e-15, |a, b| (a / b).trunc());
    binary::<f32>(levels!(fmod, f32), &[], 0.0, |a, b| a % b);
    binary::<f64>(levels!(fmod, f64), &[], 0.0, |a, b| a % b);
    binary::<f64>(levels!(remainder, f64), &[], 1e-15, remainder_of);
    binary::<f64>(levels!(silu_backward, f64), &[], 1e-13, |g, x| {
        let s = sigmoid_of(x);
        g * s * (1.0 + x * (1.0 - s))
    });
    binary::<f64>(levels!(gelu_backward, f64), &[0.0], 1e-12, |g, x| {
        let cdf = 0.5 * (1.0 + erf_of(x * std::f64::consts::FRAC_1_SQRT_2));
        g * (cdf + x * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt())
    });
}

#[test]
fn remainders_of_far_quotients_are_exact() {
    let a: Vec<f64> = (0..500).map(|i| 1e15 * (i as f64 + 0.3) * if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let b: Vec<f64> = (0..500).map(|i| 0.7 + i as f64 * 1e-3).collect();
    for kernel in levels!(fmod, f64) {
        let got = run::<f64>(kernel, &[tensor(&a), tensor(&b)], &[]).unwrap();
        assert!((0..500).all(|i| got[i] == a[i] % b[i]));
    }
    let (a, b) = (a.iter().map(|&x| x as f32).collect::<Vec<_>>(), b.iter().map(|&x| x as f32).collect::<Vec<_>>());
    for kernel in levels!(fmod, f32) {
        let got = run::<f32>(kernel, &[tensor(&a), tensor(&b)], &[]).unwrap();
        assert!((0..500).all(|i| got[i] == a[i] % b[i]));
    }
}

#[test]
fn choices_and_ternary_operators() {
    let n = 300;
    let mask: Vec<Bool> = (0..n).map(|i| Bool((i % 3 == 0) as u8 * 7)).collect();
    let (a, b): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (i as f32, -(i as f32))).unzip();
    for kernel in levels!(where_self, f32) {
        let got = run::<f32>(kernel, &[tensor(&mask), tensor(&a), tensor(&b)], &[]).unwrap();
        assert!((0..n).all(|i| got[i] == if i % 3 == 0 { a[i] } else { b[i] }));
    }
    for kernel in levels!(masked_fill, f32) {
        let got = run::<f32>(kernel, &[tensor(&a), tensor(&mask)], &[Scalar::Float(0.5)]).unwrap();
        assert!((0..n).all(|i| got[i] == if i % 3 == 0 { 0.5 } else { a[i] }));
    }
    for kernel in levels!(addcmul, f32) {
        let got = run::<f32>(kernel, &[tensor(&a), tensor(&b), tensor(&a)], &[Scalar::Float(2.0)]).unwrap();
        assert!((0..n).all(|i| got[i] == a[i] + 2.0 * b[i] * a[i]));
    }
    for kernel in levels!(clamp_tensor, f32) {
        let got = run::<f32>(kernel, &[tensor(&a), tensor(&b), tensor(&vec![9f32; n])], &[]).unwrap();
        assert!((0..n).all(|i| got[i] == a[i].min(9.0)));
    }
}

#[test]
fn complex_operators() {
    let c = Complex32::new;
    let values = [c(1.0, 2.0), c(-3.0, 0.5), c(0.0, 0.0), c(2.0, -1.0), c(0.25, 0.0), c(0.0, -4.0)];
    let (a, b) = pairs(&values);
    for kernel in levels!(div, Complex32) {
        let got = run::<Complex32>(kernel, &[tensor(&a), tensor(&b)], &[]).unwrap();
        for i in 0..a.len() {
            if b[i] == c(0.0, 0.0) {
                assert!(!got[i].re.is_finite());
            } else {
                assert!((got[i] - a[i] / b[i]).norm() < 1e-6, "{} / {} = {}", a[i], b[i], got[i]);
            }
        }
    }
    for kernel in levels!(abs, Complex32) {
        let got = run::<f32>(kernel, &[tensor(&values)], &[]).unwrap();
        assert!(got.iter().zip(values).all(|(m, z)| (m - z.norm()).abs() < 1e-6));
    }
    for kernel in levels!(exp, Complex32) {
        let got = run::<Complex32>(kernel, &[tensor(&values)], &[]).unwrap();
        assert!(got.iter().zip(values).all(|(e, z)| (e - z.exp()).norm() < 1e-6 * z.exp().norm()));
    }
}

#[test]
fn casts_between_all_dtypes() {
    fn check<I: Isa, S: Value>() {
        let values: Vec<S> = (0..300).map(|i| S::from_scalar(Scalar::Int(i % 100))).collect();
        macro_rules! to {
            ($($t:ty)*) => { $(
                let got = run::<$t>(copy::<I, $t>, &[tensor(&values)], &[]).unwrap();
                for (x, y) in values.iter().zip(got) {
                    assert_eq!(y, <$t>::from_scalar(x.to_scalar()), "{x:?} to {}", stringify!($t));
                }
            )* };
        }
        to!(u8 i8 i16 i32 i64 f16 bf16 f32 f64 Bool Complex32 tensor_core::Complex64);
    }
    macro_rules! from {
        ($($t:ty)*) => { $(
            check::<Baseline, $t>();
            crate::with_level!(I => check::<I, $t>());
        )* };
    }
    from!(u8 i8 i16 i32 i64 f16 bf16 f32 f64 Bool Complex32 tensor_core::Complex64);
}

/// A body that LLVM gives up vectorising is right and slow, so nothing else would tell.
#[cfg(not(debug_assertions))]
#[test]
fn the_best_level_vectorises_the_hot_functions() {
    let values: Vec<f32> = (0..16_384).map(|i| (i % 77) as f32 * 0.1 - 3.0).collect();
    let (input, out) = (tensor(&values), tensor(&values));
    let iter = IterConfig::unary_op(Some(&out), &input).build().unwrap();
    let fastest = |run: &dyn Fn()| {
        (0..20).map(|_| (std::time::Instant::now(), run()).0.elapsed()).min().unwrap_or_default().as_secs_f64()
    };
    if level() == Level::Baseline {
        return;
    }
    let mut copy = values.clone();
    let scalar = fastest(&|| {
        for (y, x) in std::hint::black_box(&copy).iter().zip(&values) {
            std::hint::black_box(y + x.exp());
        }
    });
    copy.clear();
    for (name, kernels) in [
        ("exp", levels!(exp, f32)),
        ("tanh", levels!(tanh, f32)),
        ("sigmoid", levels!(sigmoid, f32)),
        ("log", levels!(log, f32)),
        ("sin", levels!(sin, f32)),
    ] {
        let kernel = kernels[kernels.len() - 1];
        let vector = fastest(&|| kernel(&iter).unwrap());
        assert!(vector < 0.7 * scalar, "{name}: {vector} s against {scalar} s for scalar exp");
    }
}
