//! Packing: a strip or a panel of an operand, its lanes side by side for each step of the inner dimension.

use super::units::Units;
use crate::arrays::{each, map};

/// Packs `lanes <= W` rows of an operand, or columns, over `depth` elements of the inner dimension: `to[q * W + l]` is unit `q`
/// of lane `l`. What lies beyond the last lane is of no particular value.
///
/// # Safety
/// `from[l * lane_stride + p * depth_stride]` is valid for reads for all lanes and `p < depth`, `to[..]` for writes of
/// `depth.div_ceil(GROUP) * W` units; `lanes > 0`.
#[inline(never)]
pub(super) unsafe fn pack<U: Units, const W: usize>(
    to: *mut U::Unit,
    from: *const U::In,
    strides: (isize, isize),
    lanes: usize,
    depth: usize,
) {
    U::run(
        #[inline(always)]
        // SAFETY: forwarded from the caller.
        || unsafe { body::<U, W>(to, from, strides, lanes, depth) },
    );
}

#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "the index counts elements of memory as well")]
unsafe fn body<U: Units, const W: usize>(
    to: *mut U::Unit,
    from: *const U::In,
    (lane_stride, depth_stride): (isize, isize),
    lanes: usize,
    depth: usize,
) {
    let whole = depth / U::GROUP;
    let group = U::GROUP as isize;
    // SAFETY: lanes below `lanes`, whole units below `whole`.
    let unit = |l: usize, q: usize| unsafe {
        U::gather(from.offset(l as isize * lane_stride + q as isize * group * depth_stride), depth_stride)
    };
    if lane_stride == 1 && lanes == W {
        for q in 0..whole {
            // What fits a register at a time: LLVM would keep other arrays in memory.
            macro_rules! lanes {
                ($n:literal) => {
                    for l in (0..W).step_by($n) {
                        // SAFETY: unit `q < whole` of `W` lanes side by side.
                        unsafe {
                            let from = from.offset(q as isize * group * depth_stride).add(l);
                            let some: [U::Unit; $n] = each(
                                #[inline(always)]
                                |l| U::gather(from.add(l), depth_stride),
                            );
                            to.add(q * W + l).cast::<[U::Unit; $n]>().write(some);
                        }
                    }
                };
            }
            if const { W.is_multiple_of(16) } {
                lanes!(16);
            } else if const { W.is_multiple_of(4) } {
                lanes!(4);
            } else {
                lanes!(1);
            }
        }
    } else if depth_stride == 1 && W >= 4 {
        // Blocks of four or eight lanes and four units are turned in registers, a cache line of each lane at a time. Lanes beyond
        // the last one repeat it.
        let line = if W > 16 { 16 } else { whole.max(1) };
        let lane = |l: usize| {
            // SAFETY: the lane is clamped to those that exist.
            unsafe { from.offset(l.min(lanes - 1) as isize * lane_stride) }
        };
        for start in (0..whole).step_by(line) {
            let end = whole.min(start + line);
            let mut first = 0;
            while first < W {
                let rows = [lane(first), lane(first + 1), lane(first + 2), lane(first + 3)];
                let mut q = start;
                let mut some = 4.min(W - first);
                if const { U::WIDE && size_of::<U::Unit>() == 4 } && first + 8 <= W {
                    some = 8;
                    let far = [lane(first + 4), lane(first + 5), lane(first + 6), lane(first + 7)];
                    while q + 4 <= end {
                        // SAFETY: units `q..q + 4` of eight lanes, and of four steps; the caller runs this by `U::run`.
                        unsafe {
                            let turned = transposed_side_by_side(block::<U>(rows, q), block::<U>(far, q));
                            for j in 0..4 {
                                to.add((q + j) * W + first).cast::<[U::Unit; 8]>().write(turned[j]);
                            }
                        }
                        q += 4;
                    }
                }
                // None is left after eight lanes at once.
                while q + 4 <= end {
                    // SAFETY: units `q..q + 4` of four lanes, and of four steps.
                    unsafe {
                        let turned = transposed(block::<U>(rows, q));
                        for j in 0..4 {
                            let to = to.add((q + j) * W + first);
                            if W.is_multiple_of(4) || first + 4 <= W {
                                to.cast::<[U::Unit; 4]>().write(turned[j]);
                            } else {
                                (0..W % 4).for_each(|i| to.add(i).write(turned[j][i]));
                            }
                        }
                    }
                    q += 4;
                }
                for q in q..end {
                    for i in 0..some {
                        // SAFETY: unit `q < whole` of a lane.
                        unsafe { to.add(q * W + first + i).write(U::gather(lane(first + i).add(q * U::GROUP), 1)) };
                    }
                }
                first += some;
            }
        }
    } else {
        for q in 0..whole {
            for l in 0..lanes {
                // SAFETY: `q < whole`, `l < lanes <= W`.
                unsafe { to.add(q * W + l).write(unit(l, q)) };
            }
            for l in lanes..W {
                // SAFETY: `q < whole`, `l < W`.
                unsafe { to.add(q * W + l).write(U::ZERO) };
            }
        }
    }
    if whole * U::GROUP < depth {
        for l in 0..W {
            let at = l.min(lanes - 1) as isize * lane_stride + (whole * U::GROUP) as isize * depth_stride;
            // SAFETY: the element `whole * GROUP < depth` of a lane that exists, into the last unit.
            unsafe { to.add(whole * W + l).write(U::gather_one(from.offset(at))) };
        }
    }
}

/// Units `q..q + 4` of four lanes, whose elements lie side by side.
///
/// # Safety
/// They are valid for reads.
#[inline(always)]
unsafe fn block<U: Units>(lanes: [*const U::In; 4], q: usize) -> [[U::Unit; 4]; 4] {
    map(
        lanes,
        #[inline(always)]
        // SAFETY: forwarded from the caller.
        |lane| unsafe { four::<U>(lane.add(q * U::GROUP)) },
    )
}

/// Four units whose elements lie side by side.
///
/// # Safety
/// They are valid for reads.
#[inline(always)]
unsafe fn four<U: Units>(at: *const U::In) -> [U::Unit; 4] {
    if U::side_by_side() {
        // A load of all: LLVM would take single ones, and shuffle twice as often.
        // SAFETY: forwarded from the caller; the elements are those of the units.
        return unsafe { at.cast::<[U::Unit; 4]>().read_unaligned() };
    }
    each(
        #[inline(always)]
        // SAFETY: forwarded from the caller.
        |j| unsafe { U::gather(at.add(j * U::GROUP), 1) },
    )
}

/// The transposed block.
#[inline(always)]
pub(crate) fn transposed<T: Copy>(block: [[T; 4]; 4]) -> [[T; 4]; 4] {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128, __m128d, _MM_TRANSPOSE4_PS, _mm_unpackhi_pd, _mm_unpacklo_pd};
        use std::mem::transmute_copy;
        if const { size_of::<T>() == 4 } {
            // SAFETY: the two types have one size, and every bit pattern is a value of both; SSE is part of x86-64.
            return unsafe {
                let [mut a, mut b, mut c, mut d]: [__m128; 4] = transmute_copy(&block);
                _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
                transmute_copy(&[a, b, c, d])
            };
        }
        if const { size_of::<T>() == 8 } {
            // SAFETY: as above.
            return unsafe {
                let [[a, e], [b, f], [c, g], [d, h]]: [[__m128d; 2]; 4] = transmute_copy(&block);
                let (low, high) = (|x, y| _mm_unpacklo_pd(x, y), |x, y| _mm_unpackhi_pd(x, y));
                let turned = [
                    [low(a, b), low(c, d)],
                    [high(a, b), high(c, d)],
                    [low(e, f), low(g, h)],
                    [high(e, f), high(g, h)],
                ];
                transmute_copy(&turned)
            };
        }
    }
    each(
        #[inline(always)]
        |j| {
            map(
                block,
                #[inline(always)]
                |row| row[j],
            )
        },
    )
}

/// Two transposed blocks side by side: row `j` is column `j` of `near`, then column `j` of `far`.
///
/// # Safety
/// The machine has AVX.
#[inline(always)]
unsafe fn transposed_side_by_side<T: Copy>(near: [[T; 4]; 4], far: [[T; 4]; 4]) -> [[T; 8]; 4] {
    #[cfg(target_arch = "x86_64")]
    if const { size_of::<T>() == 4 } {
        use std::arch::x86_64::{
            __m128, __m256, _mm256_castpd_ps, _mm256_castps_pd, _mm256_castps128_ps256, _mm256_insertf128_ps,
            _mm256_unpackhi_pd, _mm256_unpackhi_ps, _mm256_unpacklo_pd, _mm256_unpacklo_ps,
        };
        use std::mem::transmute_copy;
        // SAFETY: the types have one size each, and every bit pattern is a value of both; the caller vouches for AVX.
        return unsafe {
            let (near, far): ([__m128; 4], [__m128; 4]) = (transmute_copy(&near), transmute_copy(&far));
            let [a, b, c, d]: [__m256; 4] = each(
                #[inline(always)]
                |r| _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(near[r]), far[r]),
            );
            let (ab, cd) = (_mm256_castps_pd(_mm256_unpacklo_ps(a, b)), _mm256_castps_pd(_mm256_unpacklo_ps(c, d)));
            let (ef, gh) = (_mm256_castps_pd(_mm256_unpackhi_ps(a, b)), _mm256_castps_pd(_mm256_unpackhi_ps(c, d)));
            let turned = [
                _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)),
                _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)),
                _mm256_castpd_ps(_mm256_unpacklo_pd(ef, gh)),
                _mm256_castpd_ps(_mm256_unpackhi_pd(ef, gh)),
            ];
            transmute_copy(&turned)
        };
    }
    let (near, far) = (transposed(near), transposed(far));
    each(
        #[inline(always)]
        |j| {
            each(
                #[inline(always)]
                |l| if l < 4 { near[j][l] } else { far[j][l - 4] },
            )
        },
    )
}
