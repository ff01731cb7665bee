//! [`Key`]: elements as unsigned integers of the same order; [`Pair`]: such an integer with an index; [`Ranks`]: the way from
//! the elements of a row to pairs and back.
//!
//! No-numbers are the largest and equal each other; -0 equals 0. A pair is one integer, the key in its high half, so that
//! pairs of distinct indices are distinct, and their one order is the stable one of their keys.

use std::marker::PhantomData;
use std::ops::{BitOr, BitXor, Not};

use bytemuck::Pod;
use tensor_core::{Bool, Element, bf16, f16};

use crate::isa::Isa;
use crate::parallel::{GRAIN, parallel_reduce};
use crate::with_level;

/// Rows that are not looked through for what their keys share.
const FEW: usize = 32;

/// An element type with an order.
pub trait Key: Element {
    /// An unsigned integer as wide as the element.
    type Bits: Copy
        + Ord
        + BitOr<Output = Self::Bits>
        + BitXor<Output = Self::Bits>
        + Not<Output = Self::Bits>
        + Into<u64>
        + Send
        + Sync;
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

    /// True if the element comes after another one in the order; perhaps too if both are no-numbers.
    #[inline(always)]
    fn above(self, other: Self) -> bool {
        self.bits() > other.bits()
    }

    /// True if the element comes before another one in the order.
    #[inline(always)]
    fn below(self, other: Self) -> bool {
        self.bits() < other.bits()
    }

    /// What is exclusive-ored with keys to turn their order round, or not.
    #[inline(always)]
    fn turn(descending: bool) -> Self::Bits {
        if descending { !Self::LEAST } else { Self::LEAST }
    }
}

/// A key and an index in one integer.
pub trait Pair: Pod + Ord + Send + Sync {
    /// A pair; of the key the lowest bits, as many as half of the integer has.
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
    ($($ty:ty, $bits:ty, $pair:ty, $infinity:expr, {$($more:item)*};)*) => { $(
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
            $($more)*
        }
    )* };
}
float_keys! {
    f16, u16, u64, 0x7c00, {};
    bf16, u16, u64, 0x7f80, {};
    f32, u32, u64, 0x7f80_0000, {
        #[inline(always)]
        fn above(self, other: Self) -> bool { above(self, other) }
        #[inline(always)]
        fn below(self, other: Self) -> bool { below(self, other) }
    };
    f64, u64, u128, 0x7ff0_0000_0000_0000, {
        #[inline(always)]
        fn above(self, other: Self) -> bool { above(self, other) }
        #[inline(always)]
        fn below(self, other: Self) -> bool { below(self, other) }
    };
}

/// [`Key::above`] by the machine's comparisons.
#[inline(always)]
#[allow(clippy::eq_op)]
fn above<T: Copy + PartialOrd>(x: T, other: T) -> bool {
    (x > other) | (x != x)
}

/// [`Key::below`] by the machine's comparisons.
#[inline(always)]
#[allow(clippy::eq_op)]
fn below<T: Copy + PartialOrd>(x: T, other: T) -> bool {
    (x < other) | ((other != other) & (x == x))
}

/// How the elements of a row become pairs: turned for a falling order, and without high bits that all keys share.
pub struct Ranks<T> {
    turn: u64,
    /// what all turned keys share
    shared: u64,
    /// the lowest bits, in which keys differ
    pub bits: u32,
    _elements: PhantomData<T>,
}

impl<T: Key> Ranks<T> {
    /// Those of any elements.
    pub fn any(descending: bool) -> Self {
        Self { turn: T::turn(descending).into(), shared: 0, bits: T::WIDTH, _elements: PhantomData }
    }

    /// Those of the elements of a row.
    pub fn of(x: &[T], descending: bool) -> Self {
        let all = Self::any(descending);
        if x.len() < FEW {
            return all;
        }
        let first = x[0].bits();
        let apart = |begin: usize, end: usize| {
            with_level!(I => I::run(
                #[inline(always)]
                || {
                    let mut apart = T::LEAST;
                    for x in &x[begin..end] {
                        apart = apart | (x.bits() ^ first);
                    }
                    apart
                }
            ))
        };
        let apart: u64 = parallel_reduce(x.len(), GRAIN, T::LEAST, apart, |a, b| a | b).into();
        let bits = u64::BITS - apart.leading_zeros();
        let low = if bits == 0 { 0 } else { u64::MAX >> (u64::BITS - bits) };
        Self { shared: (first.into() ^ all.turn) & !low, bits, ..all }
    }

    /// True if pairs of 64 bits hold what keys of a row of `n` elements differ in.
    pub fn are_short(&self, n: usize) -> bool {
        self.bits <= u32::BITS && n <= u32::MAX as usize
    }

    /// The pair of an element.
    #[inline(always)]
    pub fn pair<P: Pair>(&self, x: T, index: usize) -> P {
        P::new(x.bits().into() ^ self.turn, index)
    }

    /// The element of a pair that [`Ranks::pair`] made of an element of `x`.
    #[inline(always)]
    pub fn element<P: Pair>(&self, pair: P, x: &[T]) -> T {
        match T::of_bits((self.shared | pair.key()) ^ self.turn) {
            Some(element) => element,
            None => x[pair.index()],
        }
    }
}
