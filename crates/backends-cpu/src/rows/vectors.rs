//! Vectors: arrays as long as a register of the level, handled as a whole, in loops over nothing else. So LLVM keeps them in
//! registers; longer arrays it takes apart where a body is long or a sum lives across it.

use crate::isa::{Isa, Level};

/// The elements of a vector: 64, 32 or 16 bytes.
pub const fn vector_width<I: Isa, T>() -> usize {
    let bytes = match I::LEVEL {
        Level::Baseline => 16,
        Level::V3 => 32,
        Level::V4 => 64,
    };
    bytes / size_of::<T>()
}

/// Calls a function with the width of the level's vectors of a type as its last parameter:
/// `with_vectors!(I, f32, f<I, T>(x))` is `f::<I, T, 16>(x)` or the like.
macro_rules! with_vectors {
    ($i:ty, $t:ty, $($f:ident)::+ < $($p:tt),* > ($($arg:expr),* $(,)?)) => {
        match const { $crate::rows::vector_width::<$i, $t>() } {
            16 => $($f)::+::<$($p),*, 16>($($arg),*),
            8 => $($f)::+::<$($p),*, 8>($($arg),*),
            4 => $($f)::+::<$($p),*, 4>($($arg),*),
            _ => $($f)::+::<$($p),*, 2>($($arg),*),
        }
    };
}
pub(crate) use with_vectors;

/// `f` of the elements of two vectors.
#[inline(always)]
pub fn zip<O: Copy, const L: usize>(mut x: [O; L], y: [O; L], f: impl Fn(O, O) -> O) -> [O; L] {
    for l in 0..L {
        x[l] = f(x[l], y[l]);
    }
    x
}

/// `f` of the elements of a vector.
#[inline(always)]
pub fn map<O: Copy, const L: usize>(mut x: [O; L], f: impl Fn(O) -> O) -> [O; L] {
    for x in &mut x {
        *x = f(*x);
    }
    x
}

/// Combines the elements of a vector. A call, with the vector in memory: next to the loop that made it, LLVM would see single
/// elements, and make that loop one of those.
#[inline(never)]
pub fn combine<O: Copy, const L: usize>(x: &[O; L], f: impl Fn(O, O) -> O) -> O {
    let mut x = *x;
    let mut width = L / 2;
    while width > 0 {
        for i in 0..width {
            x[i] = f(x[i], x[i + width]);
        }
        width /= 2;
    }
    x[0]
}
