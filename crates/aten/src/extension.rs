//! [`define_op!`](crate::define_op!): operators from other crates, with the schemas, dispatch, boxed calls and checks of
//! this library's own. What the macro expands to leans on this module; reading schemas is in [`schema`], passing values to
//! and from the stack in [`values`].

pub mod schema;
pub mod values;

use tensor_core::{DispatchKey, DispatchKeySet, Result, bail, tls};

use crate::Tensor;

pub use values::{Argument, Returned, TensorsOf};

/// What autograd registers for operators that come without a derivative: gives the results a node that is an error when a
/// gradient reaches it. Arguments: the operator's name, its tensors, its results.
pub struct NotDifferentiable(pub fn(&'static str, &[&Tensor], &[Tensor]) -> Result<()>);

inventory::collect!(NotDifferentiable);

/// The keys that a call dispatches on.
#[doc(hidden)]
#[inline]
pub fn keys(args: &[&dyn TensorsOf]) -> DispatchKeySet {
    tls::effective(args.iter().fold(DispatchKeySet::EMPTY, |all, arg| all | arg.keys()))
}

/// Counts a write to the arguments that the schema marks with `!`, where a kernel for this key is the one that writes.
#[doc(hidden)]
pub fn bump_mutated(key: DispatchKey, mutates: &[bool], args: &[&dyn TensorsOf]) {
    if matches!(key, DispatchKey::Autograd | DispatchKey::CompositeImplicitAutograd) || key.is_autograd() {
        return;
    }
    for (arg, _) in args.iter().zip(mutates).filter(|(_, mutates)| **mutates) {
        arg.visit(&mut |tensor| tensor.as_impl().bump_version());
    }
}

/// Whether the graph would have to record this call.
#[doc(hidden)]
pub fn needs_grad(args: &[&dyn TensorsOf]) -> bool {
    let mut needed = false;
    if tls::grad_enabled() {
        for arg in args {
            arg.visit(&mut |tensor| needed |= tensor.requires_grad());
        }
    }
    needed
}

/// Runs the kernel below autograd of an operator that has no derivative. A gradient that reaches the results is an error.
#[doc(hidden)]
pub fn without_derivative<R: Returned>(
    name: &'static str,
    mutates: &[bool],
    args: &[&dyn TensorsOf],
    kernel: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let needed = needs_grad(args);
    if needed && mutates.contains(&true) {
        bail!(
            NotImplemented,
            "derivative for {name} is not implemented, so it cannot write to a tensor that requires grad"
        );
    }
    let result = below_autograd(kernel)?;
    if !needed {
        return Ok(result);
    }
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for arg in args {
        arg.visit(&mut |tensor| inputs.push(tensor.clone()));
    }
    result.visit(&mut |tensor| outputs.push(tensor.clone()));
    if outputs.iter().any(|output| inputs.iter().any(|input: &Tensor| input.is_same(output))) {
        bail!(NotImplemented, "derivative for {name} is not implemented, so it cannot return one of its arguments");
    }
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    match inventory::iter::<NotDifferentiable>.into_iter().next() {
        Some(hook) => (hook.0)(name, &inputs, &outputs)?,
        None => bail!(NotImplemented, "derivative for {name} is not implemented"),
    }
    Ok(result)
}

/// Runs a function whose operators are not recorded: how the autograd kernel of an operator calls the operator itself.
///
/// # Errors
/// Those of the function.
pub fn below_autograd<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    let _below = tls::below_autograd();
    f()
}

/// Defines an operator outside of this library: a `static` for the dispatcher, a function that calls it, and its boxed
/// form for calls by name.
///
/// The schema is checked against the Rust signature when the crate is built, and each kernel's type too. A kernel takes the
/// function's arguments and returns its `Result`; its key is a variant of
/// [`DispatchKey`](tensor_core::DispatchKey): `Cpu`, `Cuda`, `Meta`, .., `CompositeExplicitAutograd` for one body for
/// every backend, `CompositeImplicitAutograd` for one that is differentiable through the operators that it calls, `Autograd`
/// for one that records a node and calls the operator again under
/// [`below_autograd`](crate::extension::below_autograd).
///
/// With neither of the last two the operator has no derivative: a gradient that reaches its results is an error, never
/// lost. Arguments that the schema marks `(a!)` count as written when a kernel returns.
///
/// ```
/// use tensor_aten::{Tensor, define_op};
/// use tensor_core::Result;
///
/// fn twice_cpu(x: &Tensor) -> Result<Tensor> {
///     Tensor::from_vec(x.to_vec::<f32>()?.iter().map(|v| 2.0 * v).collect(), x.sizes())
/// }
///
/// define_op! {
///     /// Twice the elements of a float32 tensor.
///     pub fn twice(x: &Tensor) -> Tensor;
///     static TWICE;
///     schema: "my::twice(Tensor x) -> Tensor";
///     kernels: { Cpu: twice_cpu };
/// }
///
/// # fn main() -> Result<()> {
/// let x = Tensor::from_vec(vec![1.0f32, 2.0], &[2])?;
/// assert_eq!(twice(&x)?.to_vec::<f32>()?, [2.0, 4.0]);
/// let boxed = tensor_aten::dispatch::invoke("my::twice", [(&x).into()])?;
/// assert_eq!(boxed.len(), 1);
/// # Ok(())
/// # }
/// ```
///
/// A schema that is not the signature does not build:
/// ```compile_fail
/// # use tensor_aten::{Tensor, define_op};
/// # use tensor_core::Result;
/// # fn kernel(x: &Tensor, by: i64) -> Result<Tensor> { Ok(x.clone()) }
/// define_op! {
///     /// `by` is `float` in the schema and `i64` here.
///     pub fn scale(x: &Tensor, by: i64) -> Tensor;
///     static SCALE;
///     schema: "my::scale(Tensor x, float by) -> Tensor";
///     kernels: { Cpu: kernel };
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! define_op {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $args:tt -> $ret:ty;
        static $op:ident;
        schema: $schema:literal;
        kernels: { $($key:ident: $kernel:expr),+ $(,)? } $(;)?
    ) => {
        $crate::define_op! {
            @operator [$(#[$meta])*] [$vis] $name $args $args [$ret] $op $schema [$($key: $kernel),+]
        }
    };
    // The kernel of one key, as a static of the key's name.
    (@kernel $key:ident $kernel:expr, ($($arg:ident: $ty:ty),* $(,)?)) => {
        #[allow(non_upper_case_globals)]
        static $key: Signature = |_keys, $($arg),*| {
            let result = $kernel($($arg),*)?;
            $crate::extension::bump_mutated(DispatchKey::$key, &MUTATES, &[$(&$arg),*]);
            Ok(result)
        };
    };
    (
        @operator [$(#[$meta:meta])*] [$vis:vis] $name:ident ($($arg:ident: $ty:ty),* $(,)?) $args:tt [$ret:ty]
        $op:ident $schema:literal [$($key:ident: $kernel:expr),+]
    ) => {
        $(#[$meta])*
        ///
        /// # Errors
        /// Those of the kernel that the arguments choose; when there is none.
        $vis fn $name($($arg: $ty),*) -> $crate::core::Result<$ret> {
            let keys = $crate::extension::keys(&[$(&$arg),*]);
            $op.kernel(keys)?(keys, $($arg),*)
        }

        #[doc = concat!("`", $schema, "`")]
        $vis static $op: $crate::dispatch::Op<
            fn($crate::core::DispatchKeySet, $($ty),*) -> $crate::core::Result<$ret>,
        > = $crate::dispatch::Op::new($crate::dispatch::OpInfo {
            name: $crate::extension::schema::name($schema),
            schema: $crate::extension::schema::without_namespace($schema),
            boxed: |stack| {
                const COUNT: usize = <[&str]>::len(&[$(stringify!($arg)),*]);
                $crate::boxed::Args::call(stack, COUNT, $crate::extension::schema::name($schema), |_args, results| {
                    let mut _positions = 0..;
                    $(let $arg = $crate::extension::values::hold::<$ty>(_args, &mut _positions)?;)*
                    let result = $name($(<$ty as $crate::extension::Argument<'_>>::lend(&$arg)),*)?;
                    $crate::extension::Returned::into_stack(result, results);
                    Ok(())
                })
            },
            tags: &[],
        });

        const _: () = {
            use $crate::core::DispatchKey;
            use $crate::dispatch::Registration;
            type Signature = fn($crate::core::DispatchKeySet, $($ty),*) -> $crate::core::Result<$ret>;

            const _: () = $crate::extension::schema::check(
                $schema,
                &[$(<$ty as $crate::extension::Argument<'_>>::SCHEMA),*],
                <$ret as $crate::extension::Returned>::SCHEMA,
            );
            const COUNT: usize = <[&str]>::len(&[$(stringify!($arg)),*]);
            const MUTATES: [bool; COUNT] = $crate::extension::schema::mutates($schema);
            const SOURCE: &str = concat!(file!(), ":", line!());

            $($crate::define_op! { @kernel $key $kernel, $args })+
            static WITHOUT_DERIVATIVE: Signature = |_keys, $($arg),*| {
                $crate::extension::without_derivative(
                    $crate::extension::schema::name($schema),
                    &MUTATES,
                    &[$(&$arg),*],
                    || $name($($arg),*),
                )
            };

            const DIFFERENTIABLE: bool = $crate::extension::schema::differentiable(&[$(DispatchKey::$key),+]);
            static KERNELS: &[Registration] = if DIFFERENTIABLE {
                &[$(Registration::new(&$op, DispatchKey::$key, &$key, SOURCE)),+]
            } else {
                &[
                    $(Registration::new(&$op, DispatchKey::$key, &$key, SOURCE),)+
                    Registration::new(&$op, DispatchKey::Autograd, &WITHOUT_DERIVATIVE, SOURCE),
                ]
            };
            $crate::inventory::submit! {
                $crate::dispatch::Registrations { krate: env!("CARGO_PKG_NAME"), ops: &[&$op], kernels: KERNELS }
            }
        };
    };
}
