//! Dropping graphs without recursion.
//!
//! A node owns edges to the next nodes, saved tensors and hooks; a tensor owns its `grad_fn`, its gradient, its base and its
//! hooks. Dropping any of these in place would recurse once a node, and a graph of a million nodes would overflow the stack.
//! So whatever may lead to another node is handed to a list of the thread; the outermost drop empties it.

use std::cell::{Cell, RefCell};

use crate::meta::Owned;
use crate::node::NodeRef;

/// What must not be dropped in place.
pub(crate) enum Dead {
    /// an edge's end, or a tensor's `grad_fn`
    Node(#[allow(dead_code, reason = "held to be dropped")] NodeRef),
    /// a tensor's gradient, base and hooks
    Owned(#[allow(dead_code, reason = "held to be dropped")] Owned),
}

thread_local! {
    static DRAINING: Cell<bool> = const { Cell::new(false) };
    static LIST: RefCell<Vec<Dead>> = const { RefCell::new(Vec::new()) };
}

/// Ends the draining even when the drop of a user's value panics; what is left waits for the next one.
struct Drain;

impl Drop for Drain {
    #[inline]
    fn drop(&mut self) {
        // The flag outlives no thread: a failed access means that the thread is ending, and the flag with it.
        let _ = DRAINING.try_with(|flag| flag.set(false));
    }
}

/// Drops a value now if no drop is under way on this thread, else after that one.
#[inline]
pub(crate) fn bury(dead: Dead) {
    // While the thread ends the list may be gone: then the value is dropped in place.
    match DRAINING.try_with(|flag| flag.replace(true)) {
        Ok(false) => drain(dead),
        Ok(true) => later(dead),
        Err(_) => drop(dead),
    }
}

fn later(dead: Dead) {
    let mut dead = Some(dead);
    let _ = LIST.try_with(|list| {
        if let Ok(mut list) = list.try_borrow_mut() {
            list.extend(dead.take());
        }
    });
}

fn drain(dead: Dead) {
    let _guard = Drain;
    drop(dead);
    while let Ok(Some(next)) = LIST.try_with(|list| list.try_borrow_mut().ok().and_then(|mut list| list.pop())) {
        drop(next);
    }
    // A burst of a large graph should not hold its list for ever.
    let _ = LIST.try_with(|list| {
        if let Ok(mut list) = list.try_borrow_mut()
            && list.capacity() > 1 << 16
        {
            *list = Vec::new();
        }
    });
}
