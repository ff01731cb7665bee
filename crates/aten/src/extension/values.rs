//! [`Argument`] and [`Returned`]: the Rust types that an operator of another crate may take and return, what schemas call
//! them, and how they come off and go onto the stack of a boxed call.

use std::ops::RangeFrom;

use tensor_core::{DType, Device, DispatchKeySet, Generator, Layout, MemoryFormat, Result, Scalar};

use crate::boxed::Args;
use crate::dispatch::Keys;
use crate::{IValue, Stack, Tensor};

/// The tensors in a value.
pub trait TensorsOf {
    /// Shows each tensor.
    fn visit(&self, _f: &mut dyn FnMut(&Tensor)) {}

    /// What the value brings to the key set of a call.
    fn keys(&self) -> DispatchKeySet {
        let mut keys = DispatchKeySet::EMPTY;
        self.visit(&mut |tensor| keys = keys | tensor.key_set());
        keys
    }
}

impl TensorsOf for Tensor {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        f(self);
    }
}
impl TensorsOf for &Tensor {
    #[inline]
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        f(self);
    }
}
impl<T: TensorsOf> TensorsOf for Option<T> {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        if let Some(value) = self {
            value.visit(f);
        }
    }
    fn keys(&self) -> DispatchKeySet {
        self.as_ref().map_or(DispatchKeySet::EMPTY, TensorsOf::keys)
    }
}
impl<T: TensorsOf> TensorsOf for &[T] {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(|value| value.visit(f));
    }
}
impl<T: TensorsOf> TensorsOf for Vec<T> {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(|value| value.visit(f));
    }
}
impl TensorsOf for Device {
    fn keys(&self) -> DispatchKeySet {
        Keys::keys(self)
    }
}

macro_rules! no_tensors {
    ($($ty:ty)*) => { $(impl TensorsOf for $ty {})* };
}
no_tensors!(() i64 f64 bool &str Scalar DType Layout MemoryFormat &Generator);

/// A type that an operator may take.
pub trait Argument<'a>: TensorsOf + Sized {
    /// What schemas call it.
    const SCHEMA: &'static [&'static str];
    /// What keeps it between the stack and the call.
    type Held: 'a;

    /// Argument `i` of a boxed call.
    ///
    /// # Errors
    /// When it is of another kind.
    fn hold(args: &'a Args, i: usize) -> Result<Self::Held>;

    /// The argument as the operator takes it.
    fn lend(held: &'a Self::Held) -> Self;
}

/// The next argument of a boxed call.
#[doc(hidden)]
pub fn hold<'a, T: Argument<'a>>(args: &'a Args, positions: &mut RangeFrom<usize>) -> Result<T::Held> {
    let i = positions.start;
    positions.start += 1;
    T::hold(args, i)
}

macro_rules! arguments {
    ($($ty:ty: $($schema:literal)|+, $held:ty = $get:ident($($more:expr)?), |$h:ident| $lend:expr;)*) => { $(
        impl<'a> Argument<'a> for $ty {
            const SCHEMA: &'static [&'static str] = &[$($schema),+];
            type Held = $held;
            fn hold(args: &'a Args, i: usize) -> Result<Self::Held> { args.$get(i $(, $more)?) }
            #[inline]
            fn lend($h: &'a Self::Held) -> Self { $lend }
        }
    )* };
}
arguments! {
    &'a Tensor: "Tensor", &'a Tensor = tensor(), |held| held;
    Option<&'a Tensor>: "Tensor?", Option<&'a Tensor> = opt_tensor(), |held| *held;
    &'a [&'a Tensor]: "Tensor[]", Vec<&'a Tensor> = tensor_list(), |held| held;
    &'a [Option<&'a Tensor>]: "Tensor?[]", Vec<Option<&'a Tensor>> = opt_tensor_list(), |held| held;
    i64: "int" | "SymInt", i64 = int(), |held| *held;
    Option<i64>: "int?" | "SymInt?", Option<i64> = opt_int(), |held| *held;
    f64: "float", f64 = float(), |held| *held;
    Option<f64>: "float?", Option<f64> = opt_float(), |held| *held;
    bool: "bool", bool = bool(), |held| *held;
    Option<bool>: "bool?", Option<bool> = opt_bool(), |held| *held;
    &'a str: "str", &'a str = str(), |held| held;
    Option<&'a str>: "str?", Option<&'a str> = opt_str(), |held| *held;
    &'a [i64]: "int[]" | "SymInt[]", Vec<i64> = int_list(1), |held| held;
    Option<&'a [i64]>: "int[]?" | "SymInt[]?", Option<Vec<i64>> = opt_int_list(1), |held| held.as_deref();
    &'a [f64]: "float[]", Vec<f64> = float_list(), |held| held;
    Option<&'a [f64]>: "float[]?", Option<Vec<f64>> = opt_float_list(), |held| held.as_deref();
    &'a [bool]: "bool[]", Vec<bool> = bool_list(), |held| held;
    Scalar: "Scalar", Scalar = scalar(), |held| *held;
    Option<Scalar>: "Scalar?", Option<Scalar> = opt_scalar(), |held| *held;
    &'a [Scalar]: "Scalar[]", Vec<Scalar> = scalar_list(), |held| held;
    DType: "ScalarType", DType = dtype(), |held| *held;
    Option<DType>: "ScalarType?", Option<DType> = opt_dtype(), |held| *held;
    Layout: "Layout", Layout = layout(), |held| *held;
    Option<Layout>: "Layout?", Option<Layout> = opt_layout(), |held| *held;
    Device: "Device", Device = device(), |held| *held;
    Option<Device>: "Device?", Option<Device> = opt_device(), |held| *held;
    MemoryFormat: "MemoryFormat", MemoryFormat = memory_format(), |held| *held;
    Option<MemoryFormat>: "MemoryFormat?", Option<MemoryFormat> = opt_memory_format(), |held| *held;
    Option<&'a Generator>: "Generator?", Option<&'a Generator> = opt_generator(), |held| *held;
}

/// A type that an operator may return.
pub trait Returned: TensorsOf {
    /// What schemas call it.
    const SCHEMA: &'static [&'static str];

    /// Puts the results on the stack, in schema order.
    fn into_stack(self, stack: &mut Stack);
}

macro_rules! returned {
    ($($ty:ty: $($schema:literal)|+;)*) => { $(
        impl Returned for $ty {
            const SCHEMA: &'static [&'static str] = &[$($schema),+];
            fn into_stack(self, stack: &mut Stack) { stack.push(IValue::from(self)); }
        }
    )* };
}
returned! {
    Tensor: "Tensor";
    Vec<Tensor>: "Tensor[]";
    i64: "int" | "SymInt";
    f64: "float";
    bool: "bool";
    Scalar: "Scalar";
    DType: "ScalarType";
}

impl Returned for () {
    const SCHEMA: &'static [&'static str] = &["()"];
    fn into_stack(self, _: &mut Stack) {}
}

macro_rules! returned_tuples {
    ($($schema:literal: $($name:ident: $tensor:ident),+;)*) => { $(
        impl TensorsOf for ($($tensor,)+) {
            fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
                let ($($name,)+) = self;
                $(f($name);)+
            }
        }

        impl Returned for ($($tensor,)+) {
            const SCHEMA: &'static [&'static str] = &[$schema];
            fn into_stack(self, stack: &mut Stack) {
                let ($($name,)+) = self;
                stack.extend([$(IValue::from($name)),+]);
            }
        }
    )* };
}
returned_tuples! {
    "(Tensor, Tensor)": a: Tensor, b: Tensor;
    "(Tensor, Tensor, Tensor)": a: Tensor, b: Tensor, c: Tensor;
    "(Tensor, Tensor, Tensor, Tensor)": a: Tensor, b: Tensor, c: Tensor, d: Tensor;
    "(Tensor, Tensor, Tensor, Tensor, Tensor)": a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor;
}
