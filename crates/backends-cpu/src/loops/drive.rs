//! The driver of elementwise kernels: locks, splits over the pool, walks the plan, and stages what is not contiguous.
//!
//! Nothing here depends on an operator or a dtype: a kernel comes as a function over contiguous blocks, so that its
//! arithmetic is compiled once a dtype and level. Operands with strides, broadcast ones among them, are gathered into (or
//! scattered from) a stage of [`STAGE`] bytes in the nearest cache.

use std::mem::MaybeUninit;

use tensor_core::iter::TensorIter;
use tensor_core::{DType, Result, check};

use super::block::{Elementwise, Inputs, Outputs, block};
use crate::isa::Isa;
use crate::parallel::{GRAIN, parallel_for};

/// Operands that a kernel has at most.
const MOST: usize = 8;

/// Bytes of an operand's stage.
const STAGE: usize = 4096;

/// Bytes of a cache line.
const LINE: isize = 64;

/// Columns of a band: their cache lines stay in the nearest cache.
const BAND: usize = 128;

/// A kernel over contiguous elements: the operands' addresses, and how many elements.
type Block<'a> = &'a (dyn Fn(&[*mut u8], usize) + Sync);

/// Runs an elementwise operator over a plan: `Out` is an element type (or a tuple of several outputs), `In` a tuple of them.
///
/// # Errors
/// When the plan's operands are not of these dtypes, when a storage is borrowed, or on another device than the CPU.
pub fn map<I: Isa, In: Inputs, Out: Outputs, F: Elementwise<In, Out>>(iter: &TensorIter, op: F) -> Result<()> {
    drive(iter, Out::DTYPES, In::DTYPES, &|addresses, n| {
        // SAFETY: `drive` checked the number and dtypes of the operands; it gives addresses that are valid for `n` elements,
        // holding the storages' locks, of operands that the planner found equal or apart.
        I::run(|| unsafe { block::<I, In, Out, F>(op, addresses, n) })
    })
}

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
    for (operand, &dtype) in operands.iter().zip(outputs.iter().chain(inputs)) {
        check!(operand.dtype == dtype, "Found dtype {} but expected {}", operand.dtype.cpp_name(), dtype.cpp_name());
    }
    let numel = iter.numel() as usize;
    if numel == 0 {
        return Ok(());
    }
    let locked = iter.lock()?;
    let base = Addresses::new(locked.pointers());
    if iter.is_contiguous() {
        if numel <= GRAIN {
            block(base.get(), numel);
        } else {
            parallel_for(numel, GRAIN, |begin, end| {
                let mut addresses = base;
                for (address, operand) in addresses.list.iter_mut().zip(operands) {
                    *address = address.wrapping_add(begin * operand.dtype.itemsize());
                }
                block(addresses.get(), end - begin);
            });
        }
        return Ok(());
    }
    // Threads must not write one element twice at once: an expanded output is filled serially.
    let expanded = |strides: &[isize]| iter.shape().iter().zip(strides).any(|(&size, &stride)| size > 1 && stride == 0);
    let grain = if (0..outputs.len()).any(|i| expanded(iter.strides(i))) { numel } else { GRAIN };
    parallel_for(numel, grain, |begin, end| Walk::new(iter, base, block).run(begin, end));
    Ok(())
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
        let count = pointers.len().min(MOST);
        list[..count].copy_from_slice(&pointers[..count]);
        Self { list, count }
    }

    fn get(&self) -> &[*mut u8] {
        &self.list[..self.count]
    }
}

/// Room to lay the elements of one operand side by side.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Stage([MaybeUninit<u8>; STAGE]);

/// One thread's walk over a part of a plan that is not contiguous.
struct Walk<'a> {
    iter: &'a TensorIter,
    base: Addresses,
    block: Block<'a>,
    sizes: [usize; MOST],
    /// Elements of a staged block.
    room: usize,
    stages: [Stage; MOST],
    /// The broadcast value that each stage holds, by address, and how many times.
    filled: [(*mut u8, usize); MOST],
}

impl<'a> Walk<'a> {
    fn new(iter: &'a TensorIter, base: Addresses, block: Block<'a>) -> Self {
        let mut sizes = [1; MOST];
        for (size, operand) in sizes.iter_mut().zip(iter.operands()) {
            *size = operand.dtype.itemsize();
        }
        let largest = sizes.into_iter().fold(1, usize::max);
        Self {
            iter,
            base,
            block,
            sizes,
            room: STAGE / largest,
            stages: [Stage([MaybeUninit::uninit(); STAGE]); MOST],
            filled: [(std::ptr::null_mut(), 0); MOST],
        }
    }

    fn run(&mut self, begin: usize, end: usize) {
        let iter = self.iter;
        let mut inner = [0isize; MOST];
        let mut outer = [0isize; MOST];
        for i in 0..self.base.count {
            inner[i] = iter.strides0(i);
            outer[i] = iter.strides1(i);
        }
        let dense = (0..self.base.count).all(|i| inner[i] == self.sizes[i] as isize);
        // An operand that lies along the second dimension shares its cache lines between rows: walk bands of columns.
        let across = |i: usize| inner[i].abs() >= LINE && outer[i] != 0 && outer[i].abs() < LINE;
        let band = if (0..self.base.count).any(across) { BAND } else { usize::MAX };
        iter.for_each_chunk(begin, end, |offsets, size0, size1| {
            let band = if size1 > 1 { band } else { usize::MAX };
            let mut column = 0;
            while column < size0 {
                let width = (size0 - column).min(band);
                for row in 0..size1 as isize {
                    let mut at = self.base;
                    for i in 0..at.count {
                        let offset = offsets[i] + row * outer[i] + column as isize * inner[i];
                        at.list[i] = at.list[i].wrapping_offset(offset);
                    }
                    if dense { (self.block)(at.get(), width) } else { self.row(at, &inner, width) }
                }
                column += width;
            }
        });
    }

    /// One row of `n` elements, `strides` bytes apart.
    fn row(&mut self, mut at: Addresses, strides: &[isize; MOST], n: usize) {
        let outputs = self.iter.num_outputs();
        let mut done = 0;
        while done < n {
            let count = (n - done).min(self.room);
            let mut addresses = at;
            for i in 0..at.count {
                let (stride, size) = (strides[i], self.sizes[i]);
                if stride == size as isize {
                    continue;
                }
                let stage = self.stages[i].0.as_mut_ptr().cast::<u8>();
                addresses.list[i] = stage;
                if i < outputs {
                    continue;
                }
                // A broadcast value fills its stage once, for all blocks and rows that it is for.
                let mut wanted = count;
                if stride == 0 {
                    let (value, times) = self.filled[i];
                    if value == at.list[i] && times >= count {
                        continue;
                    }
                    wanted = self.room.min(n);
                    self.filled[i] = (at.list[i], wanted);
                }
                // SAFETY: `count` elements from `at` on, `stride` apart, are the operand's (one, where the stride is 0);
                // the stage has room for `room` of the largest dtype.
                unsafe { gather(at.list[i], stride, stage, wanted, size) };
            }
            (self.block)(addresses.get(), count);
            for i in 0..at.count {
                let (stride, size) = (strides[i], self.sizes[i]);
                if i < outputs && stride != size as isize {
                    // SAFETY: as above; the block wrote `count` elements of the stage.
                    unsafe { scatter(addresses.list[i], at.list[i], stride, count, size) };
                }
                at.list[i] = at.list[i].wrapping_offset(stride * count as isize);
            }
            done += count;
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

/// Lays `n` elements of `size` bytes, `stride` bytes apart, side by side.
///
/// # Safety
/// They are valid for reads, `to` for writes of `n` elements; `size` is that of a dtype.
unsafe fn gather(from: *const u8, stride: isize, to: *mut u8, n: usize, size: usize) {
    by_size!(size, T => {
        let to = to.cast::<T>();
        // SAFETY: forwarded from the caller.
        unsafe {
            if stride == 0 {
                let value = from.cast::<T>().read_unaligned();
                for i in 0..n {
                    to.add(i).write_unaligned(value);
                }
            } else {
                for i in 0..n {
                    to.add(i).write_unaligned(from.offset(i as isize * stride).cast::<T>().read_unaligned());
                }
            }
        }
    })
}

/// The reverse of [`gather`].
///
/// # Safety
/// As there, with the roles of `from` and `to` exchanged.
unsafe fn scatter(from: *const u8, to: *mut u8, stride: isize, n: usize, size: usize) {
    by_size!(size, T => {
        let from = from.cast::<T>();
        // SAFETY: forwarded from the caller.
        unsafe {
            for i in 0..n {
                to.offset(i as isize * stride).cast::<T>().write_unaligned(from.add(i).read_unaligned());
            }
        }
    })
}
