//! Dropping graphs without recursion.
//!
//! A node owns edges to the next nodes, saved tensors and hooks; a tensor owns its `grad_fn`, its gradient, its base and its
//! hooks. Dropping any of these in place would recurse once a node, and a graph of a million nodes would overflow the stack.
//! So whatever may lead to another node is handed to a list of the thread; the outermost drop empties it.

use std::cell::{Cell, RefCell};

use crate::meta::Owned;
use crate::node::NodeRef;

thread_local! {
    static DRAINING: Cell<bool> = const { Cell::new(false) };
    static LISTS: RefCell<Lists> = const { RefCell::new(Lists { nodes: Vec::new(), owned: Vec::new() }) };
}

/// What must not be dropped in place: the ends of edges and tensors' `grad_fn`; tensors' gradients, bases and hooks. Two
/// lists, as a node is a pointer and the other is not.
struct Lists {
    nodes: Vec<NodeRef>,
    owned: Vec<Owned>,
}

impl Lists {
    /// Uses the lists, unless the thread is ending and they are gone, or they are in use.
    #[inline]
    fn with<R>(f: impl FnOnce(&mut Self) -> R) -> Option<R> {
        LISTS.try_with(|lists| lists.try_borrow_mut().ok().map(|mut lists| f(&mut lists))).ok().flatten()
    }

    /// Whether nothing that is owned is left to drop; then the lists do not stay as large as a burst made them.
    #[inline]
    fn done(&mut self) -> bool {
        let done = self.owned.is_empty();
        if done && self.nodes.capacity().max(self.owned.capacity()) > 1 << 16 {
            *self = Self { nodes: Vec::new(), owned: Vec::new() };
        }
        done
    }
}

/// A drop that is under way. It ends even when the drop of a user's value panics; what is left waits for the next one.
struct Drain;

impl Drain {
    /// Begins a drop if none is under way on this thread.
    #[inline]
    fn begin() -> Option<Self> {
        // While the thread ends the flag is still there, but the lists may not be.
        let busy = DRAINING.try_with(|flag| flag.replace(true)).unwrap_or(true);
        // A guard that was made to be thrown away would end the other drop.
        if busy { None } else { Some(Self) }
    }

    /// Drops what was laid aside, and what that lays aside.
    #[inline]
    fn empty_lists(&self) {
        loop {
            while let Some(node) = Lists::with(|lists| lists.nodes.pop()).flatten() {
                drop(node);
            }
            if Lists::with(Lists::done).unwrap_or(true) {
                return;
            }
            // What is owned may lead to nodes again. It is not taken where there is none: that would move a list for nothing.
            drop(Lists::with(|lists| lists.owned.pop()));
        }
    }
}

impl Drop for Drain {
    #[inline]
    fn drop(&mut self) {
        // The flag outlives no thread: a failed access means that the thread is ending, and the flag with it.
        let _ = DRAINING.try_with(|flag| flag.set(false));
    }
}

/// Drops a node now if no drop is under way on this thread, else after that one.
#[inline]
pub(crate) fn bury(node: NodeRef) {
    if let Some(drain) = Drain::begin() {
        drop(node);
        drain.empty_lists();
    } else {
        let mut node = Some(node);
        Lists::with(|lists| lists.nodes.extend(node.take()));
    }
}

/// [`bury`] of what a tensor owns: where it lies, if no drop is under way.
#[inline]
pub(crate) fn bury_owned(owned: &mut Owned) {
    if let Some(drain) = Drain::begin() {
        owned.clear();
        drain.empty_lists();
    } else {
        let mut owned = Some(std::mem::take(owned));
        Lists::with(|lists| lists.owned.extend(owned.take()));
    }
}
