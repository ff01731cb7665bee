//! The kernels over rows and channels against naive ones, on shapes that take every path and several threads.

use tensor_aten::Tensor;
use tensor_aten::kernels::{ChannelNorm, ClassLoss, RowNorm};

use crate::isa::Baseline as B;
use crate::{batch_norm, embedding, layer_norm, loss, softmax};

/// Numbers between -4 and 4 without a pattern.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 * 8.0 - 4.0
    };
    (0..n).map(|_| next()).collect()
}

fn tensor(values: &[f32], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(values, sizes).unwrap()
}

fn zeros(sizes: &[i64]) -> Tensor {
    tensor(&vec![0.0; sizes.iter().product::<i64>() as usize], sizes)
}

#[track_caller]
fn close(got: &Tensor, want: &[f64], tolerance: f64) {
    let got = got.to_vec::<f32>().unwrap();
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (*got as f64 - want).abs();
        assert!(error <= tolerance * (1.0 + want.abs()), "element {i}: {got}, not {want}");
    }
}

/// Calls `f` with the positions of each lane of an (A, R, B) tensor.
fn each_lane((a, r, b): (usize, usize, usize), mut f: impl FnMut(&[usize])) {
    for i in 0..a {
        for k in 0..b {
            let lane: Vec<usize> = (0..r).map(|j| (i * r + j) * b + k).collect();
            f(&lane);
        }
    }
}

#[test]
fn softmax_and_its_gradients() {
    // Rows, planes of many, a few planes of many columns, one short of whole blocks.
    for (a, r, b) in [(70, 1000, 1), (12, 70, 65), (2, 300, 129), (1, 5, 9001), (3, 2100, 1)] {
        let (sizes, n) = ([a as i64, r as i64, b as i64], a * r * b);
        let (x, g) = (numbers(n, 1), numbers(n, 2));
        let (mut soft, mut log) = (vec![0.0; n], vec![0.0; n]);
        let (mut soft_grad, mut log_grad) = (vec![0.0; n], vec![0.0; n]);
        each_lane((a, r, b), |lane| {
            let sum: f64 = lane.iter().map(|&i| (x[i] as f64).exp()).sum();
            for &i in lane {
                log[i] = x[i] as f64 - sum.ln();
                soft[i] = log[i].exp();
            }
            let dot: f64 = lane.iter().map(|&i| g[i] as f64 * soft[i]).sum();
            let total: f64 = lane.iter().map(|&i| g[i] as f64).sum();
            for &i in lane {
                soft_grad[i] = (g[i] as f64 - dot) * soft[i];
                log_grad[i] = g[i] as f64 - soft[i] * total;
            }
        });
        let (x, g) = (tensor(&x, &sizes), tensor(&g, &sizes));
        let (y, out) = (zeros(&sizes), zeros(&sizes));
        softmax::softmax::<B, f32>(&y, &x).unwrap();
        close(&y, &soft, 1e-6);
        softmax::softmax_backward::<B, f32>(&out, &g, &y).unwrap();
        close(&out, &soft_grad, 1e-5);
        softmax::log_softmax::<B, f32>(&y, &x).unwrap();
        close(&y, &log, 1e-5);
        softmax::log_softmax_backward::<B, f32>(&out, &g, &y).unwrap();
        close(&out, &log_grad, 1e-4);
    }
}

/// Normalises lists of positions and gives the results with the gradients of input, and of what scales each position.
struct Naive {
    y: Vec<f64>,
    grad_input: Vec<f64>,
}

fn normalise(x: &[f32], h: &[f64], groups: &[Vec<usize>], eps: f64) -> Naive {
    let (mut y, mut grad_input) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    for group in groups {
        let n = group.len() as f64;
        let mean = group.iter().map(|&i| x[i] as f64).sum::<f64>() / n;
        let var = group.iter().map(|&i| (x[i] as f64 - mean).powi(2)).sum::<f64>() / n;
        let rstd = 1.0 / (var + eps).sqrt();
        group.iter().for_each(|&i| y[i] = (x[i] as f64 - mean) * rstd);
        let sum = group.iter().map(|&i| h[i]).sum::<f64>() / n;
        let dot = group.iter().map(|&i| h[i] * y[i]).sum::<f64>() / n;
        group.iter().for_each(|&i| grad_input[i] = rstd * (h[i] - sum - y[i] * dot));
    }
    Naive { y, grad_input }
}

/// `sum` of `values` by channel.
fn by_channel(values: impl Iterator<Item = f64>, channel: impl Fn(usize) -> usize, channels: usize) -> Vec<f64> {
    let mut sums = vec![0.0; channels];
    values.enumerate().for_each(|(i, value)| sums[channel(i)] += value);
    sums
}

fn wide(values: &[f32]) -> impl Iterator<Item = f64> + '_ {
    values.iter().map(|&v| v as f64)
}

#[test]
fn row_norms_and_their_gradients() {
    // (rows, channels, elements of one, groups): layer norms, then group norms.
    for (m, k, s, groups) in [(300, 777, 1, 1), (5, 40, 1, 1), (24, 3, 50, 4), (2, 64, 130, 1)] {
        let (n, channels, eps) = (m * k * s, groups * k, 1e-5);
        let channel = |i: usize| i / (k * s) % groups * k + i / s % k;
        let (x, g, w, b) = (numbers(n, 3), numbers(n, 4), numbers(channels, 5), numbers(channels, 6));
        let h: Vec<f64> = (0..n).map(|i| g[i] as f64 * w[channel(i)] as f64).collect();
        let rows: Vec<Vec<usize>> = (0..m).map(|i| (i * k * s..(i + 1) * k * s).collect()).collect();
        let naive = normalise(&x, &h, &rows, eps);
        let out: Vec<f64> = (0..n).map(|i| naive.y[i] * w[channel(i)] as f64 + b[channel(i)] as f64).collect();
        let sizes = [m as i64, k as i64, s as i64];
        let (x, grad) = (tensor(&x, &sizes), tensor(&g, &sizes));
        let (w, b) = (tensor(&w, &[channels as i64]), tensor(&b, &[channels as i64]));
        let (mean, rstd) = (zeros(&[m as i64]), zeros(&[m as i64]));
        let norm = RowNorm { groups, weight: Some(&w), bias: Some(&b), mean: &mean, rstd: &rstd };
        let result = zeros(&sizes);
        layer_norm::norm::<B, f32>(&result, &x, norm, eps).unwrap();
        close(&result, &out, 1e-5);
        let (dw, db) = (zeros(&[channels as i64]), zeros(&[channels as i64]));
        layer_norm::norm_backward::<B, f32>([Some(&result), Some(&dw), Some(&db)], &grad, &x, norm).unwrap();
        close(&result, &naive.grad_input, 1e-4);
        let of_weight = by_channel(wide(&g).zip(&naive.y).map(|(g, y)| g * y), channel, channels);
        close(&dw, &of_weight, 1e-3);
        close(&db, &by_channel(wide(&g), channel, channels), 1e-3);
        let alone = zeros(&[channels as i64]);
        layer_norm::norm_backward::<B, f32>([None, None, Some(&alone)], &grad, &x, norm).unwrap();
        assert_eq!(alone.to_vec::<f32>().unwrap(), db.to_vec::<f32>().unwrap());
        let norm = RowNorm { weight: None, bias: None, ..norm };
        layer_norm::norm::<B, f32>(&result, &x, norm, eps).unwrap();
        close(&result, &naive.y, 1e-5);
        let ones: Vec<f64> = wide(&g).collect();
        let plain = normalise(&x.to_vec::<f32>().unwrap(), &ones, &rows, eps);
        layer_norm::norm_backward::<B, f32>([Some(&result), None, None], &grad, &x, norm).unwrap();
        close(&result, &plain.grad_input, 1e-4);
    }
}

#[test]
fn channel_norms_and_their_gradients() {
    // Long and short runs of a channel, and channels last.
    for (n, c, s) in [(9, 7, 1000), (300, 5, 4), (5000, 33, 1), (2, 3, 1)] {
        let (count, eps, momentum) = (n * c * s, 1e-5, 0.3);
        let channel = |i: usize| i / s % c;
        let (x, g, w, b) = (numbers(count, 7), numbers(count, 8), numbers(c, 9), numbers(c, 10));
        let h: Vec<f64> = (0..count).map(|i| g[i] as f64 * w[channel(i)] as f64).collect();
        let groups: Vec<Vec<usize>> = (0..c).map(|k| (0..count).filter(|&i| channel(i) == k).collect()).collect();
        let naive = normalise(&x, &h, &groups, eps);
        let out: Vec<f64> = (0..count).map(|i| naive.y[i] * w[channel(i)] as f64 + b[channel(i)] as f64).collect();
        let (sizes, list) = ([n as i64, c as i64, s as i64], [c as i64]);
        let (x, grad) = (tensor(&x, &sizes), tensor(&g, &sizes));
        let (w, b) = (tensor(&w, &list), tensor(&b, &list));
        let (mean, invstd, running_mean, running_var) = (zeros(&list), zeros(&list), zeros(&list), zeros(&list));
        let norm = ChannelNorm {
            weight: Some(&w),
            bias: Some(&b),
            running: Some([&running_mean, &running_var]),
            saved: Some([&mean, &invstd]),
            eps,
            momentum,
            rounded: false,
        };
        let result = zeros(&sizes);
        batch_norm::norm::<B, f32>(&result, &x, norm).unwrap();
        close(&result, &out, 1e-5);
        let means: Vec<f64> = wide(&mean.to_vec::<f32>().unwrap()).map(|mean| mean * momentum).collect();
        close(&running_mean, &means, 1e-6);
        let (dw, db) = (zeros(&list), zeros(&list));
        batch_norm::norm_backward::<B, f32>([Some(&result), Some(&dw), Some(&db)], &grad, &x, norm).unwrap();
        close(&result, &naive.grad_input, 1e-4);
        let of_weight = by_channel(wide(&g).zip(&naive.y).map(|(g, y)| g * y), channel, c);
        close(&dw, &of_weight, 1e-3);
        close(&db, &by_channel(wide(&g), channel, c), 1e-3);
        // With the running numbers, the result of which is known from them.
        let fixed = ChannelNorm { saved: None, running: Some([&mean, &invstd]), ..norm };
        batch_norm::norm::<B, f32>(&result, &x, fixed).unwrap();
        let (mean, var) = (mean.to_vec::<f32>().unwrap(), invstd.to_vec::<f32>().unwrap());
        let (x, w, b) = (x.to_vec::<f32>().unwrap(), w.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
        let want = |i: usize| {
            let k = channel(i);
            (x[i] - mean[k]) as f64 / (var[k] as f64 + eps).sqrt() * w[k] as f64 + b[k] as f64
        };
        close(&result, &(0..count).map(want).collect::<Vec<_>>(), 1e-5);
    }
}

#[test]
fn class_losses_and_tables() {
    let (n, c, s) = (40usize, 11usize, 300usize);
    let x = numbers(n * c * s, 11);
    let target: Vec<i64> = (0..n * s).map(|i| (i * 7 % c) as i64).collect();
    let each: Vec<f64> = (0..n * s).map(|i| -x[i / s * c * s + target[i] as usize * s + i % s] as f64).collect();
    let ignored = 3;
    let counted: Vec<f64> = each.iter().zip(&target).filter(|&(_, &t)| t != ignored).map(|(e, _)| *e).collect();
    let classes = Tensor::from_slice(&target, &[n as i64, s as i64]).unwrap();
    let loss = ClassLoss { target: &classes, weight: None, reduction: 1, ignore_index: ignored };
    let (out, total) = (zeros(&[]), zeros(&[]));
    loss::nll::<B, f32>(&out, &total, &tensor(&x, &[n as i64, c as i64, s as i64]), loss).unwrap();
    close(&out, &[counted.iter().sum::<f64>() / counted.len() as f64], 1e-6);
    close(&total, &[counted.len() as f64], 0.0);

    let (rows, width, count) = (5000usize, 24usize, 9000usize);
    let indices: Vec<i64> = (0..count).map(|i| (i * i % (rows + 5)) as i64).collect();
    let grad = numbers(count * width, 12);
    let mut want = vec![0.0; rows * width];
    for (i, &row) in indices.iter().enumerate().filter(|&(_, &row)| row < rows as i64 && row != 4) {
        for d in 0..width {
            want[row as usize * width + d] += grad[i * width + d] as f64;
        }
    }
    let table = zeros(&[rows as i64, width as i64]);
    let indices = Tensor::from_slice(&indices, &[count as i64]).unwrap();
    let grad = tensor(&grad, &[count as i64, width as i64]);
    embedding::embedding_backward::<B, f32>(&table, &grad, &indices, 4, false).unwrap();
    close(&table, &want, 1e-5);
}
