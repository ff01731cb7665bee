//! The one loop of an elementwise kernel: contiguous elements in, contiguous elements out, [`LANES`] at a time.
//!
//! A group of lanes is computed into a local array and stored after that, so the loop is right when an output is one of the
//! inputs (in-place operators), and LLVM vectorises it without run-time overlap checks: the local array cannot alias, and
//! it ends up in registers. Strides are the driver's business.
// Tuples of no inputs come out of the same macro as others.
#![allow(clippy::unused_unit)]

use std::mem::MaybeUninit;

use tensor_core::{DType, Element};

use crate::isa::Isa;
use crate::simd::Value;

/// The most elements that are computed as one group.
pub(super) const LANES: usize = 128;

/// Left-over elements up to here are computed one by one rather than as a padded group.
const FEW: usize = 4;

/// One scalar body of an elementwise operator. Branch-free bodies vectorise.
pub trait Elementwise<In, Out>: Copy + Send + Sync {
    /// The operator on one element of each input.
    fn apply<I: Isa>(self, x: In) -> Out;

    /// True if [`Elementwise::apply`] is not right for rare inputs, for which [`Elementwise::rare`] stands in.
    const HAS_RARE: bool = false;

    /// Whether an input is such a rare one.
    #[inline(always)]
    fn is_rare(self, _x: In) -> bool {
        false
    }

    /// The operator on any input, branches allowed. A group of lanes with a rare input runs it on all of them.
    #[inline(always)]
    fn rare<I: Isa>(self, x: In) -> Out {
        self.apply::<I>(x)
    }
}

/// The inputs of an elementwise operator: a tuple of up to five element types.
pub trait Inputs: Copy {
    /// The dtypes, in order.
    const DTYPES: &'static [DType];
    /// One pointer an input.
    type Pointers: Copy;
    /// Room for a group of each input.
    type Stage;

    /// Casts addresses, one an input.
    fn pointers(addresses: &[*mut u8]) -> Self::Pointers;
    /// Room without values.
    fn stage() -> Self::Stage;
    /// The addresses of the room.
    fn staged(stage: &Self::Stage) -> Self::Pointers;
    /// Fills the room with `n` elements and repeats the last one.
    ///
    /// # Safety
    /// Every pointer is valid for reads of `n` elements, `0 < n <= LANES`.
    unsafe fn fill(stage: &mut Self::Stage, from: Self::Pointers, n: usize);
    /// # Safety
    /// Every pointer is valid for `i` elements more.
    unsafe fn advance(pointers: Self::Pointers, i: usize) -> Self::Pointers;
    /// # Safety
    /// Every pointer is valid for reads at `i`.
    unsafe fn get(pointers: Self::Pointers, i: usize) -> Self;
}

/// The outputs of an elementwise operator: an element type, or a tuple of two or three.
pub trait Outputs: Copy {
    /// The dtypes, in order.
    const DTYPES: &'static [DType];
    /// Bytes of the largest one.
    const SIZE: usize;
    /// One pointer an output.
    type Pointers: Copy;
    /// Room for a group of each output.
    type Stage;

    /// Casts addresses, one an output.
    fn pointers(addresses: &[*mut u8]) -> Self::Pointers;
    /// Room without values.
    fn stage() -> Self::Stage;
    /// The addresses of the room.
    fn staged(stage: &mut Self::Stage) -> Self::Pointers;
    /// # Safety
    /// `i < LANES`.
    unsafe fn put(self, stage: &mut Self::Stage, i: usize);
    /// # Safety
    /// Every pointer is valid for writes at `i`.
    unsafe fn set(self, to: Self::Pointers, i: usize);
    /// # Safety
    /// Every pointer is valid for writes of `n` elements, and the first `n <= LANES` of the stage were put.
    unsafe fn store(stage: &Self::Stage, to: Self::Pointers, n: usize);
    /// # Safety
    /// Every pointer is valid for `i` elements more.
    unsafe fn advance(pointers: Self::Pointers, i: usize) -> Self::Pointers;
}

/// Elements of a group. So many that LLVM does not unroll the loop before it vectorises it, which it then does badly; so few
/// that their results fit the registers where the body is short.
const fn group(size: usize) -> usize {
    if size <= 4 {
        LANES
    } else if size == 8 {
        LANES / 2
    } else {
        LANES / 4
    }
}

macro_rules! inputs {
    ($($ty:ident $n:tt)*) => {
        #[allow(unused_unsafe)] // of the empty tuple
        impl<$($ty: Element),*> Inputs for ($($ty,)*) {
            const DTYPES: &'static [DType] = &[$($ty::DTYPE),*];
            type Pointers = ($(*const $ty,)*);
            type Stage = ($(MaybeUninit<[$ty; LANES]>,)*);

            #[inline(always)]
            fn pointers(_addresses: &[*mut u8]) -> Self::Pointers {
                ($(_addresses[$n].cast::<$ty>().cast_const(),)*)
            }
            #[inline(always)]
            fn stage() -> Self::Stage {
                ($(MaybeUninit::<[$ty; LANES]>::uninit(),)*)
            }
            #[inline(always)]
            fn staged(_stage: &Self::Stage) -> Self::Pointers {
                ($(_stage.$n.as_ptr().cast::<$ty>(),)*)
            }
            #[inline(always)]
            unsafe fn fill(_stage: &mut Self::Stage, _from: Self::Pointers, _n: usize) {
                // SAFETY: forwarded from the caller; bytes, since storages may be unaligned for the type.
                unsafe {
                    $(
                        let to = _stage.$n.as_mut_ptr().cast::<$ty>();
                        copy_bytes(_from.$n, to, _n);
                        let last = to.add(_n - 1).read();
                        for i in _n..LANES {
                            to.add(i).write(last);
                        }
                    )*
                }
            }
            #[inline(always)]
            unsafe fn advance(_pointers: Self::Pointers, _i: usize) -> Self::Pointers {
                // SAFETY: forwarded from the caller.
                unsafe { ($(_pointers.$n.add(_i),)*) }
            }
            #[inline(always)]
            unsafe fn get(_pointers: Self::Pointers, _i: usize) -> Self {
                // SAFETY: forwarded from the caller.
                unsafe { ($(_pointers.$n.add(_i).read_unaligned(),)*) }
            }
        }
    };
}
inputs!();
inputs!(A 0);
inputs!(A 0 B 1);
inputs!(A 0 B 1 C 2);
inputs!(A 0 B 1 C 2 D 3);
inputs!(A 0 B 1 C 2 D 3 E 4);

impl<T: Value> Outputs for T {
    const DTYPES: &'static [DType] = &[T::DTYPE];
    const SIZE: usize = size_of::<T>();
    type Pointers = *mut T;
    type Stage = MaybeUninit<[T; LANES]>;

    #[inline(always)]
    fn pointers(addresses: &[*mut u8]) -> Self::Pointers {
        addresses[0].cast()
    }
    #[inline(always)]
    fn stage() -> Self::Stage {
        MaybeUninit::uninit()
    }
    #[inline(always)]
    fn staged(stage: &mut Self::Stage) -> Self::Pointers {
        stage.as_mut_ptr().cast::<T>()
    }
    #[inline(always)]
    unsafe fn put(self, stage: &mut Self::Stage, i: usize) {
        // SAFETY: forwarded from the caller: `i` is within the array.
        unsafe { stage.as_mut_ptr().cast::<T>().add(i).write(self) }
    }
    #[inline(always)]
    unsafe fn set(self, to: Self::Pointers, i: usize) {
        // SAFETY: forwarded from the caller.
        unsafe { to.add(i).write_unaligned(self) }
    }
    #[inline(always)]
    unsafe fn store(stage: &Self::Stage, to: Self::Pointers, n: usize) {
        // SAFETY: forwarded from the caller.
        unsafe { copy_bytes(stage.as_ptr().cast::<T>(), to, n) }
    }
    #[inline(always)]
    unsafe fn advance(pointers: Self::Pointers, i: usize) -> Self::Pointers {
        // SAFETY: forwarded from the caller.
        unsafe { pointers.add(i) }
    }
}

macro_rules! outputs {
    ($($ty:ident $n:tt)*) => {
        impl<$($ty: Element),*> Outputs for ($($ty,)*) {
            const DTYPES: &'static [DType] = &[$($ty::DTYPE),*];
            const SIZE: usize = {
                let mut largest = 1;
                $(if size_of::<$ty>() > largest { largest = size_of::<$ty>() })*
                largest
            };
            type Pointers = ($(*mut $ty,)*);
            type Stage = ($(MaybeUninit<[$ty; LANES]>,)*);

            #[inline(always)]
            fn pointers(addresses: &[*mut u8]) -> Self::Pointers {
                ($(addresses[$n].cast::<$ty>(),)*)
            }
            #[inline(always)]
            fn stage() -> Self::Stage {
                ($(MaybeUninit::<[$ty; LANES]>::uninit(),)*)
            }
            #[inline(always)]
            fn staged(stage: &mut Self::Stage) -> Self::Pointers {
                ($(stage.$n.as_mut_ptr().cast::<$ty>(),)*)
            }
            #[inline(always)]
            unsafe fn put(self, stage: &mut Self::Stage, i: usize) {
                // SAFETY: forwarded from the caller: `i` is within the arrays.
                unsafe { $(stage.$n.as_mut_ptr().cast::<$ty>().add(i).write(self.$n);)* }
            }
            #[inline(always)]
            unsafe fn set(self, to: Self::Pointers, i: usize) {
                // SAFETY: forwarded from the caller.
                unsafe { $(to.$n.add(i).write_unaligned(self.$n);)* }
            }
            #[inline(always)]
            unsafe fn store(stage: &Self::Stage, to: Self::Pointers, n: usize) {
                // SAFETY: forwarded from the caller.
                unsafe { $(copy_bytes(stage.$n.as_ptr().cast::<$ty>(), to.$n, n);)* }
            }
            #[inline(always)]
            unsafe fn advance(pointers: Self::Pointers, i: usize) -> Self::Pointers {
                // SAFETY: forwarded from the caller.
                unsafe { ($(pointers.$n.add(i),)*) }
            }
        }
    };
}
outputs!(A 0 B 1);
outputs!(A 0 B 1 C 2);

/// Copies `n` elements without asking for their alignment.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `n` elements; they do not overlap.
#[inline(always)]
unsafe fn copy_bytes<T>(from: *const T, to: *mut T, n: usize) {
    // SAFETY: forwarded from the caller.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), n * size_of::<T>()) }
}

/// Runs an operator over `n` contiguous elements: `addresses` are the outputs, then the inputs.
///
/// # Safety
/// Each address is valid for `n` elements of its type: outputs for writes, inputs for reads. An input is an output's
/// memory exactly, or does not overlap it. No slice of the memory exists.
#[inline(always)]
pub(super) unsafe fn block<I: Isa, In: Inputs, Out: Outputs, F: Elementwise<In, Out>>(
    op: F,
    addresses: &[*mut u8],
    n: usize,
) {
    let (outputs, inputs) = addresses.split_at(Out::DTYPES.len());
    let (mut to, mut from) = (Out::pointers(outputs), In::pointers(inputs));
    let lanes = const { group(Out::SIZE) };
    let (mut groups, left) = (n / lanes, n % lanes);
    let (mut padded, mut result) = (In::stage(), Out::stage());
    let mut last = None;
    // SAFETY: the first round covers `groups` whole groups, so it and what is left make `n`. The second round, if more than a
    // few elements are left, runs one group from `padded`, which `fill` initialised, to `result`: both hold `LANES` elements.
    unsafe {
        loop {
            for _ in 0..groups {
                run_group::<I, In, Out, F>(op, from, to);
                (from, to) = (In::advance(from, lanes), Out::advance(to, lanes));
            }
            if let Some(to) = last {
                return Out::store(&result, to, left);
            }
            if left <= FEW {
                for k in 0..FEW {
                    if k < left {
                        let x = In::get(from, k);
                        let y = if F::HAS_RARE { op.rare::<I>(x) } else { op.apply::<I>(x) };
                        y.set(to, k);
                    }
                }
                return;
            }
            In::fill(&mut padded, from, left);
            last = Some(to);
            (from, to, groups) = (In::staged(&padded), Out::staged(&mut result), 1);
        }
    }
}

/// One group. Its results meet memory in one store, whose size is known: so they stay in registers before.
///
/// # Safety
/// As [`block`], for one group's elements.
#[inline(always)]
unsafe fn run_group<I: Isa, In: Inputs, Out: Outputs, F: Elementwise<In, Out>>(
    op: F,
    from: In::Pointers,
    to: Out::Pointers,
) {
    let lanes = const { group(Out::SIZE) };
    // SAFETY: `k < lanes <= LANES` throughout.
    unsafe {
        if F::HAS_RARE {
            let mut any = false;
            for k in 0..lanes {
                any |= op.is_rare(In::get(from, k));
            }
            if any {
                let mut group = Out::stage();
                for k in 0..lanes {
                    op.rare::<I>(In::get(from, k)).put(&mut group, k);
                }
                return Out::store(&group, to, lanes);
            }
        }
        let mut group = Out::stage();
        for k in 0..lanes {
            op.apply::<I>(In::get(from, k)).put(&mut group, k);
        }
        Out::store(&group, to, lanes);
    }
}
