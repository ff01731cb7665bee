//! Instruction-set levels: [`Isa`] compiles one generic body for each of them, [`level`] says which the machine has.
//!
//! A kernel is generic over `I: Isa` and runs its loops through [`Isa::run`]. The body that it passes is inlined into a
//! `#[target_feature]` trampoline, so LLVM vectorises it with the instructions of that level. No intrinsics here: what
//! needs shuffles lives beside its kernel.
//!
//! Two traps cost a body its level in silence; the release build's speed tests tell. A function without `#[inline]` is a call wherever it
//! lies in another codegen unit, and compiled for the baseline: generic ones of the standard library among them, such as `array::map`,
//! `array::from_fn`, `Iterator::fold` of adapters, and closures that are called by reference. And LLVM does not inline a body that
//! holds a call returning a slice: `chunks_exact(n).remainder()` is one, `as_chunks::<N>()` is not. So helpers of bodies and the closures
//! that are handed to the loops are `#[inline(always)]`, and generic functions that take such a closure are `#[inline]`: else the
//! closure and the loop around it may be compiled apart.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction-set level of this architecture, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// what every machine of the target has: SSE2 on x86-64, NEON on aarch64
    Baseline = 1,
    /// x86-64-v3: AVX2 and FMA
    V3 = 2,
    /// x86-64-v4: AVX-512 F, BW, CD, DQ, VL
    V4 = 3,
}

impl Level {
    /// Every level, the weakest first. A kernel table has one row for each.
    pub const ALL: [Level; 3] = [Self::Baseline, Self::V3, Self::V4];

    /// The level's place in [`Level::ALL`].
    pub const fn index(self) -> usize {
        self as usize - 1
    }

    /// The spelling that `TENSOR_CPU_LEVEL` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::V3 => "v3",
            Self::V4 => "v4",
        }
    }
}

/// The detected level, or 0 before the first look.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The best level that this machine has, or a lower one that the environment variable `TENSOR_CPU_LEVEL` names
/// (`baseline`, `v3` or `v4`). Detected once.
#[inline]
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        3 => Level::V4,
        2 => Level::V3,
        1 => Level::Baseline,
        _ => detect(),
    }
}

#[cold]
fn detect() -> Level {
    let machine = machine_level();
    let wanted = std::env::var("TENSOR_CPU_LEVEL").ok();
    let forced = wanted.and_then(|name| Level::ALL.into_iter().find(|l| l.name() == name));
    let level = forced.map_or(machine, |forced| forced.min(machine));
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

#[cfg(target_arch = "x86_64")]
fn machine_level() -> Level {
    macro_rules! has {
        ($($feature:tt)*) => { true $(&& std::arch::is_x86_feature_detected!($feature))* };
    }
    let v3 = has!("avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "movbe" "popcnt");
    let v4 = v3 && has!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl");
    if v4 {
        Level::V4
    } else if v3 {
        Level::V3
    } else {
        Level::Baseline
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn machine_level() -> Level {
    Level::Baseline
}

mod sealed {
    pub trait Sealed {}
}

/// An instruction-set level as a type.
pub trait Isa: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The level of this type.
    const LEVEL: Level;

    /// True if the level has fused multiply-add instructions, so that [`Isa::mul_add`] rounds once.
    const FMA: bool;

    /// Runs `f` compiled for this level. Code that is inlined into `f` is compiled for it as well.
    ///
    /// # Panics
    /// When this machine lacks the level. The kernel table holds no such column for it: [`level`] picks the column.
    fn run<R>(f: impl FnOnce() -> R) -> R;

    /// `a * b + c`: rounded once where the level has the instruction, as a product and a sum elsewhere, never by a call.
    #[inline(always)]
    fn mul_add<T: num_traits::Float>(a: T, b: T, c: T) -> T {
        if Self::FMA { a.mul_add(b, c) } else { a * b + c }
    }
}

/// The level that every machine of the target has.
#[derive(Clone, Copy, Debug)]
pub struct Baseline;

impl sealed::Sealed for Baseline {}
impl Isa for Baseline {
    const LEVEL: Level = Level::Baseline;
    const FMA: bool = cfg!(target_arch = "aarch64");

    #[inline(always)]
    fn run<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}

#[cold]
#[inline(never)]
fn lacking(level: Level) -> ! {
    panic!("this machine has no {} instructions", level.name())
}

macro_rules! x86_level {
    ($name:ident, $features:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl sealed::Sealed for $name {}
        impl Isa for $name {
            const LEVEL: Level = Level::$name;
            const FMA: bool = cfg!(target_arch = "x86_64");

            #[inline(always)]
            fn run<R>(f: impl FnOnce() -> R) -> R {
                #[cfg(target_arch = "x86_64")]
                {
                    // In the codegen unit of the kernel, so that the body is inlined from there; and so that an edited kernel
                    // compiles its own family's units alone.
                    #[inline]
                    #[target_feature(enable = $features)]
                    fn trampoline<R>(f: impl FnOnce() -> R) -> R {
                        f()
                    }
                    if level() < Level::$name {
                        lacking(Level::$name)
                    }
                    // SAFETY: `level` never exceeds what detection found, so the machine has these features.
                    unsafe { trampoline(f) }
                }
                #[cfg(not(target_arch = "x86_64"))]
                {
                    let _ = f;
                    lacking(Level::$name)
                }
            }
        }
    };
}

x86_level!(V3, "avx2,fma,f16c,bmi1,bmi2,lzcnt,movbe,popcnt", "x86-64-v3: AVX2, FMA, F16C.");
x86_level!(
    V4,
    "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,movbe,popcnt",
    "x86-64-v4: AVX-512 F, BW, CD, DQ, VL beside V3."
);

/// Runs an expression with `$i` bound to the type of this machine's level: `with_level!(I => kernel::<I>(..))`.
///
/// For code outside the kernel tables: tests, and kernels that the table calls at one level only.
#[macro_export]
macro_rules! with_level {
    ($i:ident => $body:expr) => {
        match $crate::isa::level() {
            $crate::isa::Level::Baseline => {
                type $i = $crate::isa::Baseline;
                $body
            }
            $crate::isa::Level::V3 => {
                type $i = $crate::isa::V3;
                $body
            }
            $crate::isa::Level::V4 => {
                type $i = $crate::isa::V4;
                $body
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_stable_and_runs() {
        assert_eq!(level(), level());
        assert_eq!(Baseline::run(|| 1 + 1), 2);
        with_level!(I => assert_eq!(I::run(|| I::mul_add(2.0f32, 3.0, 1.0)), 7.0));
    }

    #[test]
    fn a_level_that_the_machine_lacks_does_not_run() {
        if level() < Level::V4 {
            assert!(std::panic::catch_unwind(|| V4::run(|| ())).is_err());
        }
    }
}
