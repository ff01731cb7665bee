//! The driver of elementwise kernels: locks, splits over the pool, walks the plan, and stages what is not contiguous.
//!
//! Nothing here depends on an operator or a dtype: a kernel comes as a function over contiguous blocks, so that its
//! arithmetic is compiled once a dtype and level. An input that is one number along a row stays a group of its copies. Other
//! operands with strides are gathered into (or scattered from) a stage of [`STAGE`] bytes in the nearest cache.

use std::mem::MaybeUninit;

use tensor_core::iter::TensorIter;
use tensor_core::{DType, Element, Result, check};

use super::block::{Elementwise, Inputs, Outputs, Still, block, suits};
use super::patch::{Patch, gather, scatter, spread};
use super::stream::{self, STREAM};
use crate::isa::Isa;
use crate::parallel::{GRAIN, parallel_for};
use crate::simd::Value;
use crate::with_level;

/// Operands that a kernel has at most.
const MOST: usize = 8;

/// Bytes of an operand's stage.
const STAGE: usize = 4096;

/// Outputs that a kernel has at most.
const STREAMED: usize = 3;

/// Bytes of a cache line.
const LINE: isize = 64;

/// Columns of a patch whose elements lie along the rows.
const COLUMNS: usize = 64;

/// Rows below this length are staged several at a time.
const SHORT: usize = 64;

/// A kernel over contiguous elements: the operands' addresses, how many elements, and which inputs are still.
type Block<'a> = &'a (dyn Fn(&[*mut u8], usize, Still) + Sync);

/// True if kernels of `T` run on another type, from and to memory of `T`: see [`map_from`].
pub const fn is_lifted<T: Value>() -> bool {
    matches!(T::DTYPE, DType::F16) && matches!(<T::Lift as Element>::DTYPE, DType::F32)
}

/// Runs an elementwise operator over a plan: `Out` is an element type (or a tuple of several outputs), `In` a tuple of them.
///
/// # Errors
/// When the plan's operands are not of these dtypes, when a storage is borrowed, or on another device than the CPU.
#[inline]
pub fn map<I: Isa, In: Inputs, Out: Outputs, F: Elementwise<In, Out>>(iter: &TensorIter, op: F) -> Result<()> {
    map_from::<I, In, Out, In, Out, F>(iter, op)
}

/// [`map`] where some operands, of the types `M` and `N` in memory, are f16 there and f32 to the operator.
///
/// # Errors
/// As there.
#[inline]
pub fn map_from<I: Isa, M: Inputs, N: Outputs, In: Inputs, Out: Outputs, F: Elementwise<In, Out>>(
    iter: &TensorIter,
    op: F,
) -> Result<()> {
    const { assert!(suits(M::DTYPES, In::DTYPES) && suits(N::DTYPES, Out::DTYPES)) };
    drive(iter, N::DTYPES, M::DTYPES, &|addresses, n, still| {
        I::run(
            #[inline(always)]
            // SAFETY: `drive` checked the number and dtypes of the operands; it gives addresses that are valid for `n`
            // elements, holding the storages' locks, of operands that the planner found equal or apart.
            || unsafe { block::<I, M, N, In, Out, F>(op, addresses, n, still) },
        )
    })
}

/// Runs a block over a plan whose operands have these dtypes.
///
/// # Errors
/// As [`map`].
fn drive(iter: &TensorIter, outputs: &[DType], inputs: &[DType], block: Block<'_>) -> Result<()> {
    let operands = iter.operands();
    check!(iter.device().is_cpu(), "a CPU kernel was called on device {}", iter.device());
    check!(
        iter.num_outputs() == outputs.len() && operands.len() == outputs.len() + inputs.len() && operands.len() <= MOST,
        "kernel takes {} outputs and {} inputs, but the operation has {} operands",
        outputs.len(),
        inputs.len(),
        operands.len()
    );
    // Every call comes along here: no adapters of iterators, which are calls where units are compiled apart.
    for (i, operand) in operands.iter().enumerate() {
        let dtype = if i < outputs.len() { outputs[i] } else { inputs[i - outputs.len()] };
        check!(operand.dtype == dtype, "Found dtype {} but expected {}", operand.dtype.cpp_name(), dtype.cpp_name());
    }
    let numel = iter.numel() as usize;
    if numel == 0 {
        return Ok(());
    }
    iter.locked(|pointers| {
        if iter.is_contiguous() && numel <= GRAIN {
            block(pointers, numel, 0);
        } else {
            run(iter, Addresses::new(pointers), outputs.len(), block);
        }
    })
}

/// Runs the block over a plan of at least one element, whose storages are locked.
#[inline(never)]
fn run(iter: &TensorIter, base: Addresses, outputs: usize, block: Block<'_>) {
    if iter.is_contiguous() {
        return run_line(iter, base, outputs, 0, block);
    }
    if let Some(still) = line(iter, outputs) {
        let mut stages = [const { Stage([MaybeUninit::uninit(); STAGE]) }; MOST];
        return run_line(iter, base.spread(iter, still, &mut stages), outputs, still, block);
    }
    let streams = streams(iter, &base, outputs);
    let numel = iter.numel() as usize;
    // Threads must not write one element twice at once: an expanded output is filled serially.
    let expanded = |strides: &[isize]| iter.shape().iter().zip(strides).any(|(&size, &stride)| size > 1 && stride == 0);
    let grain = if (0..outputs).any(|i| expanded(iter.strides(i))) { numel } else { GRAIN };
    parallel_for(numel, grain, |begin, end| Walk::new(iter, streams, block).run(iter, base, begin, end));
}

/// The inputs, a bit an operand, that are one number all along, if all other operands lie side by side.
fn line(iter: &TensorIter, outputs: usize) -> Option<Still> {
    let mut still = 0;
    for (i, operand) in iter.operands().iter().enumerate() {
        let stride = iter.strides0(i);
        if stride == 0 && i >= outputs {
            still |= 1 << i;
        } else if stride != operand.dtype.itemsize() as isize {
            return None;
        }
    }
    (iter.ndim() == 1).then_some(still)
}

/// [`run`] where all operands lie side by side, but for those that are `still`, a bit an operand.
fn run_line(iter: &TensorIter, base: Addresses, outputs: usize, still: Still, block: Block<'_>) {
    let streams = streams(iter, &base, outputs);
    parallel_for(iter.numel() as usize, GRAIN, |begin, end| {
        let addresses = base.moved(iter, begin, still);
        if streams {
            stream_block(iter, addresses, outputs, end - begin, still, block);
            stream::fence();
        } else {
            block(addresses.get(), end - begin, still >> outputs)
        }
    })
}

/// Whether outputs go past the caches: large ones whose lines no input has fetched already.
fn streams(iter: &TensorIter, base: &Addresses, outputs: usize) -> bool {
    let (written, read) = base.get().split_at(outputs);
    let bytes = |i: usize| iter.numel() as usize * iter.operand(i).dtype.itemsize();
    outputs <= STREAMED
        && (0..outputs).all(|i| bytes(i) >= STREAM)
        && !written.iter().any(|address| read.contains(address))
}

/// Runs the block over `n` elements side by side, a stage at a time, and streams what it wrote to the outputs. A fence is to follow.
fn stream_block(iter: &TensorIter, mut addresses: Addresses, outputs: usize, n: usize, still: Still, block: Block<'_>) {
    let sizes = iter.operands().iter().map(|operand| operand.dtype.itemsize());
    let room = STAGE / sizes.fold(1, usize::max);
    let mut stages = [const { Stage([MaybeUninit::uninit(); STAGE]) }; STREAMED];
    for begin in (0..n).step_by(room) {
        let len = room.min(n - begin);
        let mut staged = addresses;
        for (stage, address) in stages[..outputs].iter_mut().zip(&mut staged.list) {
            *address = stage.0.as_mut_ptr().cast();
        }
        block(staged.get(), len, still >> outputs);
        for (i, stage) in stages[..outputs].iter().enumerate() {
            let bytes = len * iter.operand(i).dtype.itemsize();
            // SAFETY: the block wrote as many bytes of the stage; the output has as many from this address on.
            unsafe { stream::copy(stage.0.as_ptr().cast(), addresses.list[i], bytes) };
        }
        addresses = addresses.moved(iter, len, still);
    }
}

/// The operands' addresses. Threads share them as numbers; what they may do with the memory is the driver's argument.
#[derive(Clone, Copy)]
struct Addresses {
    list: [*mut u8; MOST],
    count: usize,
}

// SAFETY: addresses are plain numbers; `drive` gives each thread elements of its own to write.
unsafe impl Sync for Addresses {}
// SAFETY: as above.
unsafe impl Send for Addresses {}

impl Addresses {
    fn new(pointers: &[*mut u8]) -> Self {
        let mut list = [std::ptr::null_mut(); MOST];
        for (to, from) in list.iter_mut().zip(pointers) {
            *to = *from;
        }
        Self { list, count: pointers.len().min(MOST) }
    }

    fn get(&self) -> &[*mut u8] {
        &self.list[..self.count]
    }

    /// The addresses, with groups of copies on the stages in the place of inputs that are `still`.
    #[inline(always)]
    fn spread(mut self, iter: &TensorIter, still: Still, stages: &mut [Stage; MOST]) -> Self {
        for (i, stage) in stages[..self.count].iter_mut().enumerate() {
            if still >> i & 1 == 1 {
                let to = stage.0.as_mut_ptr().cast();
                // SAFETY: the address is that of an element of the operand; the stage has room for a group of any type.
                unsafe { spread(self.list[i], to, iter.operand(i).dtype.itemsize()) };
                self.list[i] = to;
            }
        }
        self
    }

    /// The addresses `n` elements on, where these lie side by side, but for operands that are `still`.
    fn moved(mut self, iter: &TensorIter, n: usize, still: Still) -> Self {
        for (i, (address, operand)) in self.list.iter_mut().zip(iter.operands()).enumerate() {
            if still >> i & 1 == 0 {
                *address = address.wrapping_add(n * operand.dtype.itemsize());
            }
        }
        self
    }
}

/// Room to lay the elements of one operand side by side.
#[repr(align(64))]
struct Stage([MaybeUninit<u8>; STAGE]);

/// One thread's walk over a part of a plan that is not contiguous.
struct Walk<'a> {
    block: Block<'a>,
    outputs: usize,
    count: usize,
    sizes: [usize; MOST],
    inner: [isize; MOST],
    outer: [isize; MOST],
    /// Elements of a staged patch.
    room: usize,
    /// Rows are written past the caches.
    streams: bool,
    stages: [Stage; MOST],
    /// What each stage holds of an input that is broadcast along a dimension.
    held: [Option<Patch>; MOST],
}

impl<'a> Walk<'a> {
    fn new(iter: &TensorIter, streams: bool, block: Block<'a>) -> Self {
        let (mut sizes, mut inner, mut outer) = ([1; MOST], [0; MOST], [0; MOST]);
        for (i, operand) in iter.operands().iter().enumerate() {
            (sizes[i], inner[i], outer[i]) = (operand.dtype.itemsize(), iter.strides0(i), iter.strides1(i));
        }
        let largest = sizes.into_iter().fold(1, usize::max);
        let stages = [const { Stage([MaybeUninit::uninit(); STAGE]) }; MOST];
        let (outputs, count, room) = (iter.num_outputs(), iter.operands().len(), STAGE / largest);
        Self { block, outputs, count, sizes, inner, outer, room, streams, stages, held: [None; MOST] }
    }

    fn run(&mut self, iter: &TensorIter, base: Addresses, begin: usize, end: usize) {
        let (inner, outer) = (&self.inner[..self.count], &self.outer[..self.count]);
        // Inputs that are one number along a row.
        let still: Still = (self.outputs..self.count).filter(|&i| inner[i] == 0).fold(0, |still, i| still | 1 << i);
        let dense = (0..self.count).all(|i| still >> i & 1 == 1 || inner[i] == self.sizes[i] as isize);
        // An operand that lies along the second dimension: a cache line of it serves several rows, so take patches that use
        // it up, of few enough lines to stay in the cache.
        let across = inner.iter().zip(outer).any(|(i, o)| i.abs() >= LINE && *o != 0 && o.abs() < LINE);
        iter.for_each_chunk(begin, end, |offsets, size0, size1| {
            let mut at = base;
            for (address, offset) in at.list.iter_mut().zip(offsets) {
                *address = address.wrapping_offset(*offset);
            }
            let (cols, rows) = if size1 > 1 && across {
                let cols = size0.min(COLUMNS);
                (cols, (self.room / cols).min(size1))
            } else if size1 > 1 && size0 < SHORT {
                (size0, (self.room / size0).min(size1))
            } else if dense {
                return self.rows(iter, at, size0, size1, still);
            } else {
                (size0.min(self.room), 1)
            };
            for row in (0..size1).step_by(rows) {
                for col in (0..size0).step_by(cols) {
                    let mut at = at;
                    for (i, address) in at.list[..self.count].iter_mut().enumerate() {
                        *address = address.wrapping_offset(row as isize * self.outer[i] + col as isize * self.inner[i]);
                    }
                    self.patch(at, cols.min(size0 - col), rows.min(size1 - row));
                }
            }
        });
        if self.streams {
            stream::fence();
        }
    }

    /// Runs the block on rows whose elements lie side by side, but for inputs that are `still`, a bit an operand.
    fn rows(&mut self, iter: &TensorIter, mut next: Addresses, cols: usize, rows: usize, still: Still) {
        with_level!(I => I::run(
            #[inline(always)]
            || {
                let mut at = next;
                for _ in 0..rows {
                    for i in 0..self.count {
                        if still >> i & 1 == 1 {
                            at.list[i] = self.stages[i].0.as_mut_ptr().cast();
                            // SAFETY: an element of the operand; the stage has room for a group of any type.
                            unsafe { spread(next.list[i], at.list[i], self.sizes[i]) };
                        } else {
                            at.list[i] = next.list[i];
                        }
                        next.list[i] = next.list[i].wrapping_offset(self.outer[i]);
                    }
                    if self.streams {
                        stream_block(iter, at, self.outputs, cols, still, self.block);
                    } else {
                        (self.block)(at.get(), cols, still >> self.outputs);
                    }
                }
            }
        ));
    }

    /// Runs the block on one patch, whose first elements are given: on the operands themselves where their elements lie side
    /// by side, else on stages.
    fn patch(&mut self, at: Addresses, cols: usize, rows: usize) {
        let mut addresses = at;
        let mut still = 0;
        for i in 0..self.count {
            let patch = Patch { at: at.list[i], inner: self.inner[i], outer: self.outer[i], cols, rows };
            if patch.is_dense(self.sizes[i]) {
                continue;
            }
            let stage = self.stages[i].0.as_mut_ptr().cast::<u8>();
            addresses.list[i] = stage;
            if i >= self.outputs && patch.inner == 0 && (patch.outer == 0 || rows == 1) {
                still |= 1 << (i - self.outputs);
                // SAFETY: as below; a stage has room for a group of any type.
                unsafe { spread(patch.at, stage, self.sizes[i]) };
                self.held[i] = None;
                continue;
            }
            // A broadcast input fills its stage once for all patches that see the same elements.
            if i >= self.outputs && self.held[i] != Some(patch) {
                // SAFETY: the patch is the operand's; the stage has room for `n <= room` elements of the largest dtype.
                unsafe { gather(&patch, stage, self.sizes[i]) };
                self.held[i] = (patch.inner == 0 || patch.outer == 0).then_some(patch);
            }
        }
        (self.block)(addresses.get(), cols * rows, still);
        for i in 0..self.outputs {
            if addresses.list[i] != at.list[i] {
                let patch = Patch { at: at.list[i], inner: self.inner[i], outer: self.outer[i], cols, rows };
                // SAFETY: as above; the block wrote `n` elements of the stage.
                unsafe { scatter(addresses.list[i], &patch, self.sizes[i]) };
            }
        }
    }
}
