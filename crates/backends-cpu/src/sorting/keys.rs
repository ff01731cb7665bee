//! [`Key`]: elements as unsigned integers of the same order, and [`Pair`]: such an integer with an index.
//!
//! No-numbers are the largest and equal each other; -0 equals 0. A pair is one integer, the key in its high half, so that
//! pairs of distinct indices are distinct, and their one order is the stable one of their keys.

use std::ops::{BitXor, Not};

use bytemuck::Pod;
use tensor_core::{Bool, Element, bf16, f16};

/// An element type with an order.
pub trait Key: Element {
    /// An unsigned integer as wide as the element.
    type Bits: Copy + Ord + BitXor<Output = Self::Bits> + Not<Output = Self::Bits> + Into<u64> + Send + Sync;
    /// The key with an index.
    type Pair: Pair;
    /// How many bits a key has.
    const WIDTH: u32 = 8 * size_of::<Self>() as u32;
    /// The key 0.
    const LEAST: Self::Bits;

    /// The key.
    fn bits(self) -> Self::Bits;

    /// The element of a key, if only one has it.
    fn of_bits(bits: u64) -> Option<Self>;

    /// True for a no-number.
    fn is_nan(self) -> bool;

    /// What is exclusive-ored with keys to turn their order round, or not.
    #[inline(always)]
    fn turn(descending: bool) -> Self::Bits {
        if descending { !Self::LEAST } else { Self::LEAST }
    }
}

/// A key and an index in one integer.
pub trait Pair: Pod + Ord + Send + Sync {
    /// A pair; the key has no more bits than half of the integer.
    fn new(key: u64, index: usize) -> Self;
    /// The key.
    fn key(self) -> u64;
    /// The index.
    fn index(self) -> usize;
}

macro_rules! pairs {
    ($($pair:ty, $half:ty;)*) => { $(
        impl Pair for $pair {
            #[inline(always)]
            fn new(key: u64, index: usize) -> Self {
                (key as $pair) << <$half>::BITS | index as $half as $pair
            }
            #[inline(always)]
            fn key(self) -> u64 {
                (self >> <$half>::BITS) as u64
            }
            #[inline(always)]
            fn index(self) -> usize {
                self as $half as usize
            }
        }
    )* };
}
pairs! { u64, u32; u128, u64; }

macro_rules! integer_keys {
    ($($ty:ty, $bits:ty, $pair:ty, $flip:expr;)*) => { $(
        impl Key for $ty {
            type Bits = $bits;
            type Pair = $pair;
            const LEAST: $bits = 0;
            #[inline(always)]
            fn bits(self) -> $bits {
                self as $bits ^ $flip
            }
            #[inline(always)]
            fn of_bits(bits: u64) -> Option<Self> {
                Some((bits as $bits ^ $flip) as $ty)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
        }
    )* };
}
integer_keys! {
    u8, u8, u64, 0;
    i8, u8, u64, 1 << 7;
    i16, u16, u64, 1 << 15;
    i32, u32, u64, 1 << 31;
    i64, u64, u128, 1 << 63;
}

impl Key for Bool {
    type Bits = u8;
    type Pair = u64;
    const LEAST: u8 = 0;
    #[inline(always)]
    fn bits(self) -> u8 {
        u8::from(self.get())
    }
    #[inline(always)]
    fn of_bits(bits: u64) -> Option<Self> {
        Some(Self::new(bits != 0))
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! float_keys {
    ($($ty:ty, $bits:ty, $pair:ty, $infinity:expr;)*) => { $(
        impl Key for $ty {
            type Bits = $bits;
            type Pair = $pair;
            const LEAST: $bits = 0;
            // The order of sign and magnitude becomes that of integers when negative numbers are inverted, and the others
            // get the high bit.
            #[inline(always)]
            fn bits(self) -> $bits {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = self.to_bits();
                let magnitude = bits & !SIGN;
                let negative = (bits >> (<$bits>::BITS - 1)).wrapping_neg();
                let key = bits ^ (negative | SIGN);
                let key = if magnitude == 0 { SIGN } else { key };
                if magnitude > $infinity { <$bits>::MAX } else { key }
            }
            #[inline(always)]
            fn of_bits(bits: u64) -> Option<Self> {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let key = bits as $bits;
                let positive = (key >> (<$bits>::BITS - 1)).wrapping_neg();
                let element = key ^ (!positive | SIGN);
                (key != SIGN && key != <$bits>::MAX).then(|| <$ty>::from_bits(element))
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.to_bits() & (<$bits>::MAX >> 1) > $infinity
            }
        }
    )* };
}
float_keys! {
    f16, u16, u64, 0x7c00;
    bf16, u16, u64, 0x7f80;
    f32, u32, u64, 0x7f80_0000;
    f64, u64, u128, 0x7ff0_0000_0000_0000;
}

/// The pair of an element that is turned by [`Key::turn`].
#[inline(always)]
pub fn pair<T: Key>(x: T, turn: T::Bits, index: usize) -> T::Pair {
    T::Pair::new((x.bits() ^ turn).into(), index)
}

/// The element of a pair that [`pair`] made of an element of `x`.
#[inline(always)]
pub fn element<T: Key>(pair: T::Pair, turn: T::Bits, x: &[T]) -> T {
    let mask: u64 = turn.into();
    match T::of_bits(pair.key() ^ mask) {
        Some(element) => element,
        None => x[pair.index()],
    }
}
