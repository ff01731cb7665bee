//! Which elements of a dimension a resampled one is made of, with their weights: PyTorch's arithmetic, in its precision.

use tensor_core::{DType, bf16, f16};

use crate::native::taps::Taps;

/// How elements between elements are made.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// the element at `floor(o * scale)`
    Nearest,
    /// the element at `floor((o + 0.5) * scale)`
    NearestExact,
    /// of the two neighbours
    Linear,
    /// of four neighbours, by Keys' polynomial with a = -0.75
    Cubic,
    /// of as many neighbours as a step covers: a triangle
    LinearAa,
    /// the same by Keys' polynomial with a = -0.5
    CubicAa,
    /// the same by a windowed sinc
    LanczosAa,
}

/// One dimension of a resampling.
#[derive(Clone, Copy)]
pub struct Line {
    /// elements that there are
    pub input: usize,
    /// elements that there will be
    pub output: usize,
    /// the factor that was asked for, if it was
    pub scale: Option<f64>,
    /// the outer elements stay where they are, not the outer edges
    pub align_corners: bool,
    /// positions are f64 numbers, not f32 ones
    pub wide: bool,
    /// what weights are rounded to
    pub weights: DType,
    /// True where equal sizes change nothing, whatever the factor (and a doubled one repeats each nearest element)
    pub by_sizes: bool,
}

impl Line {
    /// Rounds to the precision of the computation.
    fn round(&self, x: f64) -> f64 {
        if self.wide { x } else { f64::from(x as f32) }
    }

    /// Rounds to the precision of weights.
    fn weight(&self, x: f64) -> f64 {
        match self.weights {
            DType::F16 => f64::from(f16::from_f32(x as f32).to_f32()),
            DType::BF16 => f64::from(bf16::from_f32(x as f32).to_f32()),
            _ => self.round(x),
        }
    }

    /// Steps in the input from one result to the next.
    fn step(&self) -> f64 {
        let ratio = |a: usize, b: usize| self.round(a as f64 / b as f64);
        if self.align_corners {
            return if self.output > 1 { ratio(self.input - 1, self.output - 1) } else { 0.0 };
        }
        match self.scale {
            Some(scale) if scale > 0.0 => self.round(1.0 / scale),
            _ => ratio(self.input, self.output),
        }
    }

    /// Where result `o` lies in the input.
    fn source(&self, step: f64, o: usize) -> f64 {
        if self.align_corners {
            return self.round(step * o as f64);
        }
        self.round(self.round(step * (o as f64 + 0.5)) - 0.5)
    }

    /// The nearest element, by the rule of `kind`.
    fn nearest(&self, step: f64, o: usize, kind: Kind) -> usize {
        let narrow = |x: f64| f64::from(x as f32).floor();
        let at = match kind {
            Kind::NearestExact => narrow(self.source(step, o).max(0.0) + 0.5),
            _ => narrow(self.round(step * o as f64)),
        };
        (at as usize).min(self.input - 1)
    }

    /// The taps of all results.
    pub fn taps(&self, kind: Kind) -> Taps {
        if self.by_sizes && kind != Kind::NearestExact {
            if self.input == self.output {
                return Taps::single(0..self.output);
            }
            if kind == Kind::Nearest && self.output == 2 * self.input {
                return Taps::single((0..self.output).map(|o| o / 2));
            }
        }
        let step = self.step();
        let mut taps = Taps::new();
        match kind {
            Kind::Nearest | Kind::NearestExact => {
                return Taps::single((0..self.output).map(|o| self.nearest(step, o, kind)));
            }
            Kind::Linear => (0..self.output).for_each(|o| taps.push(self.linear(step, o))),
            Kind::Cubic => (0..self.output).for_each(|o| taps.push(self.cubic(step, o))),
            Kind::LinearAa => (0..self.output).for_each(|o| taps.push(self.filtered(step, o, 2.0, triangle))),
            Kind::CubicAa => (0..self.output).for_each(|o| taps.push(self.filtered(step, o, 4.0, keys))),
            Kind::LanczosAa => (0..self.output).for_each(|o| taps.push(self.filtered(step, o, 6.0, lanczos))),
        }
        taps
    }

    fn linear(&self, step: f64, o: usize) -> [(usize, f64); 2] {
        if self.input == self.output {
            return [(o, 1.0), (o, 0.0)];
        }
        let at = self.source(step, o).max(0.0);
        let first = (at as usize).min(self.input - 1);
        let second = (first + 1).min(self.input - 1);
        let weight = self.weight(self.round(at - first as f64).clamp(0.0, 1.0));
        [(first, self.weight(1.0 - weight)), (second, weight)]
    }

    fn cubic(&self, step: f64, o: usize) -> [(usize, f64); 4] {
        const A: f64 = -0.75;
        let at = self.source(step, o);
        let first = at.floor().min(self.input as f64 - 1.0);
        let t = self.round(at - first).clamp(0.0, 1.0);
        let near = |x: f64| self.weight(((A + 2.0) * x - (A + 3.0)) * x * x + 1.0);
        let far = |x: f64| self.weight(((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A);
        let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
        let last = self.input as f64 - 1.0;
        std::array::from_fn(|i| ((first + i as f64 - 1.0).clamp(0.0, last) as usize, weights[i]))
    }

    /// All elements that a filter of `size` elements covers, widened where results lie closer than elements.
    fn filtered(&self, step: f64, o: usize, size: f64, filter: fn(f64) -> f64) -> Vec<(usize, f64)> {
        let widening = step.max(1.0);
        let support = size * 0.5 * widening;
        let centre = self.round(step * (o as f64 + 0.5));
        let first = (self.round(centre - support + 0.5).max(0.0) as usize).min(self.input);
        let end = (self.round(centre + support + 0.5).max(0.0) as usize).clamp(first, self.input);
        let most = (support.ceil() as usize).saturating_mul(2).saturating_add(1);
        let end = end.min(first.saturating_add(most));
        let weights: Vec<f64> = (first..end).map(|i| filter((i as f64 - centre + 0.5) / widening)).collect();
        let total: f64 = weights.iter().sum();
        let share = |w: f64| self.round(if total == 0.0 { w } else { w / total });
        (first..end).zip(weights.into_iter().map(share)).collect()
    }
}

fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

fn keys(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

fn lanczos(x: f64) -> f64 {
    let sinc = |x: f64| if x == 0.0 { 1.0 } else { (x * std::f64::consts::PI).sin() / (x * std::f64::consts::PI) };
    if x.abs() < 3.0 { sinc(x) * sinc(x / 3.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one_and_stay_inside() {
        for (input, output) in [(4, 9), (9, 4), (5, 5), (1, 3), (7, 1)] {
            for scale in [None, Some(1.7), Some(0.3)] {
                for align_corners in [false, true] {
                    for kind in [Kind::Linear, Kind::Cubic, Kind::LinearAa, Kind::CubicAa, Kind::LanczosAa] {
                        let line = Line {
                            input,
                            output,
                            scale,
                            align_corners,
                            wide: true,
                            weights: DType::F64,
                            by_sizes: false,
                        };
                        let taps = line.taps(kind);
                        assert_eq!(taps.len(), output);
                        for o in 0..output {
                            let (indices, weights) = taps.of(o);
                            assert!(indices.iter().all(|&i| i < input));
                            let sum: f64 = weights.iter().sum();
                            assert!(
                                indices.is_empty() || (sum - 1.0).abs() < 1e-12,
                                "{input} {output} {scale:?} {sum}"
                            );
                        }
                    }
                }
            }
        }
    }
}
