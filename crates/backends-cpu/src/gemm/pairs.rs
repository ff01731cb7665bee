//! bf16 as pairs: sums of two products an instruction, twice as many products a cycle as in f32.

use tensor_core::bf16;

use super::units::Units;

/// Two bf16 of the inner dimension, the first one in the low half. Sums are those of AVX512-BF16's `VDPBF16PS`: in f32, with
/// subnormal numbers as zeros.
pub(super) struct Pairs;

impl Pairs {
    /// True if this machine has the instruction, and gains by it: Intel's cores do no more products with it than in f32.
    pub fn pay() -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            use std::sync::OnceLock;
            static PAY: OnceLock<bool> = OnceLock::new();
            *PAY.get_or_init(|| {
                let vendor = std::arch::x86_64::__cpuid(0);
                let amd = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD";
                amd && std::arch::is_x86_feature_detected!("avx512bf16")
            })
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }
}

impl Units for Pairs {
    type In = bf16;
    type Unit = u32;
    type Sum = f32;
    const GROUP: usize = 2;
    const WIDE: bool = cfg!(target_arch = "x86_64");
    const ZERO: u32 = 0;

    #[inline(always)]
    fn as_is() -> bool {
        false
    }

    #[inline(always)]
    fn side_by_side() -> bool {
        cfg!(target_endian = "little")
    }

    #[inline(always)]
    unsafe fn gather(at: *const bf16, stride: isize) -> u32 {
        // SAFETY: forwarded from the caller.
        let (low, high) = unsafe { (*at, *at.offset(stride)) };
        low.to_bits() as u32 | (high.to_bits() as u32) << 16
    }

    #[inline(always)]
    unsafe fn gather_one(at: *const bf16) -> u32 {
        // SAFETY: forwarded from the caller.
        unsafe { *at }.to_bits() as u32
    }

    #[inline(always)]
    fn accumulate<const L: usize>(sums: &mut [f32; L], x: u32, y: &[u32; L]) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{__m512, __m512bh, _mm512_dpbf16_ps, _mm512_set1_epi32};
            use std::mem::{transmute, transmute_copy};
            const { assert!(L == 16, "a vector of 16 sums") };
            // SAFETY: the arrays have the size of the vectors; `run` has seen that the machine has the instructions.
            unsafe {
                let x: __m512bh = transmute(_mm512_set1_epi32(x as i32));
                let sum: __m512 = transmute_copy(sums);
                let sum = _mm512_dpbf16_ps(sum, x, transmute_copy(y));
                *sums = transmute_copy(&sum);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (sums, x, y);
    }

    #[inline(always)]
    fn run<R>(f: impl FnOnce() -> R) -> R {
        #[cfg(target_arch = "x86_64")]
        {
            #[inline]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,bmi1,bmi2,lzcnt,movbe,popcnt"
            )]
            fn trampoline<R>(f: impl FnOnce() -> R) -> R {
                f()
            }
            assert!(Self::pay(), "this machine has no AVX512-BF16");
            // SAFETY: checked just now; AVX512-BF16 comes with the others.
            unsafe { trampoline(f) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        f()
    }
}
