//! Sums that wait: while a node runs, what has arrived so far where its first edge leads is lent to it.
//!
//! A formula whose gradient touches few elements (the rows of a table that were read) adds these to the sum, and returns that
//! in place of a gradient of the whole size. The others never ask, and the sum is put back.

use std::cell::Cell;

use tensor_aten::Tensor;

thread_local! {
    static LENT: Cell<Option<Tensor>> = const { Cell::new(None) };
}

/// Runs `f` with a sum lent to it; gives back the sum if it was not taken.
#[inline]
pub(super) fn lend<T>(sum: Option<Tensor>, f: impl FnOnce() -> T) -> (T, Option<Tensor>) {
    /// Takes back what a panic in a node would leave to the thread's next one.
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            LENT.take();
        }
    }
    if sum.is_none() {
        return (f(), None);
    }
    let _back = Back;
    LENT.set(sum);
    (f(), LENT.take())
}

/// Runs `f`, a backward inside of a node, without what was lent to that node.
#[inline]
pub(super) fn aside<T>(f: impl FnOnce() -> T) -> T {
    let lent = LENT.take();
    let result = f();
    if lent.is_some() {
        LENT.set(lent);
    }
    result
}

/// The sum that waits at the end of the running node's first edge, if there is one that fits and nobody else holds it. What
/// takes it adds its gradient to it in place, and returns it as that edge's gradient. Never while a graph is recorded.
pub(crate) fn take(fits: impl FnOnce(&Tensor) -> bool) -> Option<Tensor> {
    let sum = LENT.take()?;
    if fits(&sum) {
        return Some(sum);
    }
    LENT.set(Some(sum));
    None
}
