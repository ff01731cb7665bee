//! [`Cast`]: conversions between the types that kernels compute in, with the results of C's casts on x86-64.
//!
//! A real number out of an integer's range gives the smallest integer there (types below 32 bits take the low bits of a wider
//! one); NaN likewise. Integers wrap. A complex number gives its real part. The truth of a number is that it is not zero.

use tensor_core::{Bool, Complex};

/// A number that converts to every other kind of number.
pub trait Cast: Copy {
    /// As `T`.
    #[inline(always)]
    fn cast<T: Cast>(self) -> T {
        T::cast_from(self)
    }
    /// From any number.
    fn cast_from<S: Cast>(value: S) -> Self;
    /// As an integer of 32 bits.
    fn to_i32(self) -> i32;
    /// As an integer of 64 bits.
    fn to_i64(self) -> i64;
    /// As f32, rounded.
    fn to_f32(self) -> f32;
    /// As f64, rounded.
    fn to_f64(self) -> f64;
    /// The imaginary part.
    #[inline(always)]
    fn imaginary(self) -> f64 {
        0.0
    }
    /// As a truth value.
    fn to_bool(self) -> Bool;
}

/// `x as i32` where that is in range, else the smallest integer, without a saturating cast.
#[inline(always)]
fn f64_to_i32(x: f64) -> i32 {
    let inside = (x > -2_147_483_649.0) & (x < 2_147_483_648.0);
    // SAFETY: in range, or 0.
    let value = unsafe { (if inside { x } else { 0.0 }).to_int_unchecked::<i32>() };
    if inside { value } else { i32::MIN }
}

/// As [`f64_to_i32`].
#[inline(always)]
fn f32_to_i32(x: f32) -> i32 {
    let inside = (x >= -2_147_483_648.0) & (x < 2_147_483_648.0);
    // SAFETY: in range, or 0.
    let value = unsafe { (if inside { x } else { 0.0 }).to_int_unchecked::<i32>() };
    if inside { value } else { i32::MIN }
}

/// As [`f64_to_i32`], to 64 bits.
#[inline(always)]
fn f64_to_i64(x: f64) -> i64 {
    let inside = (x >= -9_223_372_036_854_775_808.0) & (x < 9_223_372_036_854_775_808.0);
    // SAFETY: in range, or 0.
    let value = unsafe { (if inside { x } else { 0.0 }).to_int_unchecked::<i64>() };
    if inside { value } else { i64::MIN }
}

/// As [`f64_to_i64`].
#[inline(always)]
fn f32_to_i64(x: f32) -> i64 {
    let inside = (x >= -9_223_372_036_854_775_808.0) & (x < 9_223_372_036_854_775_808.0);
    // SAFETY: in range, or 0.
    let value = unsafe { (if inside { x } else { 0.0 }).to_int_unchecked::<i64>() };
    if inside { value } else { i64::MIN }
}

macro_rules! integers {
    ($($t:ty, $through:ident;)*) => { $(
        impl Cast for $t {
            #[inline(always)]
            fn cast_from<S: Cast>(value: S) -> Self { value.$through() as $t }
            #[inline(always)]
            fn to_i32(self) -> i32 { self as i32 }
            #[inline(always)]
            fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)]
            fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn to_bool(self) -> Bool { Bool::new(self != 0) }
        }
    )* };
}
integers! { u8, to_i32; i8, to_i32; i16, to_i32; i32, to_i32; i64, to_i64; }

macro_rules! floats {
    ($($t:ident $to:ident $to_i32:ident $to_i64:ident;)*) => { $(
        impl Cast for $t {
            #[inline(always)]
            fn cast_from<S: Cast>(value: S) -> Self { value.$to() }
            #[inline(always)]
            fn to_i32(self) -> i32 { $to_i32(self) }
            #[inline(always)]
            fn to_i64(self) -> i64 { $to_i64(self) }
            #[inline(always)]
            fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn to_bool(self) -> Bool { Bool::new(self != 0.0) }
        }
        impl Cast for Complex<$t> {
            #[inline(always)]
            fn cast_from<S: Cast>(value: S) -> Self { Complex::new(value.$to(), value.imaginary() as $t) }
            #[inline(always)]
            fn to_i32(self) -> i32 { self.re.to_i32() }
            #[inline(always)]
            fn to_i64(self) -> i64 { self.re.to_i64() }
            #[inline(always)]
            fn to_f32(self) -> f32 { self.re as f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self.re as f64 }
            #[inline(always)]
            fn imaginary(self) -> f64 { self.im as f64 }
            #[inline(always)]
            fn to_bool(self) -> Bool { Bool::new((self.re != 0.0) | (self.im != 0.0)) }
        }
    )* };
}
floats! { f32 to_f32 f32_to_i32 f32_to_i64; f64 to_f64 f64_to_i32 f64_to_i64; }

impl Cast for Bool {
    #[inline(always)]
    fn cast_from<S: Cast>(value: S) -> Self {
        value.to_bool()
    }
    #[inline(always)]
    fn to_i32(self) -> i32 {
        self.get() as i32
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.get() as i64
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.get() as u8 as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.get() as u8 as f64
    }
    #[inline(always)]
    fn to_bool(self) -> Bool {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reals_out_of_range_give_the_smallest_integer() {
        assert_eq!(3e9f32.cast::<i32>(), i32::MIN);
        assert_eq!(f64::NAN.cast::<i64>(), i64::MIN);
        assert_eq!((-2_147_483_648.5f64).cast::<i32>(), i32::MIN);
        assert_eq!(2_147_483_647.5f64.cast::<i32>(), i32::MAX);
        assert_eq!(f32::INFINITY.cast::<u8>(), 0);
        assert_eq!((-1.9f32).cast::<u8>(), 255);
        assert_eq!(300.7f64.cast::<i8>(), 44);
        assert_eq!(0.5f32.cast::<Bool>(), Bool(1));
        assert_eq!(Complex::new(2.5f32, 7.0).cast::<i16>(), 2);
        assert_eq!(Complex::new(2.5f32, 7.0).cast::<Complex<f64>>(), Complex::new(2.5, 7.0));
    }
}
