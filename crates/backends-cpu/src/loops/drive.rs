//! The driver of elementwise kernels: locks, splits over the pool, walks the plan, and stages what is not contiguous.
//!
//! Nothing here depends on an operator or a dtype: a kernel comes as a function over contiguous blocks, so that its
//! arithmetic is compiled once a dtype and level. An input that is one number along a row stays a group of its copies. Other
//! operands with strides are gathered into (or scattered from) a stage of [`STAGE`] bytes in the nearest cache.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use tensor_core::iter::TensorIter;
use tensor_core::{Complex, DType, Element, Result, check};

use super::block::{Elementwise, Inputs, LANES, MOST, Outputs, Rows, Still, block, suits};
use super::patch::{Patch, SLACK, fetch, gather, scatter, spread, spread_rows};
use super::scratch;
use super::stream::{self, STREAM, pays};
use crate::isa::Isa;
use crate::parallel::{GRAIN, parallel_for};
use crate::simd::Value;

/// Bytes of an operand's stage.
const STAGE: usize = 4096;

/// Bytes of an operand's stage for tiles.
const TILE: usize = 16384;

/// Outputs that a kernel has at most.
const STREAMED: usize = 3;

/// Bytes of a cache line.
const LINE: isize = 64;

/// Columns of a patch whose elements lie along the rows.
const COLUMNS: usize = 64;

/// Rows below this length are staged several at a time.
const SHORT: usize = 64;

/// A kernel over rows of contiguous elements, from the operands' addresses on.
type Block<'a> = &'a (dyn Fn(&[*mut u8], Rows<'_>) + Sync);

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
    drive(iter, N::DTYPES, M::DTYPES, &|addresses, rows| {
        I::run(
            #[inline(always)]
            // SAFETY: `drive` checked the number and dtypes of the operands; it gives addresses that are valid for the rows'
            // elements, holding the storages' locks, of operands that the planner found equal or apart.
            || unsafe { block::<I, M, N, In, Out, F>(op, addresses, rows) },
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
        if numel > GRAIN {
            run(iter, Addresses::new(pointers), outputs.len(), block);
        } else if iter.is_contiguous() {
            block(pointers, Rows::one(numel, 0));
        } else if let Some(still) = line(iter, outputs.len()) {
            short_line(iter, pointers, outputs.len(), still, block);
        } else {
            run(iter, Addresses::new(pointers), outputs.len(), block);
        }
    })
}

/// Room for a group of copies of a number.
#[repr(align(64))]
struct Group([MaybeUninit<u8>; LANES * size_of::<Complex<f64>>()]);

impl Group {
    const NEW: Self = Self([MaybeUninit::uninit(); LANES * size_of::<Complex<f64>>()]);
}

/// [`run_line`] on one thread, of few elements: what a number beside a small tensor should not wait for is left out.
#[inline(never)]
fn short_line(iter: &TensorIter, pointers: &[*mut u8], outputs: usize, still: Still, block: Block<'_>) {
    let mut groups = [const { Group::NEW }; MOST];
    let mut addresses = [std::ptr::null_mut(); MOST];
    let count = pointers.len().min(MOST);
    addresses[..count].copy_from_slice(&pointers[..count]);
    spread_still(iter, still, &mut addresses[..count], &mut groups);
    block(&addresses[..count], Rows::one(iter.numel() as usize, still >> outputs));
}

/// Puts groups of copies in the place of inputs that are `still`.
#[inline(always)]
fn spread_still(iter: &TensorIter, still: Still, addresses: &mut [*mut u8], groups: &mut [Group; MOST]) {
    for i in 0..addresses.len().min(MOST) {
        if still >> i & 1 == 1 {
            let to = groups[i].0.as_mut_ptr().cast();
            // SAFETY: the address is that of an element of the operand; there is room for a group of the widest type.
            unsafe { spread(addresses[i], to, iter.operand(i).dtype.itemsize()) };
            addresses[i] = to;
        }
    }
}

/// Runs the block over a plan of at least one element, whose storages are locked.
#[inline(never)]
fn run(iter: &TensorIter, base: Addresses, outputs: usize, block: Block<'_>) {
    if iter.is_contiguous() {
        return run_line(iter, base, outputs, 0, block);
    }
    if let Some(still) = line(iter, outputs) {
        let mut groups = [const { Group::NEW }; MOST];
        let mut base = base;
        spread_still(iter, still, &mut base.list[..base.count], &mut groups);
        return run_line(iter, base, outputs, still, block);
    }
    let tiles = Tiles::of(iter);
    let streams = streams(iter, &base, outputs, tiles.is_some());
    let numel = iter.numel() as usize;
    // Threads must not write one element twice at once: an expanded output is filled serially.
    let expanded = |strides: &[isize]| iter.shape().iter().zip(strides).any(|(&size, &stride)| size > 1 && stride == 0);
    let serial = (0..outputs).any(|i| expanded(iter.strides(i)));
    if let Some(tiles) = tiles {
        let grain = if serial { tiles.count } else { GRAIN.div_ceil(tiles.cols * tiles.rows) };
        return parallel_for(tiles.count, grain, |begin, end| {
            scratch::with(iter.operands().len() * (TILE + SLACK), |room: &mut [u8]| {
                Walk::new(iter, streams, block, Stages::new(room, TILE + SLACK)).tiles(iter, &tiles, base, begin, end);
            });
        });
    }
    parallel_for(numel, if serial { numel } else { GRAIN }, |begin, end| {
        let mut room = [const { Stage([MaybeUninit::uninit(); STAGE + SLACK]) }; MOST];
        Walk::new(iter, streams, block, Stages::new(&mut room, size_of::<Stage>())).run(iter, base, begin, end);
    });
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
    let streams = streams(iter, &base, outputs, false);
    parallel_for(iter.numel() as usize, GRAIN, |begin, end| {
        let addresses = base.moved(iter, begin, still);
        if streams {
            stream_block(iter, addresses, outputs, end - begin, still, block);
            stream::fence();
        } else {
            block(addresses.get(), Rows::one(end - begin, still >> outputs))
        }
    })
}

/// Whether outputs go past the caches: large ones whose lines no input has fetched already. What is read `across` its rows
/// comes from memory in any case.
fn streams(iter: &TensorIter, base: &Addresses, outputs: usize, across: bool) -> bool {
    let (written, read) = base.get().split_at(outputs);
    let bytes = |i: usize| iter.numel() as usize * iter.operand(i).dtype.itemsize();
    let large = |i: usize| if across { bytes(i) >= STREAM } else { pays(bytes(i), traffic(iter) - bytes(i)) };
    outputs <= STREAMED && (0..outputs).all(large) && !written.iter().any(|address| read.contains(address))
}

/// The bytes of all operands that are no number along a row.
fn traffic(iter: &TensorIter) -> usize {
    let mut bytes = 0;
    for (i, operand) in iter.operands().iter().enumerate() {
        if iter.strides0(i) != 0 {
            bytes += iter.numel() as usize * operand.dtype.itemsize();
        }
    }
    bytes
}

/// Runs the block over `n` elements side by side, a stage at a time, and streams what it wrote to the outputs. A fence is to follow.
fn stream_block(iter: &TensorIter, mut addresses: Addresses, outputs: usize, n: usize, still: Still, block: Block<'_>) {
    let sizes = iter.operands().iter().map(|operand| operand.dtype.itemsize());
    let room = STAGE / sizes.fold(1, usize::max);
    let mut stages = [const { Stage([MaybeUninit::uninit(); STAGE + SLACK]) }; STREAMED];
    for begin in (0..n).step_by(room) {
        let len = room.min(n - begin);
        let mut staged = addresses;
        for (stage, address) in stages[..outputs].iter_mut().zip(&mut staged.list) {
            *address = stage.0.as_mut_ptr().cast();
        }
        block(staged.get(), Rows::one(len, still >> outputs));
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

/// The tiles of a plan with an operand that lies along the second dimension: a cache line of it serves several rows, so they are
/// as many rows as use it up, of few enough columns to stay in the cache. Row by row of tiles, plane by plane.
struct Tiles {
    cols: usize,
    rows: usize,
    /// Tiles side by side, and rows of them.
    grid: [usize; 2],
    count: usize,
}

impl Tiles {
    fn of(iter: &TensorIter) -> Option<Self> {
        let &[size0, size1, ..] = iter.shape() else { return None };
        let operands = 0..iter.operands().len();
        let across = |i: usize| {
            let outer = iter.strides1(i).abs();
            iter.strides0(i).abs() >= LINE && outer != 0 && outer < LINE
        };
        if size1 == 1 || !operands.clone().any(across) {
            return None;
        }
        let largest = operands.map(|i| iter.operand(i).dtype.itemsize()).fold(1, usize::max);
        let (size0, size1) = (size0 as usize, size1 as usize);
        let cols = size0.min(COLUMNS);
        let rows = (TILE / largest / cols).min(size1);
        let grid = [size0.div_ceil(cols), size1.div_ceil(rows)];
        let planes = iter.numel() as usize / (size0 * size1);
        Some(Self { cols, rows, grid, count: planes * grid[0] * grid[1] })
    }

    /// The operands' addresses at a tile, and its columns and rows.
    fn at(&self, iter: &TensorIter, mut base: Addresses, tile: usize) -> (Addresses, usize, usize) {
        let (col, rest) = (tile % self.grid[0] * self.cols, tile / self.grid[0]);
        let (row, mut plane) = (rest % self.grid[1] * self.rows, rest / self.grid[1]);
        let count = base.count;
        let mut moved = |d: usize, steps: usize| {
            for (i, address) in base.list[..count].iter_mut().enumerate() {
                *address = address.wrapping_offset(iter.strides(i)[d] * steps as isize);
            }
        };
        moved(0, col);
        moved(1, row);
        for d in 2..iter.ndim() {
            let size = iter.shape()[d] as usize;
            moved(d, plane % size);
            plane /= size;
        }
        let (size0, size1) = (iter.shape()[0] as usize, iter.shape()[1] as usize);
        (base, self.cols.min(size0 - col), self.rows.min(size1 - row))
    }
}

/// Room to lay the elements of one operand side by side.
#[repr(align(64))]
struct Stage([MaybeUninit<u8>; STAGE + SLACK]);

/// The stages of a walk's operands: [`MOST`] on the stack, or larger ones, one an operand, in a buffer.
struct Stages<'a> {
    base: *mut u8,
    pitch: usize,
    _room: PhantomData<&'a mut [u8]>,
}

impl<'a> Stages<'a> {
    /// Stages that lie `pitch` bytes apart in that room.
    fn new<T>(room: &'a mut [T], pitch: usize) -> Self {
        Self { base: room.as_mut_ptr().cast(), pitch, _room: PhantomData }
    }

    /// The address of an operand's stage.
    fn at(&self, i: usize) -> *mut u8 {
        self.base.wrapping_add(i * self.pitch)
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
    /// Rows are written past the caches.
    streams: bool,
    stages: Stages<'a>,
    /// What each stage holds of an input that is broadcast along a dimension.
    held: [Option<Patch>; MOST],
}

impl<'a> Walk<'a> {
    fn new(iter: &TensorIter, streams: bool, block: Block<'a>, stages: Stages<'a>) -> Self {
        let (mut sizes, mut inner, mut outer) = ([1; MOST], [0; MOST], [0; MOST]);
        for (i, operand) in iter.operands().iter().enumerate() {
            (sizes[i], inner[i], outer[i]) = (operand.dtype.itemsize(), iter.strides0(i), iter.strides1(i));
        }
        let largest = sizes.into_iter().fold(1, usize::max);
        let (outputs, count, room) = (iter.num_outputs(), iter.operands().len(), STAGE / largest);
        Self { block, outputs, count, sizes, inner, outer, room, streams, stages, held: [None; MOST] }
    }

    fn run(&mut self, iter: &TensorIter, base: Addresses, begin: usize, end: usize) {
        let inner = &self.inner[..self.count];
        // Inputs that are one number along a row.
        let still: Still = (self.outputs..self.count).filter(|&i| inner[i] == 0).fold(0, |still, i| still | 1 << i);
        let dense = (0..self.count).all(|i| still >> i & 1 == 1 || inner[i] == self.sizes[i] as isize);
        iter.for_each_chunk(begin, end, |offsets, size0, size1| {
            let mut at = base;
            for (address, offset) in at.list.iter_mut().zip(offsets) {
                *address = address.wrapping_offset(*offset);
            }
            let (cols, rows) = if size1 > 1 && size0 <= self.room / 2 && self.follow(size0, |w, i| w.repeats(i)) {
                return self.periods(iter, at, size0, size1);
            } else if size1 > 1
                && (size0 < SHORT || size0 <= self.room / 4 && self.follow(size0, |w, i| w.inner[i] == 0))
            {
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

    /// Runs the block on tiles, each while the next one's memory is on its way.
    fn tiles(&mut self, iter: &TensorIter, tiles: &Tiles, base: Addresses, begin: usize, end: usize) {
        let mut next = tiles.at(iter, base, begin);
        for tile in begin..end {
            let (at, cols, rows) = next;
            if tile + 1 < end {
                next = tiles.at(iter, base, tile + 1);
                for i in 0..self.count {
                    fetch(&self.of(i, next.0, next.1, next.2));
                }
            }
            self.patch(at, cols, rows);
        }
        if self.streams {
            stream::fence();
        }
    }

    /// An operand's part of a patch.
    fn of(&self, i: usize, at: Addresses, cols: usize, rows: usize) -> Patch {
        Patch { at: at.list[i], inner: self.inner[i], outer: self.outer[i], cols, rows }
    }

    /// True for an input that is the same row, whose elements lie side by side, again and again.
    fn repeats(&self, i: usize) -> bool {
        i >= self.outputs && self.inner[i] == self.sizes[i] as isize && self.outer[i] == 0
    }

    /// True if the operands' rows of that length follow each other without a gap, but for the inputs that are `other`.
    fn follow(&self, cols: usize, other: impl Fn(&Self, usize) -> bool) -> bool {
        (0..self.count).all(|i| {
            let size = self.sizes[i] as isize;
            self.inner[i] == size && self.outer[i] == cols as isize * size || i >= self.outputs && other(self, i)
        })
    }

    /// Runs the block on short rows that follow each other without a gap, but for inputs that are the same row again and again:
    /// of those a stage holds some copies, so that the rows of the others are taken by as many at once.
    fn periods(&mut self, iter: &TensorIter, mut at: Addresses, cols: usize, rows: usize) {
        let count = (self.room / cols).min(rows);
        let mut strides = self.outer;
        for stride in &mut strides {
            *stride *= count as isize;
        }
        for i in 0..self.count {
            if self.repeats(i) {
                let patch = Patch { at: at.list[i], inner: self.inner[i], outer: 0, cols, rows: count };
                at.list[i] = self.stages.at(i);
                if self.held[i] != Some(patch) {
                    // SAFETY: the patch is the operand's; the stage has room for `cols * count <= room` elements.
                    unsafe { gather(&patch, at.list[i], self.sizes[i]) };
                    self.held[i] = Some(patch);
                }
            }
        }
        let whole = rows / count;
        self.block(iter, at, Rows { cols: cols * count, rows: whole, strides: &strides, still: 0 });
        if !rows.is_multiple_of(count) {
            for (address, stride) in at.list.iter_mut().zip(strides) {
                *address = address.wrapping_offset(stride * whole as isize);
            }
            self.block(iter, at, Rows::one(cols * (rows % count), 0));
        }
    }

    /// Runs the block on rows whose elements lie side by side, but for inputs that are `still`, a bit an operand: of those, as
    /// many groups of copies as stages hold are made at a time.
    fn rows(&mut self, iter: &TensorIter, mut next: Addresses, cols: usize, rows: usize, still: Still) {
        let most = if still == 0 { rows } else { self.room / LANES };
        let mut strides = self.outer;
        for (i, stride) in strides.iter_mut().enumerate() {
            if still >> i & 1 == 1 {
                *stride = (LANES * self.sizes[i]) as isize;
            }
        }
        let mut left = rows;
        while left > 0 {
            let count = left.min(most);
            let mut at = next;
            for i in 0..self.count {
                if still >> i & 1 == 1 {
                    at.list[i] = self.stages.at(i);
                    // SAFETY: elements of the operand; the stage has room for as many groups.
                    unsafe { spread_rows(next.list[i], self.outer[i], at.list[i], self.sizes[i], count) };
                    self.held[i] = None;
                }
                next.list[i] = next.list[i].wrapping_offset(count as isize * self.outer[i]);
            }
            self.block(iter, at, Rows { cols, rows: count, strides: &strides, still: still >> self.outputs });
            left -= count;
        }
    }

    /// Runs the block on rows side by side; their outputs go past the caches if the walk's do.
    fn block(&self, iter: &TensorIter, mut at: Addresses, rows: Rows<'_>) {
        if !self.streams {
            return (self.block)(at.get(), rows);
        }
        for _ in 0..rows.rows {
            stream_block(iter, at, self.outputs, rows.cols, rows.still << self.outputs, self.block);
            for (address, stride) in at.list.iter_mut().zip(rows.strides) {
                *address = address.wrapping_offset(*stride);
            }
        }
    }

    /// Runs the block on one patch, whose first elements are given: on the operands themselves where their elements lie side
    /// by side, else on stages.
    fn patch(&mut self, at: Addresses, cols: usize, rows: usize) {
        let mut addresses = at;
        let mut still = 0;
        for i in 0..self.count {
            let patch = self.of(i, at, cols, rows);
            if patch.is_dense(self.sizes[i]) {
                continue;
            }
            let stage = self.stages.at(i);
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
        (self.block)(addresses.get(), Rows::one(cols * rows, still));
        for i in 0..self.outputs {
            if addresses.list[i] != at.list[i] {
                let patch = self.of(i, at, cols, rows);
                // SAFETY: as above; the block wrote `n` elements of the stage. The walk ends with a fence if it streams.
                unsafe { scatter(addresses.list[i], &patch, self.sizes[i], self.streams) };
            }
        }
    }
}
