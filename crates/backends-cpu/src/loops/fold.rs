//! [`fold`] and [`fold2`]: reductions of slices in running values side by side, so that they vectorise.
//!
//! A plain `iter().sum()` of floats adds one after the other: neither fast nor precise. The order here depends on the length
//! alone.

/// Running values. As many as a level's registers hold, and too many for LLVM to unroll their loop before it vectorises it
/// (which it then does badly).
const LANES: usize = 32;

/// Combines `step(.., x)` over a slice. `init` is neutral: each running value starts with it.
#[inline(always)]
pub fn fold<T: Copy, A: Copy>(x: &[T], init: A, step: impl Fn(A, T) -> A, combine: impl Fn(A, A) -> A + Copy) -> A {
    let mut lanes = [init; LANES];
    let (groups, rest) = x.as_chunks::<LANES>();
    for group in groups {
        for i in 0..LANES {
            lanes[i] = step(lanes[i], group[i]);
        }
    }
    let mut last = init;
    for &x in rest {
        last = step(last, x);
    }
    if x.len() < LANES {
        return last;
    }
    combine(halves(lanes, combine), last)
}

/// Combines `step(.., x, y)` over two slices (of the shorter length), as [`fold`].
#[inline(always)]
pub fn fold2<T: Copy, U: Copy, A: Copy>(
    x: &[T],
    y: &[U],
    init: A,
    step: impl Fn(A, T, U) -> A,
    combine: impl Fn(A, A) -> A + Copy,
) -> A {
    let n = x.len().min(y.len());
    let (x, y) = (&x[..n], &y[..n]);
    let mut lanes = [init; LANES];
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in xs.iter().zip(ys) {
        for i in 0..LANES {
            lanes[i] = step(lanes[i], x[i], y[i]);
        }
    }
    let mut last = init;
    for (&x, &y) in x_rest.iter().zip(y_rest) {
        last = step(last, x, y);
    }
    if n < LANES {
        return last;
    }
    combine(halves(lanes, combine), last)
}

/// Combines the running values by halves.
#[inline(always)]
fn halves<A: Copy>(mut lanes: [A; LANES], combine: impl Fn(A, A) -> A) -> A {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = combine(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_of_any_length() {
        for n in [0usize, 1, 63, 64, 65, 200, 1000] {
            let x: Vec<f64> = (0..n).map(|i| i as f64).collect();
            let sum = (n * n.saturating_sub(1) / 2) as f64;
            assert_eq!(fold(&x, 0.0, |a, v| a + v, |a, b| a + b), sum);
            assert_eq!(fold2(&x, &x, 0.0, |a, v, w| a + (v + w), |a, b| a + b), 2.0 * sum);
            assert_eq!(fold(&x, -1.0, f64::max, f64::max), n as f64 - 1.0);
        }
    }
}
