//! Writes past the caches, for outputs that are too large to be read again from them.

/// Bytes of an output that does not stay in the caches of a core, and in few shared ones.
pub const STREAM: usize = 16 << 20;

/// Bytes, read and written, from which on elements in a row no longer find in a shared cache what the last call left there.
const TRAFFIC: usize = 44 << 20;

/// Whether an output of so many bytes is better written past the caches, when as many bytes as are given are read in a row for
/// it. Filled lines are not fetched before they are written, so what reads nothing may be much larger.
#[inline]
pub fn pays(written: usize, read: usize) -> bool {
    if read == 0 { written >= 8 * STREAM } else { written >= STREAM && written + read >= TRAFFIC }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Copies bytes past the caches; [`fence`] orders them before what follows.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `bytes` bytes; they do not overlap.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // The lines that are written whole: partial ones would be fetched, or written in pieces.
    let head = to.align_offset(LINE).min(bytes);
    let lines = (bytes - head) / LINE * LINE;
    // SAFETY: forwarded from the caller: the head, the lines and what is left are the bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        stream_lines(from.add(head), to.add(head), lines);
        let done = head + lines;
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), bytes - done);
    }
}

/// # Safety
/// As [`copy`], with whole lines at `to`.
#[inline(always)]
unsafe fn stream_lines(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if crate::isa::level() >= crate::isa::Level::V4 {
        // SAFETY: forwarded from the caller; the machine has the level.
        return unsafe { stream_whole_lines(from, to, bytes) };
    }
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(16) {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
        // SAFETY: within the lines, whose 16-byte parts are aligned at `to`.
        unsafe { _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast())) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: forwarded from the caller.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, bytes);
    }
}

/// [`stream_lines`] by registers of a line.
///
/// # Safety
/// As [`stream_lines`], on a machine with AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx512f")]
unsafe fn stream_whole_lines(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
    for at in (0..bytes).step_by(LINE) {
        // SAFETY: within the lines, which are aligned at `to`.
        unsafe { _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast())) };
    }
}

/// Orders the streamed bytes of this thread before its later writes.
#[inline]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
