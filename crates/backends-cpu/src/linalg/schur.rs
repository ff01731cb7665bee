//! Eigenvalues and eigenvectors of real Hessenberg matrices by Francis' double steps (EISPACK's `hqr2`): complex eigenvalues come
//! in exact pairs, the one above the real line first.

use num_traits::Float;

use super::field::{Field, number};
use super::mat::Mat;

/// Steps for one eigenvalue.
const STEPS: usize = 100;

/// A real Schur form in the making: `h`, and `z` that is turned along.
struct Schur<R> {
    h: Mat<R>,
    z: Mat<R>,
    re: Vec<R>,
    im: Vec<R>,
    vectors: bool,
}

/// The shifts of a double step: the sum of the diagonal's last two elements, parted, and a product.
struct Shifts<R> {
    x: R,
    y: R,
    w: R,
}

impl<R: Field<Real = R> + Float> Schur<R> {
    /// The row where the part that ends at `last` begins: nothing below the diagonal is negligible after it.
    fn begin(&mut self, last: usize, norm: R) -> usize {
        let mut l = last;
        while l > 0 {
            let near = self.h[(l - 1, l - 1)].abs() + self.h[(l, l)].abs();
            let near = if near == R::NULL { norm } else { near };
            if self.h[(l, l - 1)].abs() <= R::epsilon() * near {
                break;
            }
            l -= 1;
        }
        l
    }

    /// Two eigenvalues at once: a block of two rows is turned to triangular form if they are real.
    fn pair(&mut self, last: usize, offset: R) {
        let (n, k) = (self.h.rows, last - 1);
        let w = self.h[(last, k)] * self.h[(k, last)];
        let mut p = (self.h[(k, k)] - self.h[(last, last)]) * number(0.5);
        let q = p * p + w;
        let z = q.abs().sqrt();
        self.h[(last, last)] += offset;
        self.h[(k, k)] += offset;
        let x = self.h[(last, last)];
        if q < R::NULL {
            (self.re[k], self.re[last]) = (x + p, x + p);
            (self.im[k], self.im[last]) = (z, -z);
            return;
        }
        let z = p + z.copysign(p);
        self.re[k] = x + z;
        self.re[last] = if z == R::NULL { x + z } else { x - w / z };
        (self.im[k], self.im[last]) = (R::NULL, R::NULL);
        let below = self.h[(last, k)];
        let s = below.abs() + z.abs();
        p = below / s;
        let q = z / s;
        let r = p.hypot(q);
        let (p, q) = (p / r, q / r);
        for j in k..n {
            let column = self.h.col_mut(j);
            let (a, b) = (column[k], column[last]);
            column[k] = q * a + p * b;
            column[last] = q * b - p * a;
        }
        let turn = |m: &mut Mat<R>, rows: usize| {
            let (a, b) = m.two_cols(k, last);
            for (a, b) in a[..rows].iter_mut().zip(&mut b[..rows]) {
                (*a, *b) = (q * *a + p * *b, q * *b - p * *a);
            }
        };
        turn(&mut self.h, last + 1);
        if self.vectors {
            turn(&mut self.z, n);
        }
        self.h[(last, k)] = R::NULL;
    }

    /// The shifts, of which every tenth is another one: those lead out of circles.
    fn shifts(&mut self, l: usize, last: usize, steps: usize, offset: &mut R) -> Shifts<R> {
        let h = &mut self.h;
        let mut x = h[(last, last)];
        let mut y = h[(last - 1, last - 1)];
        let mut w = h[(last, last - 1)] * h[(last - 1, last)];
        if steps.is_multiple_of(10) && !steps.is_multiple_of(30) {
            *offset += x;
            (0..=last).for_each(|i| h[(i, i)] -= x);
            let s = h[(last, last - 1)].abs() + if last >= l + 2 { h[(last - 1, last - 2)].abs() } else { R::NULL };
            x = s * number(0.75);
            y = x;
            w = s * s * number(-0.4375);
        } else if steps.is_multiple_of(30) {
            let half = (y - x) * number(0.5);
            let square = half * half + w;
            if square > R::NULL {
                let root = square.sqrt();
                let root = if y < x { -root } else { root };
                let s = x - w / (half + root);
                (0..=last).for_each(|i| h[(i, i)] -= s);
                *offset += s;
                x = number(0.964);
                y = x;
                w = x;
            }
        }
        Shifts { x, y, w }
    }

    /// One double step over rows `l..=last`.
    fn step(&mut self, l: usize, last: usize, shifts: &Shifts<R>) {
        let (n, &Shifts { x, y, w }) = (self.h.rows, shifts);
        // Two small elements below the diagonal in a row let the step begin after them.
        let mut m = last - 2;
        let (mut p, mut q, mut r);
        loop {
            let h = &self.h;
            let z = h[(m, m)];
            let (rr, ss) = (x - z, y - z);
            p = (rr * ss - w) / h[(m + 1, m)] + h[(m, m + 1)];
            q = h[(m + 1, m + 1)] - z - rr - ss;
            r = h[(m + 2, m + 1)];
            let s = p.abs() + q.abs() + r.abs();
            (p, q, r) = (p / s, q / s, r / s);
            if m == l {
                break;
            }
            let near = h[(m - 1, m - 1)].abs() + z.abs() + h[(m + 1, m + 1)].abs();
            if h[(m, m - 1)].abs() * (q.abs() + r.abs()) <= R::epsilon() * (p.abs() * near) {
                break;
            }
            m -= 1;
        }
        for i in m + 2..=last {
            self.h[(i, i - 2)] = R::NULL;
            if i > m + 2 {
                self.h[(i, i - 3)] = R::NULL;
            }
        }
        for k in m..last {
            let is_last = k + 1 == last;
            let mut size = R::UNIT;
            if k != m {
                p = self.h[(k, k - 1)];
                q = self.h[(k + 1, k - 1)];
                r = if is_last { R::NULL } else { self.h[(k + 2, k - 1)] };
                size = p.abs() + q.abs() + r.abs();
                if size == R::NULL {
                    break;
                }
                (p, q, r) = (p / size, q / size, r / size);
            }
            let s = (p * p + q * q + r * r).sqrt().copysign(p);
            if s == R::NULL {
                continue;
            }
            if k != m {
                self.h[(k, k - 1)] = -s * size;
            } else if l != m {
                let value = self.h[(k, k - 1)];
                self.h[(k, k - 1)] = -value;
            }
            p += s;
            let (fx, fy, fz) = (p / s, q / s, r / s);
            (q, r) = (q / p, r / p);
            for j in k..n {
                let column = self.h.col_mut(j);
                let third = if is_last { R::NULL } else { column[k + 2] };
                let sum = column[k] + q * column[k + 1] + r * third;
                column[k] -= sum * fx;
                column[k + 1] -= sum * fy;
                if !is_last {
                    column[k + 2] -= sum * fz;
                }
            }
            let turn = |m: &mut Mat<R>, rows: usize| {
                for i in 0..rows {
                    let third = if is_last { R::NULL } else { m[(i, k + 2)] };
                    let sum = fx * m[(i, k)] + fy * m[(i, k + 1)] + fz * third;
                    m[(i, k)] -= sum;
                    m[(i, k + 1)] -= sum * q;
                    if !is_last {
                        m[(i, k + 2)] -= sum * r;
                    }
                }
            };
            turn(&mut self.h, (last + 1).min(k + 4));
            if self.vectors {
                turn(&mut self.z, n);
            }
        }
    }

    /// All eigenvalues; how many were not found.
    fn run(&mut self) -> i32 {
        let n = self.h.rows;
        let norm = self.h.data.iter().fold(R::NULL, |sum, v| sum + v.abs());
        if !norm.is_finite() {
            return n as i32;
        }
        let (mut left, mut steps, mut offset) = (n, 0, R::NULL);
        while left > 0 {
            let last = left - 1;
            let l = self.begin(last, norm);
            if l == last {
                self.h[(last, last)] += offset;
                self.re[last] = self.h[(last, last)];
                (left, steps) = (left - 1, 0);
            } else if l + 1 == last {
                self.pair(last, offset);
                (left, steps) = (left - 2, 0);
            } else {
                steps += 1;
                if steps > STEPS {
                    return left as i32;
                }
                let shifts = self.shifts(l, last, steps, &mut offset);
                self.step(l, last, &shifts);
            }
        }
        0
    }
}

/// The eigenvectors of a quasi-triangular matrix whose eigenvalues are known, times `z`, as complex columns. The blocks of two
/// rows are solved as systems of two unknowns.
fn back<R: Field<Real = R> + Float>(schur: &Schur<R>) -> Mat<R::Complex> {
    type Pair<R> = <R as Field>::Complex;
    let (n, h) = (schur.h.rows, &schur.h);
    let entry = |i: usize, j: usize| Pair::<R>::of(h[(i, j)], R::NULL);
    let norm = h.data.iter().fold(R::NULL, |sum, v| sum + v.abs());
    let smallest = (norm * R::epsilon()).max(R::min_positive_value());
    let large = R::max_value().sqrt();
    let mut vectors = Mat::<Pair<R>>::zeros(n, n);
    let mut k = n;
    while k > 0 {
        k -= 1;
        let value = Pair::<R>::of(schur.re[k], schur.im[k]);
        if schur.im[k] > R::NULL {
            // The conjugate of the vector after it.
            continue;
        }
        // The last rows that take part: one, or the two of the pair.
        let is_pair = schur.im[k] < R::NULL && k > 0;
        let mut x = vec![Pair::<R>::NULL; k + 1];
        x[k] = Pair::<R>::UNIT;
        let mut top = k;
        if is_pair {
            top = k - 1;
            // (h - value) x = 0 in the lower row: h[k, k-1] x[k-1] + (h[k, k] - value) x[k] = 0.
            let (a, b) = (entry(k, k - 1), entry(k, k) - value);
            x[k - 1] = -(b / a);
        }
        let mut sums: Vec<Pair<R>> =
            (0..top).map(|i| (top..=k).fold(Pair::<R>::NULL, |sum, j| sum - entry(i, j) * x[j])).collect();
        let mut i = top;
        while i > 0 {
            i -= 1;
            let divide = |gap: Pair<R>| if gap.size() < smallest { Pair::<R>::of(smallest, R::NULL) } else { gap };
            let first = if i > 0 && schur.im[i] < R::NULL { i - 1 } else { i };
            if first < i {
                let (a, b) = (entry(first, first) - value, entry(first, i));
                let (c, d) = (entry(i, first), entry(i, i) - value);
                let determinant = divide(a * d - b * c);
                let (u, v) = (sums[first], sums[i]);
                x[first] = (d * u - b * v) / determinant;
                x[i] = (a * v - c * u) / determinant;
            } else {
                x[i] = sums[i] / divide(entry(i, i) - value);
            }
            let size = (first..=i).fold(R::NULL, |max, j| max.max(x[j].size()));
            if size > large {
                let factor = R::UNIT / size;
                x.iter_mut().chain(&mut sums).for_each(|v| *v = v.times(factor));
            }
            for (row, sum) in sums.iter_mut().enumerate().take(first) {
                *sum = (first..=i).fold(*sum, |sum, j| sum - entry(row, j) * x[j]);
            }
            i = first;
        }
        for (j, &factor) in x.iter().enumerate() {
            for (to, &v) in vectors.col_mut(k).iter_mut().zip(schur.z.col(j)) {
                *to += factor.times(v);
            }
        }
        if is_pair {
            let (upper, lower) = vectors.two_cols(k - 1, k);
            upper.iter_mut().zip(lower).for_each(|(to, v)| *to = v.conj());
        }
    }
    vectors
}

/// The eigenvalues of a real Hessenberg matrix `h`, the eigenvectors of `z h z^T`, and 0 if they were found.
pub(super) fn eigen<R: Field<Real = R> + Float>(
    h: Mat<R>,
    z: Mat<R>,
    vectors: bool,
) -> (Vec<R::Complex>, Mat<R::Complex>, i32) {
    let n = h.rows;
    let mut schur = Schur { h, z, re: vec![R::NULL; n], im: vec![R::NULL; n], vectors };
    let info = schur.run();
    let found = if vectors && info == 0 { back(&schur) } else { Mat::zeros(n, n) };
    (schur.re.iter().zip(&schur.im).map(|(&re, &im)| R::Complex::of(re, im)).collect(), found, info)
}
