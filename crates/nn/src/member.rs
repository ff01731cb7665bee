//! [`Member`] and [`Visitor`]: how a module shows what it holds.

use tensor_aten::TensorOptions;
use tensor_core::{DType, Device};

use crate::{Buffer, Module, Parameter, Training};

/// Is told of a module's members.
pub trait Visitor<'a> {
    /// A parameter.
    fn parameter(&mut self, name: &str, parameter: &'a Parameter) {
        let _ = (name, parameter);
    }

    /// A buffer.
    fn buffer(&mut self, name: &str, buffer: &'a Buffer) {
        let _ = (name, buffer);
    }

    /// A child.
    fn module(&mut self, name: &str, module: &'a dyn Module) {
        let _ = (name, module);
    }

    /// The mode of the module itself.
    fn training(&mut self, training: &'a Training) {
        let _ = training;
    }
}

/// A field of a module: tells a visitor what it is. Settings (numbers, texts and the like) tell nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a parameter, a buffer, a module nor a setting",
    note = "write `#[module(skip)]` above the field if it is no part of the module's state"
)]
pub trait Member {
    /// Shows itself under a name.
    fn accept<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>);
}

impl Member for Parameter {
    fn accept<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        visitor.parameter(name, self);
    }
}

impl Member for Buffer {
    fn accept<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        visitor.buffer(name, self);
    }
}

impl Member for Training {
    fn accept<'a>(&'a self, _: &str, visitor: &mut dyn Visitor<'a>) {
        visitor.training(self);
    }
}

impl<M: Module> Member for M {
    fn accept<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        visitor.module(name, self);
    }
}

/// An absent member has no name in the state.
impl<M: Member> Member for Option<M> {
    fn accept<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        if let Some(member) = self {
            member.accept(name, visitor);
        }
    }
}

macro_rules! settings {
    ($($ty:ty)*) => { $(
        impl Member for $ty {
            fn accept<'a>(&'a self, _: &str, _: &mut dyn Visitor<'a>) {}
        }
    )* };
}
settings!(bool i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64 char String &'static str DType Device TensorOptions);

impl<T: Copy, const N: usize> Member for [T; N] {
    fn accept<'a>(&'a self, _: &str, _: &mut dyn Visitor<'a>) {}
}
