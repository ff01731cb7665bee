//! [`Ahead`]: lines of memory that are fetched while a tile is computed, for what is packed next.

use std::marker::PhantomData;

use crate::loops::MatRef;

/// Bytes of a cache line.
const LINE: isize = 64;

/// A list of cache lines: line `t` lies at `at + (t & mask) * near + (t >> shift) * far`.
#[derive(Clone, Copy)]
pub(super) struct Ahead<'a> {
    at: *const u8,
    near: isize,
    far: isize,
    shift: u32,
    _memory: PhantomData<&'a u8>,
}

impl<'a> Ahead<'a> {
    /// One line over and over: nothing that costs time.
    #[inline]
    pub fn nothing() -> Self {
        Self { at: [].as_ptr(), near: 0, far: 0, shift: 0, _memory: PhantomData }
    }

    /// The first lanes of an operand, at least `lanes` of them, whose rows they are: stretch after stretch of a lane if its
    /// elements follow each other, else step after step.
    #[inline]
    pub fn rows<T>(m: MatRef<'a, T>, lanes: usize) -> Self {
        let size = size_of::<T>() as isize;
        let at = m.as_ptr().cast();
        if m.col_stride() == 1 {
            let shift = lanes.next_power_of_two().trailing_zeros();
            return Self { at, near: m.row_stride() * size, far: LINE, shift, _memory: PhantomData };
        }
        let lines = (lanes * size_of::<T>()).div_ceil(LINE as usize);
        let shift = lines.next_power_of_two().trailing_zeros();
        Self { at, near: LINE, far: m.col_stride() * size, shift, _memory: PhantomData }
    }

    /// The lines of a tile's rows from an element of the result on.
    #[inline]
    pub fn result<T>(at: *mut T, row_stride: isize) -> Self {
        let at = at.cast_const().cast();
        Self { at, near: row_stride * size_of::<T>() as isize, far: LINE, shift: 4, _memory: PhantomData }
    }

    /// The list from line `n` on, a multiple of what lies near each other.
    #[inline]
    pub fn skip(self, n: usize) -> Self {
        Self { at: self.at.wrapping_offset((n >> self.shift) as isize * self.far), ..self }
    }

    /// Asks for line `t`.
    #[inline(always)]
    pub fn fetch(&self, t: usize) {
        let near = (t & ((1 << self.shift) - 1)) as isize * self.near;
        line(self.at.wrapping_offset(near + (t >> self.shift) as isize * self.far));
    }
}

/// Asks for the lines of some elements, which are read soon.
#[inline(always)]
pub(crate) fn fetch<T>(elements: &[T]) {
    let (at, bytes) = (elements.as_ptr().cast::<u8>(), size_of_val(elements));
    let mut offset = 0;
    while offset < bytes {
        line(at.wrapping_add(offset));
        offset += LINE as usize;
    }
}

/// Asks for a line.
#[inline(always)]
fn line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint: no address is wrong, and nothing is read.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
