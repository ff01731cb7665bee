//! The driver of elementwise kernels: locks, splits over the pool, walks the plan, and stages what is not contiguous.
//!
//! Nothing here depends on an operator or a dtype: a kernel comes as a function over contiguous blocks, so that its
//! arithmetic is compiled once a dtype and level. Operands with strides, broadcast ones among them, are gathered into (or
//! scattered from) a stage of [`STAGE`] bytes in the nearest cache.

use std::mem::MaybeUninit;

use tensor_core::iter::TensorIter;
use tensor_core::{DType, Result, check};

use super::block::{Elementwise, Inputs, Outputs, block};
use super::stream::{self, STREAM};
use crate::isa::Isa;
use crate::parallel::{GRAIN, parallel_for};
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

/// A kernel over contiguous elements: the operands' addresses, and how many elements.
pub(super) type Block<'a> = &'a (dyn Fn(&[*mut u8], usize) + Sync);

/// Runs an elementwise operator over a plan: `Out` is an element type (or a tuple of several outputs), `In` a tuple of them.
///
/// # Errors
/// When the plan's operands are not of these dtypes, when a storage is borrowed, or on another device than the CPU.
#[inline]
pub fn map<I: Isa, In: Inputs, Out: Outputs, F: Elementwise<In, Out>>(iter: &TensorIter, op: F) -> Result<()> {
    drive(iter, Out::DTYPES, In::DTYPES, &|addresses, n| {
        I::run(
            #[inline(always)]
            // SAFETY: `drive` checked the number and dtypes of the operands; it gives addresses that are valid for `n`
            // elements, holding the storages' locks, of operands that the planner found equal or apart.
            || unsafe { block::<I, In, Out, F>(op, addresses, n) },
        )
    })
}

/// Runs a block over a plan whose operands have these dtypes.
///
/// # Errors
/// As [`map`].
pub(super) fn drive(iter: &TensorIter, outputs: &[DType], inputs: &[DType], block: Block<'_>) -> Result<()> {
    let operands = iter.operands();
    check!(iter.device().is_cpu(), "a CPU kernel was called on device {}", iter.device());
    check!(
        iter.num_outputs() == outputs.len() && operands.len() == outputs.len() + inputs.len() && operands.len() <= MOST,
        "kernel takes {} outputs and {} inputs, but the operation has {} operands",
        outputs.len(),
        inputs.len(),
        operands.len()
    );
    for (operand, &dtype) in operands.iter().zip(outputs.iter().chain(inputs)) {
        check!(operand.dtype == dtype, "Found dtype {} but expected {}", operand.dtype.cpp_name(), dtype.cpp_name());
    }
    let numel = iter.numel() as usize;
    if numel == 0 {
        return Ok(());
    }
    iter.locked(|pointers| {
        if iter.is_contiguous() && numel <= GRAIN {
            block(pointers, numel);
        } else {
            run(iter, Addresses::new(pointers), outputs.len(), block);
        }
    })
}

/// Runs the block over a plan of at least one element, whose storages are locked.
#[inline(never)]
fn run(iter: &TensorIter, base: Addresses, outputs: usize, block: Block<'_>) {
    let numel = iter.numel() as usize;
    if iter.is_contiguous() {
        let streams = streams(iter, &base, outputs);
        return parallel_for(numel, GRAIN, |begin, end| {
            let addresses = base.moved(iter, begin);
            if streams {
                stream_block(iter, addresses, outputs, end - begin, block)
            } else {
                block(addresses.get(), end - begin)
            }
        });
    }
    // Threads must not write one element twice at once: an expanded output is filled serially.
    let expanded = |strides: &[isize]| iter.shape().iter().zip(strides).any(|(&size, &stride)| size > 1 && stride == 0);
    let grain = if (0..outputs).any(|i| expanded(iter.strides(i))) { numel } else { GRAIN };
    parallel_for(numel, grain, |begin, end| Walk::new(iter, block).run(iter, base, begin, end));
}

/// Whether outputs go past the caches: large ones whose lines no input has fetched already.
fn streams(iter: &TensorIter, base: &Addresses, outputs: usize) -> bool {
    let (written, read) = base.get().split_at(outputs);
    let bytes = |i: usize| iter.numel() as usize * iter.operand(i).dtype.itemsize();
    outputs <= STREAMED
        && (0..outputs).all(|i| bytes(i) >= STREAM)
        && !written.iter().any(|address| read.contains(address))
}

/// Runs the block over `n` contiguous elements, a stage at a time, and streams what it wrote to the outputs.
fn stream_block(iter: &TensorIter, mut addresses: Addresses, outputs: usize, n: usize, block: Block<'_>) {
    let sizes = iter.operands().iter().map(|operand| operand.dtype.itemsize());
    let room = STAGE / sizes.fold(1, usize::max);
    let mut stages = [const { Stage([MaybeUninit::uninit(); STAGE]) }; STREAMED];
    for begin in (0..n).step_by(room) {
        let len = room.min(n - begin);
        let mut staged = addresses;
        for (stage, address) in stages[..outputs].iter_mut().zip(&mut staged.list) {
            *address = stage.0.as_mut_ptr().cast();
        }
        block(staged.get(), len);
        for (i, stage) in stages[..outputs].iter().enumerate() {
            let bytes = len * iter.operand(i).dtype.itemsize();
            // SAFETY: the block wrote as many bytes of the stage; the output has as many from this address on.
            unsafe { stream::copy(stage.0.as_ptr().cast(), addresses.list[i], bytes) };
        }
        addresses = addresses.moved(iter, len);
    }
    stream::fence();
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

    /// The addresses of the element `n` elements on, where they lie side by side.
    fn moved(mut self, iter: &TensorIter, n: usize) -> Self {
        for (address, operand) in self.list.iter_mut().zip(iter.operands()) {
            *address = address.wrapping_add(n * operand.dtype.itemsize());
        }
        self
    }
}

/// Room to lay the elements of one operand side by side.
#[repr(align(64))]
struct Stage([MaybeUninit<u8>; STAGE]);

/// The elements of one operand in a patch of the walk: `rows` by `cols` of them.
#[derive(Clone, Copy, PartialEq)]
struct Patch {
    at: *mut u8,
    /// Bytes from one column to the next.
    inner: isize,
    /// Bytes from one row to the next.
    outer: isize,
    cols: usize,
    rows: usize,
}

impl Patch {
    /// True if its elements lie side by side, rows first.
    fn is_dense(&self, size: usize) -> bool {
        (self.cols == 1 || self.inner == size as isize) && (self.rows == 1 || self.outer == (self.cols * size) as isize)
    }
}

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
    stages: [Stage; MOST],
    /// What each stage holds of an input that is broadcast along a dimension.
    held: [Option<Patch>; MOST],
}

impl<'a> Walk<'a> {
    fn new(iter: &TensorIter, block: Block<'a>) -> Self {
        let (mut sizes, mut inner, mut outer) = ([1; MOST], [0; MOST], [0; MOST]);
        for (i, operand) in iter.operands().iter().enumerate() {
            (sizes[i], inner[i], outer[i]) = (operand.dtype.itemsize(), iter.strides0(i), iter.strides1(i));
        }
        let largest = sizes.into_iter().fold(1, usize::max);
        let stages = [const { Stage([MaybeUninit::uninit(); STAGE]) }; MOST];
        let (outputs, count, room) = (iter.num_outputs(), iter.operands().len(), STAGE / largest);
        Self { block, outputs, count, sizes, inner, outer, room, stages, held: [None; MOST] }
    }

    fn run(&mut self, iter: &TensorIter, base: Addresses, begin: usize, end: usize) {
        let (inner, outer) = (&self.inner[..self.count], &self.outer[..self.count]);
        let dense = inner.iter().zip(&self.sizes).all(|(&inner, &size)| inner == size as isize);
        // An operand that lies along the second dimension: a cache line of it serves several rows, so take patches that use
        // it up, of few enough lines to stay in the cache.
        let across = inner.iter().zip(outer).any(|(i, o)| i.abs() >= LINE && *o != 0 && o.abs() < LINE);
        iter.for_each_chunk(begin, end, |offsets, size0, size1| {
            let (cols, rows) = if size1 > 1 && across {
                let cols = size0.min(COLUMNS);
                (cols, (self.room / cols).min(size1))
            } else if size1 > 1 && size0 < SHORT {
                (size0, (self.room / size0).min(size1))
            } else if dense {
                (size0, 1)
            } else {
                (size0.min(self.room), 1)
            };
            for row in (0..size1).step_by(rows) {
                for col in (0..size0).step_by(cols) {
                    let mut at = base;
                    for (i, address) in at.list[..self.count].iter_mut().enumerate() {
                        let offset = row as isize * self.outer[i] + col as isize * self.inner[i];
                        *address = address.wrapping_offset(offsets[i] + offset);
                    }
                    let (cols, rows) = (cols.min(size0 - col), rows.min(size1 - row));
                    if dense && rows == 1 { (self.block)(at.get(), cols) } else { self.patch(at, cols, rows) }
                }
            }
        });
    }

    /// Runs the block on one patch, whose first elements are given: on the operands themselves where their elements lie side
    /// by side, else on stages.
    fn patch(&mut self, at: Addresses, cols: usize, rows: usize) {
        let mut addresses = at;
        for i in 0..self.count {
            let patch = Patch { at: at.list[i], inner: self.inner[i], outer: self.outer[i], cols, rows };
            if patch.is_dense(self.sizes[i]) {
                continue;
            }
            let stage = self.stages[i].0.as_mut_ptr().cast::<u8>();
            addresses.list[i] = stage;
            // A broadcast input fills its stage once for all patches that see the same elements.
            if i >= self.outputs && self.held[i] != Some(patch) {
                // SAFETY: the patch is the operand's; the stage has room for `n <= room` elements of the largest dtype.
                unsafe { gather(&patch, stage, self.sizes[i]) };
                self.held[i] = (patch.inner == 0 || patch.outer == 0).then_some(patch);
            }
        }
        (self.block)(addresses.get(), cols * rows);
        for i in 0..self.outputs {
            if addresses.list[i] != at.list[i] {
                let patch = Patch { at: at.list[i], inner: self.inner[i], outer: self.outer[i], cols, rows };
                // SAFETY: as above; the block wrote `n` elements of the stage.
                unsafe { scatter(addresses.list[i], &patch, self.sizes[i]) };
            }
        }
    }
}

/// Runs `$body` with `$t` bound to an unsigned type of `$size` bytes.
macro_rules! by_size {
    ($size:expr, $t:ident => $body:expr) => {
        match $size {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            8 => {
                type $t = u64;
                $body
            }
            _ => {
                type $t = [u64; 2];
                $body
            }
        }
    };
}

/// Lays the elements of a patch, of `size` bytes each, side by side, rows first.
///
/// # Safety
/// They are valid for reads, `to` for writes of as many; `size` is that of a dtype.
unsafe fn gather(patch: &Patch, to: *mut u8, size: usize) {
    with_level!(I => I::run(
        #[inline(always)]
        // SAFETY: forwarded from the caller.
        || by_size!(size, T => unsafe { gather_of::<T>(patch, to.cast()) })
    ))
}

/// # Safety
/// As [`gather`].
#[inline(always)]
unsafe fn gather_of<T: Copy>(patch: &Patch, to: *mut T) {
    let &Patch { at, inner, outer, cols, rows } = patch;
    let size = size_of::<T>() as isize;
    // SAFETY: forwarded from the caller: (row, col) lies within the patch.
    let read = |row: usize, col: usize| unsafe {
        at.offset(row as isize * outer + col as isize * inner).cast::<T>().read_unaligned()
    };
    // SAFETY: forwarded from the caller: `i` is below the number of elements.
    let write = |i: usize, value: T| unsafe { to.add(i).write_unaligned(value) };
    if rows > 1 && outer == size {
        for col in 0..cols {
            for row in 0..rows {
                write(row * cols + col, read(row, col));
            }
        }
        return;
    }
    for row in 0..rows {
        // SAFETY: the first element of a row of the patch.
        let from = unsafe { at.offset(row as isize * outer).cast::<T>() };
        if inner == 0 {
            // SAFETY: as above; storages may be unaligned for the type.
            let value = unsafe { from.read_unaligned() };
            for col in 0..cols {
                write(row * cols + col, value);
            }
        } else if inner == size {
            // SAFETY: a row of `cols` elements side by side, and as many of `to`, which is a stage: apart from the operand.
            unsafe {
                std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.add(row * cols).cast(), cols * size_of::<T>())
            }
        } else if inner == 2 * size {
            for col in 0..cols {
                // SAFETY: as `read`, with a stride that is known.
                write(row * cols + col, unsafe { from.add(2 * col).read_unaligned() });
            }
        } else {
            for col in 0..cols {
                write(row * cols + col, read(row, col));
            }
        }
    }
}

/// The reverse of [`gather`].
///
/// # Safety
/// As there, with the roles of the patch and `from` exchanged.
unsafe fn scatter(from: *const u8, patch: &Patch, size: usize) {
    with_level!(I => I::run(
        #[inline(always)]
        // SAFETY: forwarded from the caller.
        || by_size!(size, T => unsafe { scatter_of::<T>(from.cast(), patch) })
    ))
}

/// # Safety
/// As [`scatter`].
#[inline(always)]
unsafe fn scatter_of<T: Copy>(from: *const T, patch: &Patch) {
    let &Patch { at, inner, outer, cols, rows } = patch;
    let size = size_of::<T>() as isize;
    // SAFETY: forwarded from the caller: (row, col) lies within the patch.
    let write = |row: usize, col: usize| unsafe {
        let value = from.add(row * cols + col).read_unaligned();
        at.offset(row as isize * outer + col as isize * inner).cast::<T>().write_unaligned(value);
    };
    if rows > 1 && outer == size {
        for col in 0..cols {
            for row in 0..rows {
                write(row, col);
            }
        }
        return;
    }
    for row in 0..rows {
        if inner == size {
            // SAFETY: a row of `cols` elements side by side, and as many of the stage, which lies apart. Whole cache lines at a
            // time: many short writes would each wait for their line.
            unsafe {
                let to = at.offset(row as isize * outer);
                std::ptr::copy_nonoverlapping(from.add(row * cols).cast::<u8>(), to, cols * size_of::<T>());
            }
        } else {
            for col in 0..cols {
                write(row, col);
            }
        }
    }
}
