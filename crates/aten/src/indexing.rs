//! Python's `x[...]`: [`Tensor::i`] reads, [`Tensor::i_set_`] writes; [`TensorIndex`] and the traits say what an index is.
//! Turning an index into views and gathers is in `apply`.
//!
//! | Python | here |
//! |---|---|
//! | `x[0]`, `x[-1]` | `x.i(0)`, `x.i(-1)` |
//! | `x[1:3]`, `x[:-1]`, `x[:]` | `x.i(1..3)`, `x.i(..-1)`, `x.i(..)` |
//! | `x[::2]`, `x[1:9:2]` | `x.i(slice(None, None, 2))`, `x.i(slice(1, 9, 2))` |
//! | `x[..., 0]`, `x[None]` | `x.i((Ellipsis, 0))`, `x.i(None)` |
//! | `x[0, :, idx]`, `x[mask]` | `x.i((0, .., &idx))`, `x.i(&mask)` |
//! | `x[[0, 2]]` | `x.i([0, 2])` |
//! | `x[0, 1:] = y`, `x[mask] = 1.5` | `x.i_set_((0, 1..), &y)`, `x.i_set_(&mask, 1.5)` |

mod apply;

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use smallvec::SmallVec;
use tensor_core::{Bool, Result};

use crate::arithmetic::RightOperand;
use crate::{Arg, Operand, Tensor};

/// One part of an index: what stands between two commas in Python.
pub enum TensorIndex<'a> {
    /// A new dimension of size 1.
    None,
    /// Whole dimensions, as many as are not named otherwise.
    Ellipsis,
    /// One position; the dimension goes.
    Int(i64),
    /// A new dimension, of size 1 for `true` and 0 for `false`.
    Bool(bool),
    /// A range of positions.
    Slice(Slice),
    /// Positions (integers) or a mask (bool), gathered.
    Tensor(Arg<'a>),
}

/// `start:stop:step`. Positions count from the end when negative; the step is positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// the first position
    pub start: Option<i64>,
    /// the position after the last one
    pub stop: Option<i64>,
    /// the distance between positions
    pub step: i64,
}

/// Python's `slice(start, stop, step)`: `slice(None, None, 2)` is `[::2]`.
pub fn slice(
    start: impl Into<Option<i64>>,
    stop: impl Into<Option<i64>>,
    step: impl Into<Option<i64>>,
) -> TensorIndex<'static> {
    TensorIndex::Slice(Slice { start: start.into(), stop: stop.into(), step: step.into().unwrap_or(1) })
}

/// Python's `...` in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ellipsis;

/// The parts of an index.
pub type Indices<'a> = SmallVec<[TensorIndex<'a>; 4]>;

/// What can be one part of an index.
pub trait IndexItem<'a> {
    /// The part.
    ///
    /// # Errors
    /// The error of a failed call, or of making a tensor from a list.
    fn into_item(self) -> Result<TensorIndex<'a>>;
}

/// What can be a whole index: one part, a tuple of up to eight, or a list of [`TensorIndex`].
pub trait IntoIndex<'a> {
    /// The parts.
    ///
    /// # Errors
    /// As [`IndexItem::into_item`].
    fn into_index(self) -> Result<Indices<'a>>;
}

/// Types that are one part of an index, and so a whole index too.
macro_rules! items {
    ($($(for $n:ident in)? ($ty:ty) |$value:pat_param| $item:expr;)*) => { $(
        impl<'a $(, const $n: usize)?> IndexItem<'a> for $ty {
            fn into_item(self) -> Result<TensorIndex<'a>> {
                let $value = self;
                Ok($item)
            }
        }

        impl<'a $(, const $n: usize)?> IntoIndex<'a> for $ty {
            fn into_index(self) -> Result<Indices<'a>> {
                Ok(SmallVec::from_iter([self.into_item()?]))
            }
        }
    )* };
}

items! {
    (TensorIndex<'a>) |item| item;
    (Slice) |slice| TensorIndex::Slice(slice);
    (Ellipsis) |_| TensorIndex::Ellipsis;
    // `None`, whose type is this one for want of another.
    (Option<()>) |_| TensorIndex::None;
    (bool) |value| TensorIndex::Bool(value);
    (RangeFull) |_| range(None, None);
    (&'a Tensor) |tensor| TensorIndex::Tensor(Arg::Ref(tensor));
    (Tensor) |tensor| TensorIndex::Tensor(Arg::Owned(tensor));
    (Result<Tensor>) |tensor| TensorIndex::Tensor(tensor.into_arg()?);
    (&[i64]) |list| positions(list.to_vec())?;
    (&Vec<i64>) |list| positions(list.clone())?;
    (Vec<i64>) |list| positions(list)?;
    for N in ([i64; N]) |list| positions(list.to_vec())?;
    for N in (&[i64; N]) |list| positions(list.to_vec())?;
    (Vec<bool>) |list| mask(&list)?;
    (&[bool]) |list| mask(list)?;
    for N in ([bool; N]) |list| mask(&list)?;
    for N in (&[bool; N]) |list| mask(list)?;
}

/// Integer types, as positions and as the ends of ranges.
macro_rules! integers {
    ($($ty:ty)*) => { $(
        items! {
            ($ty) |at| TensorIndex::Int(position(at));
            (Range<$ty>) |r| range(Some(position(r.start)), Some(position(r.end)));
            (RangeFrom<$ty>) |r| range(Some(position(r.start)), None);
            (RangeTo<$ty>) |r| range(None, Some(position(r.end)));
            (RangeInclusive<$ty>) |r| range(Some(position(*r.start())), after(position(*r.end())));
            (RangeToInclusive<$ty>) |r| range(None, after(position(r.end)));
        }
    )* };
}
integers!(i64 i32 usize isize u32);

fn position(at: impl TryInto<i64>) -> i64 {
    at.try_into().unwrap_or(i64::MAX)
}

/// The position after an inclusive end; there is none after the last one.
fn after(end: i64) -> Option<i64> {
    if end == -1 { None } else { Some(end.saturating_add(1)) }
}

fn range(start: Option<i64>, stop: Option<i64>) -> TensorIndex<'static> {
    TensorIndex::Slice(Slice { start, stop, step: 1 })
}

fn positions(list: Vec<i64>) -> Result<TensorIndex<'static>> {
    let sizes = [list.len() as i64];
    Tensor::from_vec(list, &sizes).map(|tensor| TensorIndex::Tensor(Arg::Owned(tensor)))
}

fn mask(list: &[bool]) -> Result<TensorIndex<'static>> {
    let list: Vec<Bool> = list.iter().copied().map(Bool::new).collect();
    let sizes = [list.len() as i64];
    Tensor::from_vec(list, &sizes).map(|tensor| TensorIndex::Tensor(Arg::Owned(tensor)))
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => { $(
        impl<'a, $($name: IndexItem<'a>),*> IntoIndex<'a> for ($($name,)*) {
            #[allow(non_snake_case)]
            fn into_index(self) -> Result<Indices<'a>> {
                let ($($name,)*) = self;
                Ok(SmallVec::from_iter([$($name.into_item()?),*] as [TensorIndex<'a>; _]))
            }
        }
    )* };
}
tuples!(() (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H));

impl<'a> IntoIndex<'a> for Vec<TensorIndex<'a>> {
    fn into_index(self) -> Result<Indices<'a>> {
        Ok(Indices::from_vec(self))
    }
}

impl<'a, const N: usize> IntoIndex<'a> for [TensorIndex<'a>; N] {
    fn into_index(self) -> Result<Indices<'a>> {
        Ok(self.into_iter().collect())
    }
}

impl<'a> IntoIndex<'a> for &'a [TensorIndex<'_>] {
    fn into_index(self) -> Result<Indices<'a>> {
        Ok(self.iter().map(TensorIndex::borrowed).collect())
    }
}

impl TensorIndex<'_> {
    fn borrowed(&self) -> TensorIndex<'_> {
        match self {
            Self::None => TensorIndex::None,
            Self::Ellipsis => TensorIndex::Ellipsis,
            Self::Int(at) => TensorIndex::Int(*at),
            Self::Bool(value) => TensorIndex::Bool(*value),
            Self::Slice(slice) => TensorIndex::Slice(*slice),
            Self::Tensor(tensor) => TensorIndex::Tensor(Arg::Ref(tensor)),
        }
    }
}

impl Tensor {
    /// Python's `x[index]`: a view where the index has no tensors, a fresh tensor of gathered elements where it has.
    ///
    /// # Errors
    /// `IndexError` for too many parts, positions out of range, and masks of another shape; `ValueError` for a step that
    /// is not positive.
    pub fn i<'a>(&self, index: impl IntoIndex<'a>) -> Result<Tensor> {
        apply::get(self, &index.into_index()?)
    }

    /// Python's `x[index] = value`, where the value is a tensor, a number, or the result of a call. Returns `x`.
    ///
    /// # Errors
    /// As [`Tensor::i`], and when the value does not broadcast to what the index names.
    pub fn i_set_<'a, 'v>(&self, index: impl IntoIndex<'a>, value: impl RightOperand<'v>) -> Result<&Tensor> {
        apply::set(self, &index.into_index()?, value.into_right()?)?;
        Ok(self)
    }
}
