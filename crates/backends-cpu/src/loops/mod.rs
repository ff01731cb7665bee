//! How kernels walk memory: [`map`] for elementwise operators over a [`TensorIter`](tensor_core::iter::TensorIter), and
//! [`views`] for all others. Arithmetic lives in the families' files.
//!
//! An elementwise kernel is one scalar body; [`elementwise!`](crate::elementwise) makes the kernel of it:
//!
//! ```
//! use tensor_backends_cpu::elementwise;
//! use tensor_core::Element;
//!
//! elementwise! {
//!     /// out = a + alpha * b
//!     pub fn add_f32<>(a: f32, b: f32; alpha: f32) -> f32 { a + alpha * b }
//! }
//! ```
#![allow(unsafe_code)]

pub mod beyond;
mod block;
mod drive;
mod fold;
mod matrix;
pub mod partition;
mod parts;
mod patch;
pub mod scratch;
mod split;
mod stream;
#[cfg(test)]
mod tests;
pub mod tiles;
mod transpose;
pub mod views;

pub use block::{Elementwise, Inputs, Outputs};
pub use drive::{is_lifted, map, map_from};
pub use fold::{fold, fold2};
pub use matrix::{MatMut, MatRef};

/// Writes elementwise kernels `pub fn name<I: Isa, T: ..>(iter: &TensorIter) -> Result<()>` from scalar bodies.
///
/// ```text
/// elementwise! {
///     /// Docs.
///     pub fn NAME<T: Bound>(a: T, b: Bool; alpha: T, beta: f64) -> T { body }
/// }
/// ```
///
/// The inputs come before the `;`, the numbers of the call (`iter.param(0)`, `param(1)`, ..) after it; both lists may be
/// empty. The body sees the level as `I`. It should be free of branches, so that it vectorises; where that leaves rare inputs
/// out, `else if condition { body for any input }` after it stands in for groups that hold one.
///
/// Where `T` is f16 the body runs on f32, and the result is rounded to f16. A body that rounds in between, with `T::down`, must see
/// f16: write its bound in parentheses, `T: (RealFloating)`.
#[macro_export]
macro_rules! elementwise {
    () => {};
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$($t:ident: $bound:tt),*>(
            $($a:ident: $at:ty),* $(; $($p:ident: $pt:ty),*)?
        ) -> $out:ty $body:block else if ($rare:expr) $slow:block
        $($rest:tt)*
    ) => {
        $crate::elementwise! {
            @kernel [$(#[$meta])* $vis] $name [$($t: $bound),*] [$($a: $at),*] [$($($p: $pt),*)?] $out, $body, [
                const HAS_RARE: bool = true;

                #[inline(always)]
                #[allow(unused_variables)]
                fn is_rare(self, ($($a,)*): ($($at,)*)) -> bool {
                    $rare
                }

                #[inline(always)]
                #[allow(unused_variables)]
                fn rare<I: $crate::isa::Isa>(self, ($($a,)*): ($($at,)*)) -> $out {
                    let ($($($p,)*)?) = self.0;
                    $slow
                }
            ]
        }
        $crate::elementwise! { $($rest)* }
    };
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$($t:ident: $bound:tt),*>(
            $($a:ident: $at:ty),* $(; $($p:ident: $pt:ty),*)?
        ) -> $out:ty $body:block
        $($rest:tt)*
    ) => {
        $crate::elementwise! {
            @kernel [$(#[$meta])* $vis] $name [$($t: $bound),*] [$($a: $at),*] [$($($p: $pt),*)?] $out, $body, []
        }
        $crate::elementwise! { $($rest)* }
    };
    (
        @kernel [$($front:tt)*] $name:ident [$($t:ident: $bound:tt),*] [$($a:ident: $at:ty),*] [$($p:ident: $pt:ty),*]
        $out:ty, $body:block, [$($rare:tt)*]
    ) => {
        $($front)* fn $name<I: $crate::isa::Isa, $($t: $bound),*>(
            iter: &::tensor_core::iter::TensorIter,
        ) -> ::tensor_core::Result<()> {
            #[derive(Clone, Copy)]
            struct Op<P>(P);
            impl<$($t: $bound),*> $crate::loops::Elementwise<($($at,)*), $out> for Op<($($pt,)*)> {
                #[inline(always)]
                #[allow(unused_variables)]
                fn apply<I: $crate::isa::Isa>(self, ($($a,)*): ($($at,)*)) -> $out {
                    let ($($p,)*) = self.0;
                    $body
                }
                $($rare)*
            }
            #[allow(unused_mut, unused_variables)]
            let mut next = 0..;
            let params = ($(<$pt as ::tensor_core::Element>::from_scalar(
                iter.param(::std::iter::Iterator::next(&mut next).unwrap_or(0)),
            ),)*);
            $crate::elementwise! {
                @run [$($t $bound)*] iter, params, ($($pt,)*), [$($t: $bound),*] ($($at,)*), $out
            }
        }
    };
    // Kernels of f16 run on f32.
    (@run [$t:ident Number] $($rest:tt)*) => { $crate::elementwise! { @lift $t $($rest)* } };
    (@run [$t:ident Ordered] $($rest:tt)*) => { $crate::elementwise! { @lift $t $($rest)* } };
    (@run [$t:ident Floating] $($rest:tt)*) => { $crate::elementwise! { @lift $t $($rest)* } };
    (@run [$t:ident RealFloating] $($rest:tt)*) => { $crate::elementwise! { @lift $t $($rest)* } };
    (@run [$($other:tt)*] $iter:ident, $params:ident, $pt:ty, [$($generics:tt)*] $at:ty, $out:ty) => {
        $crate::loops::map::<I, $at, $out, _>($iter, Op($params))
    };
    (@lift $t:ident $iter:ident, $params:ident, $pt:ty, [$($generics:tt)*] $at:ty, $out:ty) => {{
        use $crate::loops::{Inputs, Outputs};
        fn map<I: $crate::isa::Isa, $($generics)*, M: Inputs, N: Outputs>(
            iter: &::tensor_core::iter::TensorIter,
            params: $pt,
        ) -> ::tensor_core::Result<()> {
            $crate::loops::map_from::<I, M, N, $at, $out, _>(iter, Op(params))
        }
        if const { $crate::loops::is_lifted::<$t>() } {
            map::<I, <$t as $crate::simd::Value>::Lift, $at, $out>($iter, $params)
        } else {
            $crate::loops::map::<I, $at, $out, _>($iter, Op($params))
        }
    }};
}
