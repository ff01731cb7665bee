//! [`transpose`]: lines of elements that are to lie across, turned in registers.

/// Writes element `j` of line `i` to element `i` of line `j`: `lines` lines of `length` elements, which begin `from_pitch` bytes
/// apart where they are read, and `to_pitch` bytes where they are written.
///
/// # Safety
/// The elements are valid for reads and for writes there, and what is read is not what is written.
#[inline(always)]
pub(super) unsafe fn transpose<T: Copy>(
    from: *const u8,
    from_pitch: isize,
    to: *mut u8,
    to_pitch: isize,
    [lines, length]: [usize; 2],
) {
    let size = size_of::<T>() as isize;
    let tile = if cfg!(target_arch = "x86_64") { 16 / size_of::<T>() } else { 1 };
    // The lines, and the elements of each, that whole tiles cover; none if a tile is one element.
    let (tiled, along) = if tile > 1 { (lines / tile * tile, length / tile * tile) } else { (0, 0) };
    for i in (0..tiled).step_by(tile) {
        for j in (0..along).step_by(tile) {
            let (i, j) = (i as isize, j as isize);
            // SAFETY: a tile within the lines.
            unsafe {
                turn::<T>(
                    from.offset(i * from_pitch + j * size),
                    from_pitch,
                    to.offset(j * to_pitch + i * size),
                    to_pitch,
                );
            }
        }
    }
    for i in 0..lines {
        let done = if i < tiled { along } else { 0 };
        for j in done..length {
            let (i, j) = (i as isize, j as isize);
            // SAFETY: an element of a line; storages may be unaligned for the type.
            unsafe {
                let value = from.offset(i * from_pitch + j * size).cast::<T>().read_unaligned();
                to.offset(j * to_pitch + i * size).cast::<T>().write_unaligned(value);
            }
        }
    }
}

/// [`transpose`] of as many lines as a register has elements, each a register long.
///
/// # Safety
/// As there.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn turn<T: Copy>(from: *const u8, from_pitch: isize, to: *mut u8, to_pitch: isize) {
    use std::arch::x86_64::*;
    /// Lines `i` and `i + N / 2` merged, element by element, in as many rounds as halve `N` to 1.
    macro_rules! turn {
        ($n:literal, $low:ident, $high:ident) => {{
            // SAFETY: forwarded from the caller; every x86-64 machine has the instructions.
            unsafe {
                let mut lines = [_mm_setzero_si128(); $n];
                for i in 0..$n {
                    lines[i] = _mm_loadu_si128(from.offset(i as isize * from_pitch).cast());
                }
                let mut merged = $n;
                while merged > 1 {
                    let old = lines;
                    for i in 0..$n / 2 {
                        lines[2 * i] = $low(old[i], old[i + $n / 2]);
                        lines[2 * i + 1] = $high(old[i], old[i + $n / 2]);
                    }
                    merged /= 2;
                }
                for i in 0..$n {
                    _mm_storeu_si128(to.offset(i as isize * to_pitch).cast(), lines[i]);
                }
            }
        }};
    }
    match size_of::<T>() {
        1 => turn!(16, _mm_unpacklo_epi8, _mm_unpackhi_epi8),
        2 => turn!(8, _mm_unpacklo_epi16, _mm_unpackhi_epi16),
        4 => turn!(4, _mm_unpacklo_epi32, _mm_unpackhi_epi32),
        _ => turn!(2, _mm_unpacklo_epi64, _mm_unpackhi_epi64),
    }
}

/// Without registers to turn, no tile is larger than an element.
///
/// # Safety
/// As [`transpose`].
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn turn<T: Copy>(from: *const u8, _from_pitch: isize, to: *mut u8, _to_pitch: isize) {
    // SAFETY: forwarded from the caller.
    unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Copy + PartialEq + std::fmt::Debug>(element: impl Fn(usize) -> T) {
        let size = size_of::<T>();
        for [lines, length] in [[1, 1], [3, 2], [16, 16], [17, 35], [64, 19], [5, 64]] {
            let (from_pitch, to_pitch) = (length + 3, lines + 2);
            let from: Vec<T> = (0..lines * from_pitch).map(&element).collect();
            let mut to = vec![element(251); length * to_pitch];
            // SAFETY: both hold their lines.
            unsafe {
                transpose::<T>(
                    from.as_ptr().cast(),
                    (from_pitch * size) as isize,
                    to.as_mut_ptr().cast(),
                    (to_pitch * size) as isize,
                    [lines, length],
                );
            }
            for (at, &value) in to.iter().enumerate() {
                let (j, i) = (at / to_pitch, at % to_pitch);
                assert_eq!(value, if i < lines { from[i * from_pitch + j] } else { element(251) });
            }
        }
    }

    #[test]
    fn elements_of_every_size_are_turned() {
        check(|i| i as u8);
        check(|i| i as u16);
        check(|i| i as u32);
        check(|i| i as u64);
        check(|i| [i as u64, 7]);
    }
}
