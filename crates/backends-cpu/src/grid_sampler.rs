//! Images sampled at points: each point is a product of taps, a few elements of each dimension with weights and slopes.

use tensor_aten::Tensor;
use tensor_aten::kernels::GridShape;
use tensor_core::Result;

use crate::isa::Baseline;
use crate::loops::views::{lock, par_chunks, par_rows};
use crate::parallel::GRAIN;
use crate::simd::{Arith, Math, Real, RealFloating};

/// What a coordinate sees along a dimension: elements, their weights, and the weights' slopes by the position.
#[derive(Clone, Copy)]
struct Taps {
    count: usize,
    /// `None` outside of the image
    index: [Option<usize>; 4],
    weight: [f64; 4],
    slope: [f64; 4],
    /// the slope of the position by the coordinate
    speed: f64,
}

/// Rounds to the precision of `T`: sums, products and quotients of its numbers become its own.
#[inline(always)]
fn round<T: RealFloating>(x: f64) -> f64 {
    T::down(T::Op::from_f64(x)).up().to_f64()
}

/// One dimension of an image.
struct Line {
    size: f64,
    padding: i64,
    align_corners: bool,
}

impl Line {
    /// Where a coordinate (-1 to 1) lies, and the slope of that.
    fn position<T: RealFloating>(&self, coordinate: f64) -> (f64, f64) {
        if self.align_corners {
            let at = round::<T>(round::<T>(round::<T>(coordinate + 1.0) / 2.0) * (self.size - 1.0));
            (at, (self.size - 1.0) / 2.0)
        } else {
            let grown = round::<T>(round::<T>(coordinate + 1.0) * self.size);
            (round::<T>(grown - 1.0) / 2.0, self.size / 2.0)
        }
    }

    fn clip(&self, at: f64) -> (f64, f64) {
        let last = self.size - 1.0;
        if at <= 0.0 {
            (0.0, 0.0)
        } else if at >= last || at.is_nan() {
            (last, 0.0)
        } else {
            (at, 1.0)
        }
    }

    fn reflect<T: RealFloating>(&self, at: f64) -> (f64, f64) {
        let (low, high) = if self.align_corners { (0.0, self.size - 1.0) } else { (-0.5, self.size - 0.5) };
        let span = high - low;
        if span == 0.0 {
            return (0.0, 0.0);
        }
        let from = round::<T>(at - low);
        let sign = if from < 0.0 { -1.0 } else { 1.0 };
        let from = from.abs();
        let (extra, flips) = (from % span, round::<T>(from / span).floor());
        if flips % 2.0 == 0.0 {
            (round::<T>(extra + low), sign)
        } else {
            (round::<T>(round::<T>(span - extra) + low), -sign)
        }
    }

    /// A position brought into the image, and the slope of that.
    fn inside<T: RealFloating>(&self, at: f64) -> (f64, f64) {
        let (at, slope) = match self.padding {
            1 => self.clip(at),
            2 => {
                let (at, slope) = self.reflect::<T>(at);
                let (at, clipped) = self.clip(at);
                (at, slope * clipped)
            }
            _ => (at, 1.0),
        };
        // What no integer can say lies outside.
        let far = !at.is_finite() || at.abs() > f64::from(i32::MAX - 1);
        (if far { -100.0 } else { at }, slope)
    }

    fn index(&self, at: f64) -> Option<usize> {
        (at >= 0.0 && at < self.size).then_some(at as usize)
    }

    fn taps<T: RealFloating>(&self, coordinate: f64, mode: i64) -> Taps {
        let mut taps = Taps { count: 0, index: [None; 4], weight: [0.0; 4], slope: [0.0; 4], speed: 0.0 };
        let (at, speed) = self.position::<T>(coordinate);
        let mut push = |index, weight, slope| {
            (taps.index[taps.count], taps.weight[taps.count], taps.slope[taps.count]) = (index, weight, slope);
            taps.count += 1;
        };
        match mode {
            0 => {
                let (at, inner) = self.inside::<T>(at);
                let first = at.floor();
                let t = round::<T>(at - first);
                push(self.index(first), round::<T>(1.0 - t), -1.0);
                push(self.index(first + 1.0), t, 1.0);
                taps.speed = speed * inner;
            }
            1 => push(self.index(self.inside::<T>(at).0.round_ties_even()), 1.0, 0.0),
            2 => {
                let first = at.floor();
                let (weights, slopes) = cubic::<T>(round::<T>(at - first));
                for k in 0..4 {
                    let (at, _) = self.inside::<T>(first + k as f64 - 1.0);
                    push(self.index(at), weights[k], slopes[k]);
                }
                taps.speed = speed;
            }
            _ => {}
        }
        taps
    }
}

/// Weights of four neighbours by Keys' polynomial, and their slopes.
fn cubic<T: RealFloating>(t: f64) -> ([f64; 4], [f64; 4]) {
    const A: f64 = -0.75;
    let r = round::<T>;
    let near = |x: f64| r(r(r(r(r((A + 2.0) * x) - (A + 3.0)) * x) * x) + 1.0);
    let far = |x: f64| r(r(r(r(r(r(A * x) - 5.0 * A) * x) + 8.0 * A) * x) - 4.0 * A);
    let near_slope = |x: f64| round::<T>((3.0 * (A + 2.0) * x - 2.0 * (A + 3.0)) * x);
    let far_slope = |x: f64| round::<T>((3.0 * A * x - 10.0 * A) * x + 8.0 * A);
    (
        [far(r(t + 1.0)), near(t), near(r(1.0 - t)), far(r(2.0 - t))],
        [far_slope(t + 1.0), near_slope(t), -near_slope(1.0 - t), -far_slope(2.0 - t)],
    )
}

/// The lines of an image, in the order of a grid's coordinates: the last dimension first.
fn lines(s: &GridShape) -> Vec<Line> {
    let line = |&size: &usize| Line { size: size as f64, padding: s.padding, align_corners: s.align_corners };
    s.image.iter().rev().map(line).collect()
}

/// The taps of a point's coordinates; a missing third dimension has one element.
fn point<T: RealFloating>(lines: &[Line], point: &[T], mode: i64) -> [Taps; 3] {
    let one = Taps { count: 1, index: [Some(0); 4], weight: [1.0; 4], slope: [0.0; 4], speed: 0.0 };
    let mut all = [one; 3];
    for ((taps, line), x) in all.iter_mut().zip(lines).zip(point) {
        *taps = line.taps::<T>(x.up().to_f64(), mode);
    }
    all
}

/// Calls `f(offset, [i, j, k])` for the elements that a point sees.
fn each(s: &GridShape, [x, y, z]: &[Taps; 3], mut f: impl FnMut(usize, [usize; 3])) {
    let n = s.image.len();
    let (width, height) = (s.image[n - 1], s.image[n - 2]);
    for k in 0..z.count {
        for j in 0..y.count {
            for i in 0..x.count {
                if let (Some(w), Some(h), Some(d)) = (x.index[i], y.index[j], z.index[k]) {
                    f((d * height + h) * width + w, [i, j, k]);
                }
            }
        }
    }
}

/// Elements and weights of the points of one image, `per` of them a point; those that there are not have no weight.
fn weights<T: RealFloating>(s: &GridShape, lines: &[Line], grid: &[T], per: usize) -> Vec<(usize, T::Op)> {
    let none = (usize::MAX, T::Op::from_f64(0.0));
    let mut all = vec![none; s.points * per];
    par_rows::<Baseline, _>(&mut all, s.points, 20 * per, |p, row| {
        let taps = point(lines, &grid[p * lines.len()..][..lines.len()], s.mode);
        let mut next = 0;
        each(s, &taps, |offset, [i, j, k]| {
            let weight = round::<T>(taps[0].weight[i] * taps[1].weight[j]) * taps[2].weight[k];
            row[next] = (offset, T::Op::from_f64(round::<T>(weight)));
            next += 1;
        });
    });
    all
}

/// How many elements a point sees at most.
fn taps_of(s: &GridShape) -> usize {
    let each: usize = match s.mode {
        0 => 2,
        2 => 4,
        _ => 1,
    };
    each.pow(s.image.len() as u32)
}

/// `out[n, c, p] = sum of weight * x[n, c, element]` over the elements that point p of image n sees.
pub fn sample<T: RealFloating>(out: &Tensor, x: &Tensor, grid: &Tensor, s: &GridShape) -> Result<()> {
    let locked = lock(&[x.as_impl(), grid.as_impl()], &[out.as_impl()])?;
    let (x, grid) = (locked.read::<T>(0)?.dense(), locked.read::<T>(1)?.dense());
    let (lines, per, flat) = (lines(s), taps_of(s), s.image.len() == 2);
    let (plane, coordinates) = (s.image.iter().product::<usize>(), s.image.len());
    locked.write::<T>(0)?.with_dense(|out| {
        for n in 0..s.batch {
            let taps = weights::<T>(s, &lines, &grid[n * s.points * coordinates..][..s.points * coordinates], per);
            let out = &mut out[n * s.channels * s.points..][..s.channels * s.points];
            par_chunks::<Baseline, T>(out, GRAIN / per, |start, part| {
                for (i, out) in part.iter_mut().enumerate() {
                    let (c, p) = ((start + i) / s.points, (start + i) % s.points);
                    let x = &x[(n * s.channels + c) * plane..][..plane];
                    let mut sum = T::Op::from_f64(0.0);
                    for &(element, weight) in taps[p * per..][..per].iter().take_while(|tap| tap.0 != usize::MAX) {
                        // Over two dimensions PyTorch rounds each product and sum.
                        let product = x[element].up().mul(weight);
                        sum = if flat { T::down(sum.add(T::down(product).up())).up() } else { sum.add(product) };
                    }
                    *out = T::down(sum);
                }
            });
        }
    });
    Ok(())
}

/// The gradients of image and grid, those that are wanted, from `[grad, x, grid]`.
pub fn sample_backward<T: RealFloating>(
    grads: [Option<&Tensor>; 2],
    inputs: [&Tensor; 3],
    s: &GridShape,
) -> Result<()> {
    let writes: Vec<_> = grads.iter().flatten().map(|tensor| &**tensor.as_impl()).collect();
    let locked = lock(&inputs.map(|input| &**input.as_impl()), &writes)?;
    let (grad, x, grid) = (locked.read::<T>(0)?.dense(), locked.read::<T>(1)?.dense(), locked.read::<T>(2)?.dense());
    let (lines, per) = (lines(s), taps_of(s));
    let (plane, coordinates) = (s.image.iter().product::<usize>(), s.image.len());
    let points = s.points * coordinates;
    let mut next = 0;
    if grads[0].is_some() {
        next += 1;
        locked.write::<T>(0)?.with_dense(|out| {
            for n in 0..s.batch {
                let taps = weights::<T>(s, &lines, &grid[n * points..][..points], per);
                let out = &mut out[n * s.channels * plane..][..s.channels * plane];
                par_rows::<Baseline, T>(out, s.channels, plane + s.points * per, |c, out| {
                    let grad = &grad[(n * s.channels + c) * s.points..][..s.points];
                    let mut sums = vec![T::Op::from_f64(0.0); plane];
                    for (p, grad) in grad.iter().enumerate() {
                        for &(element, weight) in taps[p * per..][..per].iter().take_while(|tap| tap.0 != usize::MAX) {
                            let share = grad.up().mul(weight);
                            sums[element] = sums[element].add(share);
                        }
                    }
                    for (out, sum) in out.iter_mut().zip(sums) {
                        *out = T::down(sum);
                    }
                });
            }
        });
    }
    if grads[1].is_some() {
        locked.write::<T>(next)?.with_dense(|out| {
            par_rows::<Baseline, T>(out, s.batch * s.points, per * s.channels * 4, |row, out| {
                let (n, p) = (row / s.points, row % s.points);
                let taps = point(&lines, &grid[row * coordinates..][..coordinates], s.mode);
                let mut sums = [0.0; 3];
                each(s, &taps, |element, at| {
                    let of = |c: usize| (n * s.channels + c) * s.points + p;
                    let value = |c: usize| x[(n * s.channels + c) * plane + element].up().to_f64();
                    let product: f64 = (0..s.channels).map(|c| grad[of(c)].up().to_f64() * value(c)).sum();
                    for (d, sum) in sums.iter_mut().enumerate().take(coordinates) {
                        let factor = |e: usize| if e == d { taps[e].slope[at[e]] } else { taps[e].weight[at[e]] };
                        *sum += product * factor(0) * factor(1) * factor(2);
                    }
                });
                for (d, out) in out.iter_mut().enumerate() {
                    *out = T::down(T::Op::from_f64(sums[d] * taps[d].speed));
                }
            });
        });
    }
    Ok(())
}
