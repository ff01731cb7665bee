//! Arrays made element by element, where `array::from_fn` and `array::map` would be calls: those are not `#[inline]`, and code
//! is not optimised across the units of a crate.

/// `[f(0), f(1), ..]`
#[inline(always)]
#[allow(clippy::needless_range_loop)]
pub fn each<T: Copy, const N: usize>(f: impl Fn(usize) -> T) -> [T; N] {
    let mut all = [f(0); N];
    for i in 1..N {
        all[i] = f(i);
    }
    all
}

/// `[f(x[0]), f(x[1]), ..]`
#[inline(always)]
pub fn map<T: Copy, O: Copy, const N: usize>(x: [T; N], f: impl Fn(T) -> O) -> [O; N] {
    each(
        #[inline(always)]
        |i| f(x[i]),
    )
}
