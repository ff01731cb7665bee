//! Attention and its gradients against the definition, over shapes that take every path, at every level of the machine.

use tensor_core::strides::Dims;

use super::*;
use crate::isa::{Baseline, Level, V3, V4, level};

/// (batch, heads, queries, keys, depth)
type Shape = [usize; 5];

/// What hides keys in a case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hiding {
    Nothing,
    Causal,
    /// by query and key
    Pairs,
    /// by key alone: one row for all queries
    Keys,
    /// by query alone: one column for all keys
    Queries,
}

fn values(n: usize, seed: usize) -> Vec<f64> {
    (0..n).map(|i| (((i + seed) * 7919) % 101) as f64 / 50.0 - 1.0).collect()
}

/// A tensor (b, h, rows, cols), with the heads within the rows in memory if `inner`.
fn tensor<T: Attend>(values: &[f64], [b, h, r, c]: [usize; 4], inner: bool) -> Tensor {
    let numbers: Vec<T> = values.iter().map(|&x| T::from_f64(x)).collect();
    let sizes = [b, h, r, c].map(|n| n as i64);
    if !inner {
        return Tensor::from_vec(numbers, &sizes).unwrap();
    }
    let at = |i: usize| i / (r * h) * h * r + i % h * r + i / h % r;
    let turned = (0..b * h * r).flat_map(|i| numbers[at(i) * c..][..c].to_vec()).collect::<Vec<T>>();
    let x = Tensor::from_vec(turned, &[b as i64, r as i64, h as i64, c as i64]).unwrap();
    let strides = [r * h * c, c, h * c, 1].map(|n| n as i64);
    Tensor::view_of(x.as_impl().metadata(), &sizes, &strides, 0).unwrap()
}

/// out, logarithms, dq, dk, dv by the definition.
fn naive(
    shape: Shape,
    [q, k, v, g]: [&[f64]; 4],
    bias: impl Fn(usize, usize, usize) -> f64,
    scale: f64,
) -> [Vec<f64>; 5] {
    let [b, h, l, s, d] = shape;
    let heads = b * h;
    let (mut out, mut logs) = (vec![0.0; heads * l * d], vec![0.0; heads * l]);
    let (mut dq, mut dk, mut dv) = (vec![0.0; heads * l * d], vec![0.0; heads * s * d], vec![0.0; heads * s * d]);
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    for i in 0..heads * l {
        let head = i / l;
        let key = |j: usize| (head * s + j) * d..(head * s + j + 1) * d;
        let query = i * d..(i + 1) * d;
        let scores: Vec<f64> =
            (0..s).map(|j| scale * dot(&q[query.clone()], &k[key(j)]) + bias(head, i % l, j)).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if most == f64::NEG_INFINITY {
            logs[i] = most;
            continue;
        }
        let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
        logs[i] = most + total.ln();
        let p: Vec<f64> = scores.iter().map(|score| (score - logs[i]).exp()).collect();
        for j in 0..s {
            (0..d).for_each(|c| out[i * d + c] += p[j] * v[key(j)][c]);
        }
        let sum = dot(&g[query.clone()], &out[query.clone()]);
        for j in 0..s {
            let slope = scale * p[j] * (dot(&g[query.clone()], &v[key(j)]) - sum);
            for c in 0..d {
                dv[key(j)][c] += p[j] * g[query.clone()][c];
                dk[key(j)][c] += slope * q[query.clone()][c];
                dq[query.clone()][c] += slope * k[key(j)][c];
            }
        }
    }
    [out, logs, dq, dk, dv]
}

fn agree(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(got == want || (got - want).abs() < tolerance, "{what} at {i}: {got}, not {want}");
    }
}

fn check<I: Isa, T: Attend>(shape: Shape, hiding: Hiding, inner: bool) {
    let [b, h, l, s, d] = shape;
    let (scale, inputs) = (0.7, [(l, 1), (s, 2), (s, 3), (l, 4)].map(|(n, seed)| values(b * h * n * d, seed)));
    let hidden = |query: usize, key: usize| match hiding {
        Hiding::Nothing => false,
        Hiding::Causal => key > query,
        Hiding::Pairs => (query * 5 + key * 3) % 7 < 2 || query == 1,
        Hiding::Keys => key % 3 == 1,
        Hiding::Queries => query % 3 == 1,
    };
    let bias = |_: usize, query: usize, key: usize| if hidden(query, key) { f64::NEG_INFINITY } else { 0.0 };
    let want = naive(shape, inputs.each_ref().map(Vec::as_slice), bias, scale);
    let (ql, kl) = ([b, h, l, d], [b, h, s, d]);
    let [q, k, v, g] = [(0, ql), (1, kl), (2, kl), (3, ql)].map(|(i, sizes)| tensor::<T>(&inputs[i], sizes, inner));
    // Of one row, one column or one matrix for all heads, by strides of 0.
    let (rows, cols) = (if hiding == Hiding::Keys { 1 } else { l }, if hiding == Hiding::Queries { 1 } else { s });
    let mask: Vec<T> = (0..rows * cols).map(|i| T::from_f64(bias(0, i / cols, i % cols))).collect();
    let mask = Tensor::from_vec(mask, &[rows as i64, cols as i64]).unwrap();
    let strides = [0, 0, if rows == 1 { 0 } else { cols as i64 }, i64::from(cols > 1 || s == 1)];
    let sizes = [b, h, l, s].map(|n| n as i64);
    let m = mask.as_impl().metadata();
    let mask = Tensor::view_of(m, &sizes, &strides, 0).unwrap();
    let masked = matches!(hiding, Hiding::Pairs | Hiding::Keys | Hiding::Queries);
    let how = Attention { mask: masked.then_some(&mask), causal: hiding == Hiding::Causal, scale, weights: T::DTYPE };
    let new = |sizes: [usize; 4]| tensor::<T>(&vec![9.0; sizes.iter().product()], sizes, inner);
    let out = new(ql);
    let logs = Tensor::from_vec(vec![T::ZERO; b * h * l], &[b as i64, h as i64, l as i64]).unwrap();
    attention::<I, T>(&out, &logs, &q, &k, &v, how).unwrap();
    let grads = [new(ql), new(kl), new(kl)];
    attention_backward::<I, T>(grads.each_ref(), [&g, &q, &k, &v, &out, &logs], how).unwrap();
    let case = format!("{shape:?} {hiding:?} {inner} {} {:?}", T::DTYPE, I::LEVEL);
    let precise = size_of::<T>() == 8;
    let tolerances = if precise { [1e-12; 5] } else { [2e-5, 2e-5, 2e-4, 2e-4, 2e-4] };
    let got = [&out, &logs, &grads[0], &grads[1], &grads[2]];
    for (i, what) in ["out", "logsumexp", "dq", "dk", "dv"].into_iter().enumerate() {
        let locked = lock(&[got[i].as_impl()], &[]).unwrap();
        let got: Vec<f64> = locked.read::<T>(0).unwrap().dense().iter().map(|&x| Cast::to_f64(x)).collect();
        agree(&got, &want[i], tolerances[i], &format!("{what} of {case}"));
    }
}

/// Few queries and many, more than a panel and a block of keys have, depths that are no multiple of anything, heads that are
/// few (keys are shared out) and many.
const SHAPES: [Shape; 10] = [
    [1, 1, 1, 1, 1],
    [1, 2, 1, 40, 5],
    [2, 1, 2, 1100, 8],
    [1, 1, 3, 7, 16],
    [1, 2, 9, 70, 33],
    [1, 1, 70, 150, 3],
    [2, 1, 65, 64, 20],
    [1, 1, 130, 129, 9],
    [3, 6, 20, 30, 7],
    [4, 4, 66, 5, 34],
];

fn check_all<I: Isa>() {
    for (i, shape) in SHAPES.into_iter().enumerate() {
        for hiding in [Hiding::Nothing, Hiding::Causal, Hiding::Pairs, Hiding::Keys, Hiding::Queries] {
            check::<I, f64>(shape, hiding, i % 2 == 0);
            check::<I, f32>(shape, hiding, i % 2 == 1);
        }
    }
}

#[test]
fn every_path_agrees_with_the_definition() {
    check_all::<Baseline>();
    if level() >= Level::V3 {
        check_all::<V3>();
    }
    if level() >= Level::V4 {
        check_all::<V4>();
    }
}

/// Scores that grow from block to block, so that what was summed is corrected, and one that is no number.
#[test]
fn corrections_and_no_numbers() {
    let (l, s) = (40usize, 200usize);
    let q = Tensor::from_vec(vec![1f64; l], &[1, 1, l as i64, 1]).unwrap();
    let scores: Vec<f64> = (0..s).map(|k| k as f64 * 10.0).collect();
    let v: Vec<f64> = (0..s).map(|k| k as f64).collect();
    let run = |k: Vec<f64>, rows: usize| {
        let sizes = [1, 1, s as i64, 1];
        let (k, v) = (Tensor::from_vec(k, &sizes).unwrap(), Tensor::from_vec(v.clone(), &sizes).unwrap());
        let m = q.as_impl().metadata();
        let sizes = Dims::from_slice(&[1, 1, rows as i64, 1]);
        let q = Tensor::view_of(m, &sizes, &[0, 0, 1, 1], 0).unwrap();
        let out = Tensor::from_vec(vec![0f64; rows], &sizes).unwrap();
        let logs = Tensor::from_vec(vec![0f64; rows], &sizes[..3]).unwrap();
        let how = Attention { mask: None, causal: false, scale: 1.0, weights: DType::F64 };
        crate::with_level!(I => attention::<I, f64>(&out, &logs, &q, &k, &v, how)).unwrap();
        (out.to_vec::<f64>().unwrap(), logs.to_vec::<f64>().unwrap())
    };
    for rows in [1, l] {
        let (out, logs) = run(scores.clone(), rows);
        let last = (s - 1) as f64;
        assert!(out.iter().all(|x| (x - last).abs() < 1e-3) && logs.iter().all(|x| (x - 10.0 * last).abs() < 1e-3));
        let mut spoilt = scores.clone();
        spoilt[3] = f64::NAN;
        let (out, logs) = run(spoilt, rows);
        assert!(out.iter().chain(&logs).all(|x| x.is_nan()));
    }
}
