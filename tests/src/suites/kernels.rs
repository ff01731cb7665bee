//! Kernels against one scalar at a time: any strides, every length of a tail, each instruction-set level that the machine
//! has; and the same bits for any number of threads.
//!
//! Each level runs in a process of its own, since the level is picked once (`TENSOR_CPU_LEVEL`). Builds with debug assertions
//! compile the lowest level alone.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use tensor::config;
use tensor::ops;
use tensor::prelude::*;

use crate::child::alone;

const LEVELS: &[&str] = if cfg!(debug_assertions) { &["baseline"] } else { &["baseline", "v3", "v4"] };
const CASES: u32 = if cfg!(debug_assertions) { 60 } else { 400 };

/// Runs a property at each level.
macro_rules! at_each_level {
    ($name:ident => $body:expr) => {
        for level in LEVELS {
            alone!($name, 120, &[("TENSOR_CPU_LEVEL", level)] => {
                let (usage, wanted) = (config::show(), std::env::var("TENSOR_CPU_LEVEL").unwrap());
                // A machine that lacks the level runs its best one; every machine has the lowest.
                assert!(usage.contains(&format!("usage: {wanted}")) || wanted != LEVELS[0], "{usage}");
                $body
            });
        }
    };
}

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug)]
enum Lies {
    Dense,
    /// behind other elements, so that vectors are not aligned
    Behind(i64),
    /// every so manieth element of each row
    Apart(i64),
    /// dimensions in the other order
    Turned,
    /// one dimension repeated without memory
    Expanded(usize),
}

fn lies() -> impl Strategy<Value = Lies> {
    prop_oneof![
        Just(Lies::Dense),
        (1..4i64).prop_map(Lies::Behind),
        (2..4i64).prop_map(Lies::Apart),
        Just(Lies::Turned),
        (0..3usize).prop_map(Lies::Expanded),
    ]
}

/// Vectors of every length up to 70, and matrices and more of rows like that.
fn shape() -> impl Strategy<Value = Vec<i64>> {
    prop_oneof![
        4 => (0..=70i64).prop_map(|n| vec![n]),
        1 => Just(vec![]),
        3 => (1..=5i64, 0..=70i64).prop_map(|(a, b)| vec![a, b]),
        2 => (1..=4i64, 1..=6i64, 1..=20i64).prop_map(|(a, b, c)| vec![a, b, c]),
        1 => (1..=70i64, 1..=3i64).prop_map(|(a, b)| vec![a, b]),
    ]
}

/// Numbers of a dtype that look random, special ones among them.
fn numbers(n: usize, seed: u64, dtype: DType) -> Vec<f64> {
    let special = [0.0, -0.0, 1.0, -1.0, 0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-3, 60.0];
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let number = |bits: u64, choice: u64| match dtype {
        DType::Bool => (bits % 2) as f64,
        DType::U8 => (bits % 12) as f64,
        dtype if dtype.is_integral(false) => (bits % 23) as f64 - 11.0,
        _ if choice.is_multiple_of(16) => special[(bits % 10) as usize],
        // Few enough digits to be exact in half precision.
        _ => ((bits % 513) as f64 - 256.0) / 64.0,
    };
    (0..n).map(|_| number(next(), next())).collect()
}

/// A tensor of a dtype and shape that lies in memory as it is told to.
fn make(sizes: &[i64], lies: Lies, seed: u64, dtype: DType) -> Result<Tensor> {
    let fresh = |sizes: &[i64]| -> Result<Tensor> {
        let numel = sizes.iter().product::<i64>() as usize;
        Tensor::from_vec(numbers(numel, seed, dtype), sizes)?.to_dtype(dtype)
    };
    let ndim = sizes.len();
    match lies {
        Lies::Behind(gap) if ndim > 0 => {
            let mut wide = sizes.to_vec();
            wide[0] += gap;
            fresh(&wide)?.narrow(0, gap, sizes[0])
        }
        Lies::Apart(step) if ndim > 0 => {
            let mut wide = sizes.to_vec();
            wide[ndim - 1] *= step;
            let x = ops::slice(&fresh(&wide)?, ndim as i64 - 1, Some(1), None, step)?;
            x.narrow(-1, 0, sizes[ndim - 1])
        }
        Lies::Turned => {
            let turned: Vec<i64> = sizes.iter().rev().copied().collect();
            fresh(&turned)?.permute(&(0..ndim as i64).rev().collect::<Vec<_>>())
        }
        Lies::Expanded(d) if d < ndim => {
            let mut thin = sizes.to_vec();
            thin[d] = 1;
            fresh(&thin)?.expand(sizes)
        }
        _ => fresh(sizes),
    }
}

fn doubles(x: &Tensor) -> Vec<f64> {
    x.to_dtype(DType::F64).unwrap().to_vec().unwrap()
}

/// The distance from 1 to the next number.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::F32 => f32::EPSILON as f64,
        DType::F64 => f64::EPSILON,
        _ => 0.0,
    }
}

/// Compares up to `ulps` units in the last place; 0 means the same number. Results of half precision are rounded twice.
fn compare(what: &str, got: &Tensor, expected: &[f64], ulps: f64) -> Result<(), TestCaseError> {
    let dtype = got.dtype();
    let ulps = if matches!(dtype, DType::F16 | DType::BF16) { ulps.max(1.0) } else { ulps };
    let values = doubles(got);
    prop_assert_eq!(values.len(), expected.len(), "{}", what);
    for (i, (&g, &e)) in values.iter().zip(expected).enumerate() {
        let rounded = if dtype == DType::F32 { e as f32 as f64 } else { e };
        // Beyond the largest number of half precision; numbers too small to be normal.
        let far = dtype == DType::F16 && e.abs() > 65000.0;
        let tolerance = ulps * epsilon(dtype) * e.abs().max(2f64.powi(-14));
        let close = g == rounded || (g.is_nan() && e.is_nan()) || (g - e).abs() <= tolerance || far;
        prop_assert!(close, "{} of {}: element {} is {}, expected {}", what, dtype, i, g, e);
    }
    Ok(())
}

type Unary = (&'static str, fn(&Tensor) -> Result<Tensor>, fn(f64) -> f64, f64);
type Binary = (&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>, fn(f64, f64) -> f64, f64);

fn truth(b: bool) -> f64 {
    f64::from(u8::from(b))
}

/// The larger; NaN if one is.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn smaller(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

/// For all numeric dtypes.
const UNARY: [Unary; 8] = [
    ("abs", Tensor::abs, f64::abs, 0.0),
    ("square", |x| x.pow(2), |x| x * x, 0.0),
    ("ge 1", |x| x.ge_scalar(1), |x| truth(x >= 1.0), 0.0),
    ("ne 0", |x| x.ne_scalar(0), |x| truth(x != 0.0), 0.0),
    ("clamp", |x| x.clamp_opt(Some(1.into()), Some(4.into())), |x| if x.is_nan() { x } else { x.clamp(1.0, 4.0) }, 0.0),
    ("relu", Tensor::relu, |x| larger(x, 0.0), 0.0),
    ("logical_not", Tensor::logical_not, |x| truth(x == 0.0), 0.0),
    ("twice", |x| x * 2, |x| x * 2.0, 0.0),
];

/// For floating dtypes.
const FLOATING: [Unary; 14] = [
    ("neg", Tensor::neg, |x| -x, 0.0),
    ("floor", Tensor::floor, f64::floor, 0.0),
    ("ceil", Tensor::ceil, f64::ceil, 0.0),
    ("sqrt", Tensor::sqrt, f64::sqrt, 0.0),
    ("reciprocal", Tensor::reciprocal, |x| 1.0 / x, 0.5),
    ("rsqrt", Tensor::rsqrt, |x| 1.0 / x.sqrt(), 1.5),
    ("exp", Tensor::exp, f64::exp, 2.0),
    ("log", Tensor::log, f64::ln, 2.0),
    ("sin", Tensor::sin, f64::sin, 2.0),
    ("cos", Tensor::cos, f64::cos, 2.0),
    ("tanh", Tensor::tanh, f64::tanh, 2.0),
    ("sigmoid", Tensor::sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 3.0),
    ("silu", |x| ops::silu(x), |x| x / (1.0 + (-x).exp()), 4.0),
    ("isnan", Tensor::isnan, |x| truth(x.is_nan()), 0.0),
];

const BINARY: [Binary; 9] = [
    ("add", |x, y| x + y, |x, y| x + y, 0.0),
    ("mul", |x, y| x * y, |x, y| x * y, 0.0),
    ("maximum", |x, y| x.maximum(y), larger, 0.0),
    ("minimum", |x, y| x.minimum(y), smaller, 0.0),
    ("eq", |x, y| x.eq(y), |x, y| truth(x == y), 0.0),
    ("lt", |x, y| x.lt(y), |x, y| truth(x < y), 0.0),
    ("ge", |x, y| x.ge(y), |x, y| truth(x >= y), 0.0),
    ("where", |x, y| x.where_self(y.gt_scalar(0)?, y), |x, y| if y > 0.0 { x } else { y }, 0.0),
    ("logical_and", |x, y| x.logical_and(y), |x, y| truth(x != 0.0 && y != 0.0), 0.0),
];

const FLOATING_BINARY: [Binary; 3] = [
    ("sub", |x, y| x - y, |x, y| x - y, 0.0),
    ("div", |x, y| x / y, |x, y| x / y, 0.0),
    ("add 0.5", |x, y| ops::add(x, y, 0.5), |x, y| x + 0.5 * y, 1.0),
];

const DTYPES: [DType; 8] =
    [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32, DType::I16, DType::U8];

fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(&DTYPES[..])
}

/// Runs a property over many cases, without files of failures.
fn property<S: Strategy>(strategy: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    if let Err(error) = TestRunner::new(config).run(&strategy, test) {
        panic!("{error}");
    }
}

fn fail(error: Error) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

#[test]
fn pointwise_kernels() {
    at_each_level!(pointwise_kernels => property(
        (shape(), lies(), lies(), dtype(), any::<u64>()),
        |(sizes, first, second, dtype, seed)| {
            let x = make(&sizes, first, seed, dtype).map_err(fail)?;
            let y = make(&sizes, second, !seed, dtype).map_err(fail)?;
            let (a, b) = (doubles(&x), doubles(&y));
            let floating = dtype.is_floating_point();
            for (name, op, naive, ulps) in UNARY.iter().chain(if floating { &FLOATING[..] } else { &[] }) {
                let expected: Vec<f64> = a.iter().map(|&v| naive(v)).collect();
                let got = op(&x).map_err(fail)?;
                prop_assert_eq!(got.sizes(), x.sizes(), "{}", name);
                compare(name, &got, &expected, *ulps)?;
            }
            for (name, op, naive, ulps) in BINARY.iter().chain(if floating { &FLOATING_BINARY[..] } else { &[] }) {
                let expected: Vec<f64> = a.iter().zip(&b).map(|(&v, &w)| naive(v, w)).collect();
                compare(name, &op(&x, &y).map_err(fail)?, &expected, *ulps)?;
            }
            // In place, on elements that lie apart: what lies between stays.
            let wide = make(&[2, a.len() as i64, 2], Lies::Dense, seed, dtype).map_err(fail)?;
            let before = doubles(&wide);
            let part = wide.select(0, 1).and_then(|row| row.select(-1, 0)).map_err(fail)?;
            let (old, flat) = (doubles(&part), y.reshape(&[-1]).map_err(fail)?);
            part.add_(&flat).map_err(fail)?;
            let sums: Vec<f64> = old.iter().zip(&b).map(|(v, w)| v + w).collect();
            compare("add_", &part, &sums, 0.0)?;
            let same = |(i, (&now, &then)): (usize, (&f64, &f64))| {
                (i >= 2 * a.len() && i % 2 == 0) || now == then || (now.is_nan() && then.is_nan())
            };
            prop_assert!(doubles(&wide).iter().zip(&before).enumerate().all(same), "add_ wrote between its elements");
            // Another dtype, and operands of two.
            for to in [DType::F64, DType::F32, DType::I32, DType::Bool] {
                let finite = x.masked_fill_scalar(x.isnan().map_err(fail)?, 0).and_then(|x| x.clamp_opt(Some(0.into()), Some(200.into()))).map_err(fail)?;
                let expected: Vec<f64> = doubles(&finite).into_iter().map(|v| match to {
                    DType::I32 => v.trunc(),
                    DType::Bool => truth(v != 0.0),
                    _ => v,
                }).collect();
                compare("to", &finite.to_dtype(to).map_err(fail)?, &expected, 0.0)?;
            }
            Ok(())
        },
    ));
}

/// The elements along dimension `d` for each place of the others, in row-major order.
fn lanes(values: &[f64], sizes: &[i64], d: usize) -> Vec<Vec<f64>> {
    let inner: usize = sizes[d + 1..].iter().product::<i64>() as usize;
    let (outer, n) = (sizes[..d].iter().product::<i64>() as usize, sizes[d] as usize);
    let lane = |o: usize, i: usize| (0..n).map(|k| values[(o * n + k) * inner + i]).collect();
    (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))).map(|(o, i)| lane(o, i)).collect()
}

fn first_of(lane: &[f64], wins: fn(f64, f64) -> bool) -> f64 {
    let better = |best: usize, i: usize| {
        let (b, v) = (lane[best], lane[i]);
        if !b.is_nan() && (v.is_nan() || wins(v, b)) { i } else { best }
    };
    (1..lane.len()).fold(0, better) as f64
}

#[test]
fn reductions() {
    type Naive = fn(&[f64]) -> f64;
    type Reduction = (&'static str, fn(&Tensor, i64) -> Result<Tensor>, Naive, f64);
    const EXACT: [Reduction; 6] = [
        ("amax", |x, d| x.amax_opt(&[d], false), |l| l.iter().copied().fold(f64::NEG_INFINITY, larger), 0.0),
        ("amin", |x, d| x.amin_opt(&[d], false), |l| l.iter().copied().fold(f64::INFINITY, smaller), 0.0),
        ("argmax", |x, d| x.argmax_opt(Some(d), false), |l| first_of(l, |a, b| a > b), 0.0),
        ("argmin", |x, d| x.argmin_opt(Some(d), false), |l| first_of(l, |a, b| a < b), 0.0),
        ("any", |x, d| x.any_dim(d), |l| truth(l.iter().any(|&v| v != 0.0)), 0.0),
        ("all", |x, d| x.all_dim(d), |l| truth(l.iter().all(|&v| v != 0.0)), 0.0),
    ];
    // Sums of integers, and of numbers whose sums are exact; the others to within rounding of each step.
    const SUMS: [Reduction; 2] = [
        ("sum", |x, d| x.sum_dim(&[d], false), |l| l.iter().sum(), 8.0),
        ("sum twice", |x, d| (x * 2)?.sum_dim_opt(Some(&[d]), false, None), |l| 2.0 * l.iter().sum::<f64>(), 8.0),
    ];
    const FLOATS: [Reduction; 3] = [
        ("mean", |x, d| x.mean_dim(&[d], false), |l| l.iter().sum::<f64>() / l.len() as f64, 8.0),
        (
            "logsumexp",
            |x, d| x.logsumexp(&[d]),
            |l| {
                let most = l.iter().copied().fold(f64::NEG_INFINITY, larger);
                let most = if most.is_infinite() { 0.0 } else { most };
                l.iter().map(|v| (v - most).exp()).sum::<f64>().ln() + most
            },
            32.0,
        ),
        (
            "softmax 0",
            |x, d| x.softmax(d)?.select(d, 0),
            |l| {
                let most = l.iter().copied().fold(f64::NEG_INFINITY, larger);
                (l[0] - most).exp() / l.iter().map(|v| (v - most).exp()).sum::<f64>()
            },
            32.0,
        ),
    ];
    at_each_level!(reductions => property(
        (shape(), lies(), dtype(), any::<u64>(), 0..3usize),
        |(sizes, lies, dtype, seed, d)| {
            let x = make(&sizes, lies, seed, dtype).map_err(fail)?;
            if d >= sizes.len() || sizes.contains(&0) {
                return Ok(());
            }
            let floating = dtype.is_floating_point();
            let all = lanes(&doubles(&x), &sizes, d);
            let floats: &[Reduction] = if floating { &FLOATS } else { &[] };
            for (name, op, naive, ulps) in EXACT.iter().chain(&SUMS).chain(floats) {
                let expected: Vec<f64> = all.iter().map(|lane| naive(lane)).collect();
                let got = op(&x, d as i64).map_err(fail)?;
                // A sum whose terms cancel is as exact as its terms are large.
                let largest = all.iter().flatten().filter(|v| v.is_finite()).fold(1.0, |m: f64, v| m.max(v.abs()));
                let scale = 1.0 + largest * sizes[d] as f64;
                let (shifted, near) = (doubles(&got), |g: f64, e: f64| {
                    g == e || (g.is_nan() && e.is_nan()) || (g - e).abs() <= ulps * epsilon(got.dtype()) * scale
                });
                prop_assert_eq!(shifted.len(), expected.len(), "{}", name);
                for (g, e) in shifted.iter().zip(&expected) {
                    prop_assert!(near(*g, *e), "{} of {}: {} for {}", name, dtype, g, e);
                }
            }
            // The whole, which is one lane.
            let values = doubles(&x);
            let whole = [("max", x.max()), ("min", x.min())];
            let expected = [values.iter().copied().fold(f64::NEG_INFINITY, larger), values.iter().copied().fold(f64::INFINITY, smaller)];
            for ((name, got), expected) in whole.into_iter().zip(expected) {
                compare(name, &got.map_err(fail)?, &[expected], 0.0)?;
            }
            let running = doubles(&x.cumsum(d as i64).map_err(fail)?);
            for (lane, sums) in all.iter().zip(lanes(&running, &sizes, d)) {
                let mut sum = 0.0;
                for (v, got) in lane.iter().zip(sums) {
                    sum += v;
                    let scale = 1.0 + lane.iter().filter(|v| v.is_finite()).map(|v| v.abs()).sum::<f64>();
                    let near = got == sum || (got.is_nan() && sum.is_nan()) || (got - sum).abs() <= 16.0 * epsilon(dtype) * scale;
                    prop_assert!(near, "cumsum of {}: {} for {}", dtype, got, sum);
                }
            }
            Ok(())
        },
    ));
}

#[test]
fn copies_and_joins_keep_every_element() {
    at_each_level!(copies_and_joins_keep_every_element => property(
        (shape(), lies(), lies(), dtype(), any::<u64>()),
        |(sizes, first, second, dtype, seed)| {
            let x = make(&sizes, first, seed, dtype).map_err(fail)?;
            let y = make(&sizes, second, !seed, dtype).map_err(fail)?;
            let (a, b) = (doubles(&x), doubles(&y));
            compare("clone", &x.copy().map_err(fail)?, &a, 0.0)?;
            compare("contiguous", &x.contiguous().map_err(fail)?, &a, 0.0)?;
            let into = make(&sizes, Lies::Turned, seed, dtype).map_err(fail)?;
            compare("copy_", into.copy_(&y).map_err(fail)?, &b, 0.0)?;
            if sizes.is_empty() {
                return Ok(());
            }
            let both: Vec<f64> = a.iter().chain(&b).copied().collect();
            compare("cat", &ops::cat(&[&x, &y], 0).map_err(fail)?, &both, 0.0)?;
            compare("stack", &ops::stack(&[&x, &y], 0).map_err(fail)?, &both, 0.0)?;
            let last = sizes.len() - 1;
            let flipped: Vec<f64> = a.chunks(sizes[last].max(1) as usize).flat_map(|row| row.iter().rev()).copied().collect();
            compare("flip", &x.flip(&[-1]).map_err(fail)?, &flipped, 0.0)?;
            let n = sizes[last];
            if n > 0 {
                let index = tensor!([n - 1, 0, n / 2]).map_err(fail)?;
                let picked: Vec<f64> = a.chunks(n as usize).flat_map(|row| [n - 1, 0, n / 2].map(|i| row[i as usize])).collect();
                compare("index_select", &x.index_select(-1, &index).map_err(fail)?, &picked, 0.0)?;
            }
            let mask = y.gt_scalar(1).map_err(fail)?;
            let chosen: Vec<f64> = a.iter().zip(&b).filter(|(_, w)| **w > 1.0).map(|(v, _)| *v).collect();
            compare("masked_select", &x.masked_select(&mask).map_err(fail)?, &chosen, 0.0)
        },
    ));
}

#[test]
fn products_of_matrices() {
    at_each_level!(products_of_matrices => property(
        (0..=9i64, 0..=40i64, 0..=19i64, lies(), lies(), 0..3usize, any::<u64>()),
        |(m, k, n, first, second, kind, seed)| {
            let dtype = [DType::F32, DType::F64, DType::I64][kind];
            // Small whole numbers: every sum is exact.
            let whole = |x: Result<Tensor>| x.and_then(|x| x.to_dtype(DType::I64)?.to_dtype(dtype));
            let (a, b) = (make(&[m, k], first, seed, DType::I32), make(&[k, n], second, !seed, DType::I32));
            let (x, y) = (whole(a).map_err(fail)?, whole(b).map_err(fail)?);
            let (a, b) = (doubles(&x), doubles(&y));
            let at = |i: i64, j: i64| (0..k).map(|l| a[(i * k + l) as usize] * b[(l * n + j) as usize]).sum::<f64>();
            let expected: Vec<f64> = (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| at(i, j)).collect();
            compare("mm", &x.matmul(&y).map_err(fail)?, &expected, 0.0)?;
            let turned = y.t().and_then(|y| y.contiguous()?.t()).map_err(fail)?;
            compare("mm turned", &x.matmul(&turned).map_err(fail)?, &expected, 0.0)?;
            compare("bmm", &x.unsqueeze(0).and_then(|x| x.matmul(y.unsqueeze(0))).map_err(fail)?, &expected, 0.0)
        },
    ));
}

/// The bits of everything that a list of calls gives.
fn bits(threads: usize) -> Vec<(&'static str, Vec<u64>)> {
    config::set_num_threads(threads);
    manual_seed(3);
    let wide = Tensor::randn(&[3, 70_001], ()).unwrap();
    let tall = Tensor::randn(&[40_003, 5], ()).unwrap();
    let (a, b) = (Tensor::randn(&[130, 170], ()).unwrap(), Tensor::randn(&[170, 150], ()).unwrap());
    let images = Tensor::randn(&[4, 6, 40, 40], ()).unwrap();
    let filters = Tensor::randn(&[8, 6, 3, 3], ()).unwrap();
    let index = Tensor::randint(0, 500, &[70_001], ()).unwrap();
    let mut results: Vec<(&'static str, Result<Tensor>)> = vec![
        ("randn", wide.copy()),
        ("exp", wide.exp()),
        ("transposed", wide.t().and_then(|x| x.sin()?.contiguous())),
        ("broadcast", &wide * wide.narrow(0, 1, 1)),
        ("to", wide.to_dtype(DType::BF16)),
        ("sum", wide.sum()),
        ("rows", wide.sum_dim(&[1], false)),
        ("columns", tall.sum_dim(&[0], false)),
        ("mean", tall.mean()),
        ("prod", (&wide * 1e-6).and_then(|x| x.exp()?.prod())),
        ("var", wide.var()),
        ("cumsum", wide.cumsum(1)),
        ("softmax", wide.softmax(1)),
        ("softmax of columns", tall.softmax(0)),
        ("logsumexp", tall.logsumexp(&[0])),
        ("norm", ops::linalg_vector_norm(&wide, 2, None, false, None)),
        ("mm", a.matmul(&b)),
        ("mv", a.matmul(b.select(1, 0))),
        ("conv", ops::conv2d(&images, &filters, None, &[1, 1], &[1, 1], &[1, 1], 1)),
        ("layer_norm", ops::layer_norm(&tall, &[5], None, None, 1e-5, false)),
        ("index_add", ops::index_add(&Tensor::zeros(&[500], ()).unwrap(), 0, &index, &wide.select(0, 0).unwrap(), 1)),
        ("masked_select", wide.masked_select(wide.gt_scalar(0.5))),
        ("rand", Tensor::rand(&[100_003], ())),
        ("bernoulli", ops::bernoulli_p(&wide, 0.3, None)),
        ("randperm", Tensor::randperm(50_000, ())),
    ];
    for x in [&wide, &tall, &a, &b, &images, &filters] {
        x.requires_grad_(true).unwrap();
    }
    let loss = || {
        let conv = ops::conv2d(&images, &filters, None, &[1, 1], &[1, 1], &[1, 1], 1)?;
        let norm = ops::layer_norm(&tall, &[5], None, None, 1e-5, false)?;
        let terms =
            [a.matmul(&b)?.sum()?, wide.softmax(1)?.select(1, 7)?.sum()?, conv.tanh()?.mean()?, norm.exp()?.mean()?];
        ops::stack(&terms.iter().collect::<Vec<_>>(), 0)?.sum()?.backward()
    };
    loss().unwrap();
    for (name, x) in
        [("wide.grad", wide), ("tall.grad", tall), ("a.grad", a), ("images.grad", images), ("filters.grad", filters)]
    {
        results.push((name, Ok(x.grad().unwrap())));
    }
    let of = |x: Tensor| doubles(&x.detach().unwrap()).into_iter().map(f64::to_bits).collect();
    results.into_iter().map(|(name, x)| (name, of(x.unwrap_or_else(|e| panic!("{name}: {e}"))))).collect()
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    at_each_level!(bits_do_not_depend_on_the_number_of_threads => {
        let one = bits(1);
        for threads in [2, 3] {
            for ((name, one), (_, other)) in one.iter().zip(bits(threads)) {
                assert!(*one == other, "{name} on {threads} threads is not what it is on one");
            }
        }
    });
}
