//! Patches of operands that do not lie side by side: laid side by side ([`gather`]) and back ([`scatter`]).

use super::beyond::prefetch_from;
use super::block::LANES;
use super::stream;
use super::transpose::transpose;
use crate::isa::Isa;
use crate::with_level;

/// The elements of one operand in a patch of the walk: `rows` by `cols` of them.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Patch {
    pub at: *mut u8,
    /// Bytes from one column to the next.
    pub inner: isize,
    /// Bytes from one row to the next.
    pub outer: isize,
    pub cols: usize,
    pub rows: usize,
}

impl Patch {
    /// True if its elements lie side by side, rows first.
    pub fn is_dense(&self, size: usize) -> bool {
        (self.cols == 1 || self.inner == size as isize) && (self.rows == 1 || self.outer == (self.cols * size) as isize)
    }
}

/// Asks for the memory of a patch that will be used soon: the lines in which its columns lie, if these are further apart.
pub(super) fn fetch(patch: &Patch) {
    let &Patch { at, inner, cols, .. } = patch;
    if inner.unsigned_abs() >= SLACK {
        for col in 0..cols {
            prefetch_from(at.wrapping_offset(col as isize * inner), 0);
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

/// Bytes that [`gather`] may write behind the elements.
pub(super) const SLACK: usize = 64;

/// Lays the elements of a patch, of `size` bytes each, side by side, rows first.
///
/// # Safety
/// They are valid for reads, `to` for writes of as many and [`SLACK`] bytes more; `size` is that of a dtype.
pub(super) unsafe fn gather(patch: &Patch, to: *mut u8, size: usize) {
    with_level!(I => I::run(
        #[inline(always)]
        // SAFETY: forwarded from the caller.
        || by_size!(size, T => unsafe { gather_of::<T, { SLACK / size_of::<T>() }>(patch, to.cast()) })
    ))
}

/// # Safety
/// As [`gather`].
#[inline(always)]
unsafe fn gather_of<T: Copy, const N: usize>(patch: &Patch, to: *mut T) {
    let &Patch { at, inner, outer, cols, rows } = patch;
    let size = size_of::<T>() as isize;
    // SAFETY: forwarded from the caller: (row, col) lies within the patch.
    let read = |row: usize, col: usize| unsafe {
        at.offset(row as isize * outer + col as isize * inner).cast::<T>().read_unaligned()
    };
    // SAFETY: forwarded from the caller: `i` is below the number of elements.
    let write = |i: usize, value: T| unsafe { to.add(i).write_unaligned(value) };
    if rows > 1 && outer == size && inner != 0 {
        // SAFETY: the columns are lines of the patch, and the rows of `to`, which is a stage: apart from the operand.
        return unsafe { transpose::<T>(at, inner, to.cast(), cols as isize * size, [cols, rows]) };
    }
    for row in 0..rows {
        // SAFETY: the first element of a row of the patch.
        let from = unsafe { at.offset(row as isize * outer).cast::<T>() };
        if inner == 0 {
            // SAFETY: as above; storages may be unaligned for the type.
            let value = unsafe { from.read_unaligned() };
            // Whole lines of copies: those beyond the row's end are the next row's, or the slack.
            for line in 0..(cols * size_of::<T>()).div_ceil(SLACK) {
                // SAFETY: it begins within the row.
                unsafe { to.add(row * cols).cast::<[T; N]>().add(line).write_unaligned([value; N]) };
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

/// Fills a group with copies of an element of `size` bytes.
///
/// # Safety
/// It is valid for reads, `to` for writes of [`LANES`] such elements; `size` is that of a dtype.
#[inline(always)]
pub(super) unsafe fn spread(from: *const u8, to: *mut u8, size: usize) {
    by_size!(size, T => {
        // SAFETY: forwarded from the caller; storages may be unaligned for the type, stages are not. Not as one array, which
        // would be made elsewhere first.
        unsafe {
            let element = from.cast::<T>().read_unaligned();
            for i in 0..LANES {
                to.cast::<T>().add(i).write_unaligned(element);
            }
        }
    })
}

/// [`spread`] of elements `outer` bytes apart, one after the other.
///
/// # Safety
/// As there, for `count` elements and groups.
pub(super) unsafe fn spread_rows(from: *const u8, outer: isize, to: *mut u8, size: usize, count: usize) {
    with_level!(I => I::run(
        #[inline(always)]
        || {
            for row in 0..count {
                // SAFETY: forwarded from the caller.
                unsafe { spread(from.wrapping_offset(row as isize * outer), to.wrapping_add(row * LANES * size), size) };
            }
        }
    ))
}

/// The reverse of [`gather`]; rows side by side go past the caches if `streams`, and a fence is to follow.
///
/// # Safety
/// As there, with the roles of the patch and `from` exchanged.
pub(super) unsafe fn scatter(from: *const u8, patch: &Patch, size: usize, streams: bool) {
    if streams && patch.inner == size as isize {
        let bytes = patch.cols * size;
        for row in 0..patch.rows {
            // SAFETY: a row of the stage, and one of the patch, which lies apart.
            unsafe { stream::copy(from.add(row * bytes), patch.at.offset(row as isize * patch.outer), bytes) };
        }
        return;
    }
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
        // SAFETY: the rows are lines of the stage, the columns those of the patch, which lies apart.
        return unsafe { transpose::<T>(from.cast(), cols as isize * size, at, inner, [rows, cols]) };
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
