//! The one loop of an elementwise kernel: contiguous elements in, contiguous elements out, [`LANES`] at a time.
//!
//! A group of lanes is computed into a local array and stored after that, so the loop is right when an output is one of the
//! inputs (in-place operators), and LLVM vectorises it without run-time overlap checks: the local array cannot alias, and
//! it ends up in registers. Strides are the driver's business.
//!
//! Memory may hold f16 where the operator computes in f32: elements are widened as they are read, and a group is narrowed as it
//! is stored. So the types of the operator and of the memory are given both.
// Tuples of no inputs come out of the same macro as others.
#![allow(clippy::unused_unit)]

use std::mem::MaybeUninit;

use tensor_core::{DType, Element, f16};

use crate::isa::Isa;
use crate::simd::{Value, f32_to_f16, narrow, widened};

/// The most elements that are computed as one group.
pub(super) const LANES: usize = 128;

/// Left-over elements up to here are computed one by one rather than as a padded group.
const FEW: usize = 4;

/// Inputs, a bit each, that are one number all along, of which memory holds a group of [`LANES`] copies.
pub(super) type Still = u8;

/// Operands that a kernel has at most.
pub(super) const MOST: usize = 8;

/// What a block runs over: rows of elements that lie side by side.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub cols: usize,
    /// At least one.
    pub rows: usize,
    /// Bytes from a row to the next one, operand by operand: the outputs, then the inputs.
    pub strides: &'a [isize; MOST],
    pub still: Still,
}

impl Rows<'_> {
    /// One row.
    #[inline(always)]
    pub fn one(cols: usize, still: Still) -> Self {
        Self { cols, rows: 1, strides: &[0; MOST], still }
    }
}

/// True if an operator computes in f32 what such memory holds as f16.
#[inline(always)]
const fn is_half(memory: DType, computed: DType) -> bool {
    matches!((memory, computed), (DType::F16, DType::F32))
}

/// True if an operator on these types runs on such memory.
pub(super) const fn suits(memory: &[DType], computed: &[DType]) -> bool {
    let mut i = 0;
    while i < memory.len() && i < computed.len() {
        if memory[i] as u8 != computed[i] as u8 && !is_half(memory[i], computed[i]) {
            return false;
        }
        i += 1;
    }
    memory.len() == computed.len()
}

/// Element `i` of memory of that dtype.
///
/// # Safety
/// The pointer is valid for reads there, the dtype suits.
#[inline(always)]
unsafe fn load<I: Isa, T: Element>(memory: DType, from: *const u8, i: usize) -> T {
    // SAFETY: forwarded from the caller; where the memory is f16, `T` is f32.
    unsafe {
        if is_half(memory, T::DTYPE) {
            std::mem::transmute_copy(&widened::<I>(from.cast::<f16>().add(i).read_unaligned()))
        } else {
            from.cast::<T>().add(i).read_unaligned()
        }
    }
}

/// Sets element `i` of memory of that dtype.
///
/// # Safety
/// As [`load`], for writes.
#[inline(always)]
unsafe fn put_at<T: Element>(value: T, memory: DType, to: *mut u8, i: usize) {
    // SAFETY: forwarded from the caller; where the memory is f16, `T` is f32.
    unsafe {
        if is_half(memory, T::DTYPE) {
            to.cast::<f16>().add(i).write_unaligned(f32_to_f16(std::mem::transmute_copy(&value)));
        } else {
            to.cast::<T>().add(i).write_unaligned(value);
        }
    }
}

/// Writes `n` elements to memory of that dtype.
///
/// # Safety
/// As [`load`], for writes of `n` elements and reads of as many; they do not overlap.
#[inline(always)]
unsafe fn store<I: Isa, T: Element>(from: *const T, memory: DType, to: *mut u8, n: usize) {
    // SAFETY: forwarded from the caller; where the memory is f16, `T` is f32.
    unsafe {
        if is_half(memory, T::DTYPE) {
            narrow::<I>(from.cast(), to.cast(), n);
        } else {
            std::ptr::copy_nonoverlapping(from.cast(), to, n * size_of::<T>());
        }
    }
}

/// Fills room with `n` elements of memory of that dtype and repeats the last one.
///
/// # Safety
/// As [`load`], for reads of `n` elements, `0 < n <= LANES`.
#[inline(always)]
unsafe fn fill<T: Element>(memory: DType, from: *const u8, room: &mut MaybeUninit<[T; LANES]>, n: usize) {
    #[inline(always)]
    unsafe fn fill<T: Copy>(from: *const u8, to: *mut T, n: usize) {
        // SAFETY: forwarded from the caller; bytes, since storages may be unaligned for the type.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to.cast(), n * size_of::<T>());
            let last = to.add(n - 1).read();
            for i in n..LANES {
                to.add(i).write(last);
            }
        }
    }
    // SAFETY: forwarded from the caller; a group of f16 has room where one of f32 has.
    unsafe {
        if is_half(memory, T::DTYPE) {
            fill::<f16>(from, room.as_mut_ptr().cast(), n);
        } else {
            fill::<T>(from, room.as_mut_ptr().cast(), n);
        }
    }
}

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

/// The inputs of an elementwise operator: a tuple of up to five element types. `M` are the types in memory.
pub trait Inputs: Copy {
    /// The dtypes, in order.
    const DTYPES: &'static [DType];
    /// An address or a number of bytes an input.
    type Each<P: Copy>: Copy;
    /// Room for a group of each input.
    type Stage;

    /// Addresses, one an input.
    fn pointers(addresses: &[*mut u8]) -> Self::Each<*const u8>;
    /// Bytes from a group of `lanes` elements to the next one.
    fn steps<M: Inputs>(lanes: usize, still: Still) -> Self::Each<usize>;
    /// Room without values.
    fn stage() -> Self::Stage;
    /// The addresses of the room.
    fn staged(stage: &Self::Stage) -> Self::Each<*const u8>;
    /// Fills the room with `n` elements and repeats the last one.
    ///
    /// # Safety
    /// Every pointer is valid for reads of `n` elements, `0 < n <= LANES`; the memory suits.
    unsafe fn fill<M: Inputs>(stage: &mut Self::Stage, from: Self::Each<*const u8>, n: usize);
    /// The addresses some steps on.
    fn advance(pointers: Self::Each<*const u8>, steps: Self::Each<usize>) -> Self::Each<*const u8>;
    /// The addresses a row on.
    fn next_row(pointers: Self::Each<*const u8>, strides: &[isize]) -> Self::Each<*const u8>;
    /// # Safety
    /// Every pointer is valid for reads at `i`; the memory suits.
    unsafe fn get<I: Isa, M: Inputs>(pointers: Self::Each<*const u8>, i: usize) -> Self;
}

/// The outputs of an elementwise operator: an element type, or a tuple of two or three. `M` are the types in memory.
pub trait Outputs: Copy {
    /// The dtypes, in order.
    const DTYPES: &'static [DType];
    /// Bytes of the largest one.
    const SIZE: usize;
    /// An address an output.
    type Pointers: Copy;
    /// Room for a group of each output.
    type Stage;

    /// Addresses, one an output.
    fn pointers(addresses: &[*mut u8]) -> Self::Pointers;
    /// Room without values.
    fn stage() -> Self::Stage;
    /// The addresses of the room.
    fn staged(stage: &mut Self::Stage) -> Self::Pointers;
    /// # Safety
    /// `i < LANES`.
    unsafe fn put(self, stage: &mut Self::Stage, i: usize);
    /// # Safety
    /// Every pointer is valid for writes at `i`; the memory suits.
    unsafe fn set<M: Outputs>(self, to: Self::Pointers, i: usize);
    /// # Safety
    /// Every pointer is valid for writes of `n` elements, the first `n <= LANES` of the stage were put; the memory suits.
    unsafe fn store<I: Isa, M: Outputs>(stage: &Self::Stage, to: Self::Pointers, n: usize);
    /// Copies elements that were stored at [`Outputs::staged`].
    ///
    /// # Safety
    /// Every pointer is valid for writes of `n <= LANES` elements.
    unsafe fn copy<M: Outputs>(stage: &Self::Stage, to: Self::Pointers, n: usize);
    /// The addresses a row on.
    fn next_row(pointers: Self::Pointers, strides: &[isize]) -> Self::Pointers;
    /// The addresses `i` elements on.
    fn advance<M: Outputs>(pointers: Self::Pointers, i: usize) -> Self::Pointers;
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
    ($count:literal: $($ty:ident $n:tt)*) => {
        #[allow(unused_unsafe)] // of the empty tuple
        impl<$($ty: Element),*> Inputs for ($($ty,)*) {
            const DTYPES: &'static [DType] = &[$($ty::DTYPE),*];
            type Each<P: Copy> = [P; $count];
            type Stage = ($(MaybeUninit<[$ty; LANES]>,)*);

            #[inline(always)]
            fn pointers(_addresses: &[*mut u8]) -> Self::Each<*const u8> {
                [$(_addresses[$n].cast_const()),*]
            }
            #[inline(always)]
            fn steps<M: Inputs>(_lanes: usize, _still: Still) -> Self::Each<usize> {
                [$(if _still >> $n & 1 == 1 { 0 } else { _lanes * const { M::DTYPES[$n].itemsize() } }),*]
            }
            #[inline(always)]
            fn stage() -> Self::Stage {
                ($(MaybeUninit::<[$ty; LANES]>::uninit(),)*)
            }
            #[inline(always)]
            fn staged(_stage: &Self::Stage) -> Self::Each<*const u8> {
                [$(_stage.$n.as_ptr().cast()),*]
            }
            #[inline(always)]
            unsafe fn fill<M: Inputs>(_stage: &mut Self::Stage, _from: Self::Each<*const u8>, _n: usize) {
                // SAFETY: forwarded from the caller.
                unsafe { $(fill::<$ty>(const { M::DTYPES[$n] }, _from[$n], &mut _stage.$n, _n);)* }
            }
            #[inline(always)]
            fn advance(_pointers: Self::Each<*const u8>, _steps: Self::Each<usize>) -> Self::Each<*const u8> {
                [$(_pointers[$n].wrapping_add(_steps[$n])),*]
            }
            #[inline(always)]
            fn next_row(_pointers: Self::Each<*const u8>, _strides: &[isize]) -> Self::Each<*const u8> {
                [$(_pointers[$n].wrapping_offset(_strides[$n])),*]
            }
            #[inline(always)]
            unsafe fn get<I: Isa, M: Inputs>(_pointers: Self::Each<*const u8>, _i: usize) -> Self {
                // SAFETY: forwarded from the caller.
                unsafe { ($(load::<I, $ty>(const { M::DTYPES[$n] }, _pointers[$n], _i),)*) }
            }
        }
    };
}
inputs!(0:);
inputs!(1: A 0);
inputs!(2: A 0 B 1);
inputs!(3: A 0 B 1 C 2);
inputs!(4: A 0 B 1 C 2 D 3);
inputs!(5: A 0 B 1 C 2 D 3 E 4);

macro_rules! outputs {
    ($count:literal: $($ty:ident $n:tt)*) => {
        impl<$($ty: Element),*> Outputs for ($($ty,)*) {
            const DTYPES: &'static [DType] = &[$($ty::DTYPE),*];
            const SIZE: usize = {
                let mut largest = 1;
                $(if size_of::<$ty>() > largest { largest = size_of::<$ty>() })*
                largest
            };
            type Pointers = [*mut u8; $count];
            type Stage = ($(MaybeUninit<[$ty; LANES]>,)*);

            #[inline(always)]
            fn pointers(addresses: &[*mut u8]) -> Self::Pointers {
                [$(addresses[$n]),*]
            }
            #[inline(always)]
            fn stage() -> Self::Stage {
                ($(MaybeUninit::<[$ty; LANES]>::uninit(),)*)
            }
            #[inline(always)]
            fn staged(stage: &mut Self::Stage) -> Self::Pointers {
                [$(stage.$n.as_mut_ptr().cast()),*]
            }
            #[inline(always)]
            unsafe fn put(self, stage: &mut Self::Stage, i: usize) {
                // SAFETY: forwarded from the caller: `i` is within the arrays.
                unsafe { $(stage.$n.as_mut_ptr().cast::<$ty>().add(i).write(self.$n);)* }
            }
            #[inline(always)]
            unsafe fn set<M: Outputs>(self, to: Self::Pointers, i: usize) {
                // SAFETY: forwarded from the caller.
                unsafe { $(put_at(self.$n, const { M::DTYPES[$n] }, to[$n], i);)* }
            }
            #[inline(always)]
            unsafe fn store<I: Isa, M: Outputs>(stage: &Self::Stage, to: Self::Pointers, n: usize) {
                // SAFETY: forwarded from the caller.
                unsafe { $(store::<I, $ty>(stage.$n.as_ptr().cast(), const { M::DTYPES[$n] }, to[$n], n);)* }
            }
            #[inline(always)]
            unsafe fn copy<M: Outputs>(stage: &Self::Stage, to: Self::Pointers, n: usize) {
                $(
                    let bytes = n * const { M::DTYPES[$n].itemsize() };
                    // SAFETY: forwarded from the caller.
                    unsafe { std::ptr::copy_nonoverlapping(stage.$n.as_ptr().cast(), to[$n], bytes) };
                )*
            }
            #[inline(always)]
            fn next_row(to: Self::Pointers, strides: &[isize]) -> Self::Pointers {
                [$(to[$n].wrapping_offset(strides[$n])),*]
            }
            #[inline(always)]
            fn advance<M: Outputs>(to: Self::Pointers, i: usize) -> Self::Pointers {
                [$(to[$n].wrapping_add(i * const { M::DTYPES[$n].itemsize() })),*]
            }
        }
    };
}
outputs!(1: A 0);
outputs!(2: A 0 B 1);
outputs!(3: A 0 B 1 C 2);

/// One output, as a tuple of one.
impl<T: Value> Outputs for T {
    const DTYPES: &'static [DType] = <(T,) as Outputs>::DTYPES;
    const SIZE: usize = <(T,) as Outputs>::SIZE;
    type Pointers = <(T,) as Outputs>::Pointers;
    type Stage = <(T,) as Outputs>::Stage;

    #[inline(always)]
    fn pointers(addresses: &[*mut u8]) -> Self::Pointers {
        <(T,) as Outputs>::pointers(addresses)
    }
    #[inline(always)]
    fn stage() -> Self::Stage {
        <(T,) as Outputs>::stage()
    }
    #[inline(always)]
    fn staged(stage: &mut Self::Stage) -> Self::Pointers {
        <(T,) as Outputs>::staged(stage)
    }
    #[inline(always)]
    unsafe fn put(self, stage: &mut Self::Stage, i: usize) {
        // SAFETY: forwarded from the caller.
        unsafe { (self,).put(stage, i) }
    }
    #[inline(always)]
    unsafe fn set<M: Outputs>(self, to: Self::Pointers, i: usize) {
        // SAFETY: forwarded from the caller.
        unsafe { (self,).set::<M>(to, i) }
    }
    #[inline(always)]
    unsafe fn store<I: Isa, M: Outputs>(stage: &Self::Stage, to: Self::Pointers, n: usize) {
        // SAFETY: forwarded from the caller.
        unsafe { <(T,) as Outputs>::store::<I, M>(stage, to, n) }
    }
    #[inline(always)]
    unsafe fn copy<M: Outputs>(stage: &Self::Stage, to: Self::Pointers, n: usize) {
        // SAFETY: forwarded from the caller.
        unsafe { <(T,) as Outputs>::copy::<M>(stage, to, n) }
    }
    #[inline(always)]
    fn next_row(to: Self::Pointers, strides: &[isize]) -> Self::Pointers {
        <(T,) as Outputs>::next_row(to, strides)
    }
    #[inline(always)]
    fn advance<M: Outputs>(to: Self::Pointers, i: usize) -> Self::Pointers {
        <(T,) as Outputs>::advance::<M>(to, i)
    }
}

/// Runs an operator over rows of contiguous elements: `addresses` are the outputs, then the inputs; `M` and `N` are the types
/// of the inputs and outputs in memory.
///
/// # Safety
/// Each address is valid for the rows' elements of its type (an input that is `still`, for [`LANES`] a row): outputs for writes,
/// inputs for reads. An input is an output's memory exactly, or does not overlap it. No slice of the memory exists. The memory
/// suits.
#[inline(always)]
pub(super) unsafe fn block<I: Isa, M: Inputs, N: Outputs, In: Inputs, Out: Outputs, F: Elementwise<In, Out>>(
    op: F,
    addresses: &[*mut u8],
    Rows { cols, mut rows, strides, still }: Rows<'_>,
) {
    let (outputs, inputs) = addresses.split_at(Out::DTYPES.len());
    let (mut first_to, mut first_from) = (Out::pointers(outputs), In::pointers(inputs));
    let lanes = const { group(Out::SIZE) };
    let (groups, left) = (cols / lanes, cols % lanes);
    let steps = In::steps::<M>(lanes, still);
    let back = In::steps::<M>(cols.saturating_sub(lanes), still);
    let (mut padded, mut result) = (In::stage(), Out::stage());
    // SAFETY: the groups of a row and what is left are its elements. More than a few elements that are left are computed
    // as one more group, to `result`: from the last `lanes` elements of the row or, in a shorter one, from `padded`, which `fill`
    // initialised; both stages hold `LANES` elements. That is done before the groups write what may be their inputs.
    unsafe {
        loop {
            if left > FEW {
                let from = if groups > 0 {
                    In::advance(first_from, back)
                } else {
                    In::fill::<M>(&mut padded, first_from, left);
                    In::staged(&padded)
                };
                run_groups::<I, M, N, In, Out, F>(op, from, Out::staged(&mut result), 1, steps);
            }
            let (mut from, mut to) = (first_from, first_to);
            if groups > 0 {
                (from, to) = run_groups::<I, M, N, In, Out, F>(op, from, to, groups, steps);
            }
            if left <= FEW {
                for k in 0..FEW {
                    if k < left {
                        let x = In::get::<I, M>(from, k);
                        let y = if F::HAS_RARE { op.rare::<I>(x) } else { op.apply::<I>(x) };
                        y.set::<N>(to, k);
                    }
                }
            } else if groups > 0 {
                Out::copy::<N>(&result, Out::advance::<N>(first_to, cols - lanes), lanes);
            } else {
                Out::copy::<N>(&result, first_to, left);
            }
            rows -= 1;
            if rows == 0 {
                return;
            }
            let (outputs, inputs) = strides.split_at(Out::DTYPES.len());
            (first_from, first_to) = (In::next_row(first_from, inputs), Out::next_row(first_to, outputs));
        }
    }
}

/// Groups side by side; gives the addresses behind them. A function of its own, which LLVM inlines where the body is short.
///
/// # Safety
/// As [`block`], for the groups' elements.
#[inline]
unsafe fn run_groups<I: Isa, M: Inputs, N: Outputs, In: Inputs, Out: Outputs, F: Elementwise<In, Out>>(
    op: F,
    mut from: In::Each<*const u8>,
    mut to: Out::Pointers,
    count: usize,
    steps: In::Each<usize>,
) -> (In::Each<*const u8>, Out::Pointers) {
    let lanes = const { group(Out::SIZE) };
    I::run(
        #[inline(always)]
        move || {
            for _ in 0..count {
                // SAFETY: forwarded from the caller.
                unsafe { run_group::<I, M, N, In, Out, F>(op, from, to) };
                (from, to) = (In::advance(from, steps), Out::advance::<N>(to, lanes));
            }
            (from, to)
        },
    )
}

/// One group. Its results meet memory in one store, whose size is known: so they stay in registers before.
///
/// # Safety
/// As [`block`], for one group's elements.
#[inline(always)]
unsafe fn run_group<I: Isa, M: Inputs, N: Outputs, In: Inputs, Out: Outputs, F: Elementwise<In, Out>>(
    op: F,
    from: In::Each<*const u8>,
    to: Out::Pointers,
) {
    let lanes = const { group(Out::SIZE) };
    // SAFETY: `k < lanes <= LANES` throughout.
    unsafe {
        if F::HAS_RARE {
            let mut any = false;
            for k in 0..lanes {
                any |= op.is_rare(In::get::<I, M>(from, k));
            }
            if any {
                let mut group = Out::stage();
                for k in 0..lanes {
                    op.rare::<I>(In::get::<I, M>(from, k)).put(&mut group, k);
                }
                return Out::store::<I, N>(&group, to, lanes);
            }
        }
        let mut group = Out::stage();
        for k in 0..lanes {
            op.apply::<I>(In::get::<I, M>(from, k)).put(&mut group, k);
        }
        Out::store::<I, N>(&group, to, lanes);
    }
}
