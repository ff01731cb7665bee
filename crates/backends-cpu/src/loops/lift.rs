//! Elementwise kernels of f16 that run on f32: blocks of elements are widened and narrowed by the instructions for that,
//! which have no scalar form that LLVM would vectorise, and the block between them is the one of f32.

use std::mem::MaybeUninit;

use tensor_core::iter::TensorIter;
use tensor_core::{DType, Element, Result, check};

use super::block::{Elementwise, Inputs, Outputs, block};
use super::drive::drive;
use crate::isa::Isa;
use crate::simd::{Value, narrow, widen};

/// Operands of a lifted kernel at most.
const MOST: usize = 6;

/// Elements that are converted at a time: those of all operands fit the nearest cache.
const BLOCK: usize = 1024;

/// True if kernels of `T` run on another type.
pub const fn is_lifted<T: Value>() -> bool {
    matches!(T::DTYPE, DType::F16) && matches!(<T::Lift as Element>::DTYPE, DType::F32)
}

/// [`map`](super::map) where some operands are f16 in memory (the dtypes of the outputs and of the inputs are given) and f32 to
/// the operator.
///
/// # Errors
/// As there.
#[inline]
pub fn map_lifted<I: Isa, In: Inputs, Out: Outputs, F: Elementwise<In, Out>>(
    iter: &TensorIter,
    [written, read]: [&[DType]; 2],
    op: F,
) -> Result<()> {
    let count = written.len() + read.len();
    check!(count <= MOST, "a kernel of f16 has {count} operands");
    // Those of which memory holds another type than the operator takes.
    let (mut is_half, mut sizes) = ([false; MOST], [0; MOST]);
    for (size, dtype) in sizes.iter_mut().zip(written.iter().chain(read)) {
        *size = dtype.itemsize();
    }
    let computed = Out::DTYPES.iter().chain(In::DTYPES);
    for (half, (memory, computed)) in is_half.iter_mut().zip(written.iter().chain(read).zip(computed)) {
        *half = memory != computed;
        check!(!*half || (*memory, *computed) == (DType::F16, DType::F32), "a kernel of f16 has operands of {memory}");
    }
    drive(iter, written, read, &|addresses, n| {
        I::run(
            #[inline(always)]
            // SAFETY: `drive` checked the number and dtypes of the operands; it gives addresses that are valid for `n`
            // elements, holding the storages' locks, of operands that the planner found equal or apart.
            || unsafe {
                in_blocks::<I>(
                    addresses,
                    (&is_half, &sizes),
                    written.len(),
                    n,
                    #[inline(always)]
                    |addresses, n| block::<I, In, Out, F>(op, addresses, n),
                )
            },
        )
    })
}

/// Runs `block` on operands whose f16 elements were widened to f32, and narrows what it writes.
///
/// # Safety
/// The addresses, outputs first, are valid for `n` elements: of f16 where `is_half` says so, else of a size that the block
/// knows. An input is an output's memory exactly, or does not overlap it.
#[inline(always)]
unsafe fn in_blocks<I: Isa>(
    addresses: &[*mut u8],
    (is_half, sizes): (&[bool], &[usize]),
    outputs: usize,
    n: usize,
    block: impl Fn(&[*mut u8], usize),
) {
    let mut stages = [const { MaybeUninit::<[f32; BLOCK]>::uninit() }; MOST];
    let mut staged = [std::ptr::null_mut(); MOST];
    for begin in (0..n).step_by(BLOCK) {
        let len = BLOCK.min(n - begin);
        let at = |i: usize| addresses[i].wrapping_add(begin * sizes[i]);
        for (i, stage) in stages[..addresses.len()].iter_mut().enumerate() {
            staged[i] = at(i);
            if is_half[i] {
                staged[i] = stage.as_mut_ptr().cast();
                if i >= outputs {
                    // SAFETY: forwarded from the caller: `len` elements from here on; the stage has room for them.
                    unsafe { widen::<I>(at(i).cast(), stage.as_mut_ptr().cast(), len) };
                }
            }
        }
        block(&staged[..addresses.len()], len);
        for i in (0..outputs).filter(|&i| is_half[i]) {
            // SAFETY: as above; the block wrote `len` elements of the stage.
            unsafe { narrow::<I>(staged[i].cast(), at(i).cast(), len) };
        }
    }
}
