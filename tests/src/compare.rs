//! Elements out of bytes, and the rule by which a value counts as the recorded one. Knows nothing of the library's tensors.

use std::fmt;

use tensor_core::{DType, Element, Scalar, dispatch, element};

use crate::corpus::Result;

/// A strided view of bytes.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The storage's bytes.
    pub bytes: &'a [u8],
    /// The element type.
    pub dtype: DType,
    /// The sizes.
    pub size: &'a [i64],
    /// The strides, in elements.
    pub stride: &'a [i64],
    /// The first element's index.
    pub offset: i64,
    /// Whether the elements are the conjugates of what the bytes hold.
    pub conj: bool,
    /// Whether the elements are the negatives of what the bytes hold.
    pub neg: bool,
}

impl<'a> View<'a> {
    /// All of some bytes as one row of elements; a rest that fills none is left out.
    pub fn row(bytes: &'a [u8], dtype: DType, size: &'a [i64; 1]) -> Self {
        Self { bytes, dtype, size, stride: &[1], offset: 0, conj: false, neg: false }
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// When the view does not lie within the bytes.
    pub fn elements(&self) -> Result<Vec<Scalar>> {
        let needed =
            tensor_core::strides::storage_bytes(self.size, self.stride, self.dtype.itemsize(), self.offset.max(0))
                .map_err(|e| e.message().to_owned())?;
        if self.offset < 0 || self.stride.len() != self.size.len() || needed > self.bytes.len() {
            return Err(format!("the view {self:?} lies beyond its storage of {} bytes", self.bytes.len()));
        }
        let mut elements = dispatch!(self.dtype, T => self.read::<T>());
        for e in &mut elements {
            if self.conj {
                *e = e.conj();
            }
            if self.neg {
                *e = match *e {
                    Scalar::Float(f) => Scalar::Float(-f),
                    Scalar::Complex(c) => Scalar::Complex(-c),
                    other => Scalar::Int(other.to_i64().wrapping_neg()),
                };
            }
        }
        Ok(elements)
    }

    fn read<T: Element>(&self) -> Vec<Scalar> {
        let itemsize = self.dtype.itemsize();
        let mut elements = Vec::new();
        tensor_aten::tensor::for_each_offset(self.size, self.stride, self.offset, |at| {
            let start = at as usize * itemsize;
            elements.push(element::read_unaligned::<T>(&self.bytes[start..start + itemsize]).to_scalar());
        });
        elements
    }
}

/// How far a value may lie from the recorded one: `|got - want| <= atol + rtol * |want|`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tolerance {
    /// The relative part.
    pub rtol: f64,
    /// The absolute part.
    pub atol: f64,
}

impl Tolerance {
    /// Only equal values are close; NaN equals NaN.
    pub const EXACT: Self = Self { rtol: 0.0, atol: 0.0 };

    /// All values are close.
    pub const ANY: Self = Self { rtol: f64::INFINITY, atol: f64::INFINITY };

    fn reals(self, got: f64, want: f64) -> bool {
        if got == want || (got.is_nan() && want.is_nan()) {
            return true;
        }
        let distance = (got - want).abs();
        distance.is_finite() && distance <= self.atol + self.rtol * want.abs()
    }

    /// True if the value counts as the recorded one. Integers and booleans must be equal; a complex number is close as a
    /// whole or in both of its parts.
    pub fn close(self, got: Scalar, want: Scalar) -> bool {
        if self.atol == f64::INFINITY {
            return true;
        }
        match (got, want) {
            (Scalar::Bool(a), Scalar::Bool(b)) => a == b,
            (Scalar::Int(a), Scalar::Int(b)) => a == b,
            (Scalar::Float(a), Scalar::Float(b)) => self.reals(a, b),
            (Scalar::Complex(a), Scalar::Complex(b)) => {
                let distance = (a - b).norm();
                (distance.is_finite() && distance <= self.atol + self.rtol * b.norm())
                    || (self.reals(a.re, b.re) && self.reals(a.im, b.im))
            }
            _ => false,
        }
    }
}

/// The first place where two tensors differ.
#[derive(Clone, Debug)]
pub struct Difference {
    index: Vec<i64>,
    got: Scalar,
    want: Scalar,
    count: usize,
    total: usize,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, got, want, count, total } = self;
        write!(f, "{count} of {total} values differ, first at {index:?}: got {got}, want {want}")
    }
}

/// The first difference between two lists of elements of a shape, if there is one.
///
/// # Errors
/// When the lists are not of one length.
pub fn difference(got: &[Scalar], want: &[Scalar], size: &[i64], tolerance: Tolerance) -> Result<Option<Difference>> {
    if got.len() != want.len() {
        return Err(format!("{} values, want {}", got.len(), want.len()));
    }
    let mut wrong = (0..got.len()).filter(|&i| !tolerance.close(got[i], want[i]));
    let Some(first) = wrong.next() else { return Ok(None) };
    Ok(Some(Difference {
        index: unravel(first, size),
        got: got[first],
        want: want[first],
        count: 1 + wrong.count(),
        total: got.len(),
    }))
}

fn unravel(mut flat: usize, size: &[i64]) -> Vec<i64> {
    let mut index = vec![0; size.len()];
    for (slot, &n) in index.iter_mut().zip(size).rev() {
        let n = n.max(1) as usize;
        *slot = (flat % n) as i64;
        flat /= n;
    }
    index
}

/// What is left of results that are unique only up to sign, phase or order: the sorted absolute values.
pub fn invariant(elements: &[Scalar]) -> Vec<Scalar> {
    let mut sizes: Vec<f64> = elements
        .iter()
        .map(|e| match e {
            Scalar::Complex(c) => c.norm(),
            other => other.to_f64().abs(),
        })
        .collect();
    sizes.sort_by(f64::total_cmp);
    sizes.into_iter().map(Scalar::Float).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::Complex;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn strided_views_are_read_in_row_major_order() {
        let bytes = bytes(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let view = View {
            bytes: &bytes,
            dtype: DType::F32,
            size: &[2, 2],
            stride: &[1, 2],
            offset: 1,
            conj: false,
            neg: true,
        };
        assert_eq!(view.elements().unwrap(), [-1.0, -3.0, -2.0, -4.0].map(Scalar::Float));
        assert!(View { offset: 3, ..view }.elements().is_err());
        assert!(View { offset: -1, ..view }.elements().is_err());
        assert!(View { size: &[0, 2], offset: 99, ..view }.elements().unwrap().is_empty());
    }

    #[test]
    fn closeness_is_that_of_the_format() {
        let t = Tolerance { rtol: 0.1, atol: 0.01 };
        let real = |a, b| t.close(Scalar::Float(a), Scalar::Float(b));
        assert!(real(1.1, 1.0) && !real(1.2, 1.0) && real(0.009, 0.0));
        assert!(real(f64::NAN, f64::NAN) && !real(f64::NAN, 0.0) && !real(0.0, f64::NAN));
        assert!(real(f64::INFINITY, f64::INFINITY) && !real(1.0, f64::INFINITY) && !real(f64::INFINITY, 1.0));
        assert!(real(-0.0, 0.0));
        assert!(!t.close(Scalar::Int(1 << 60), Scalar::Int((1 << 60) + 1)), "integers are exact");
        assert!(!t.close(Scalar::Int(1), Scalar::Float(1.0)), "kinds differ");
        let complex = |a: (f64, f64), b: (f64, f64)| {
            t.close(Scalar::Complex(Complex::new(a.0, a.1)), Scalar::Complex(Complex::new(b.0, b.1)))
        };
        assert!(complex((0.1, 5.0), (0.0, 5.0)), "close as a whole");
        assert!(complex((f64::NAN, 1.0), (f64::NAN, 1.0)) && !complex((f64::NAN, 1.0), (f64::NAN, 2.0)));
    }

    #[test]
    fn the_first_difference_is_named() {
        let want = [1.0, 2.0, 3.0, 4.0].map(Scalar::Float);
        let mut got = want;
        assert!(difference(&got, &want, &[2, 2], Tolerance::EXACT).unwrap().is_none());
        got[2] = Scalar::Float(3.5);
        got[3] = Scalar::Float(4.5);
        let text = difference(&got, &want, &[2, 2], Tolerance::EXACT).unwrap().unwrap().to_string();
        assert_eq!(text, "2 of 4 values differ, first at [1, 0]: got 3.5, want 3");
        assert!(difference(&got[1..], &want, &[2, 2], Tolerance::EXACT).is_err());
    }

    #[test]
    fn signs_phases_and_order_do_not_count() {
        let a = [Scalar::Float(-3.0), Scalar::Float(1.0)];
        let b = [Scalar::Complex(Complex::new(0.0, 1.0)), Scalar::Float(3.0)];
        assert_eq!(invariant(&a), invariant(&b));
    }
}
