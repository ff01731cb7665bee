//! The thread's modes: included and excluded dispatch keys, grad mode, inference mode. Changed by guards only.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::DispatchKeySet;

#[derive(Clone, Copy)]
struct Modes {
    included: DispatchKeySet,
    excluded: DispatchKeySet,
    grad: bool,
    inference: bool,
}

thread_local! {
    static MODES: Cell<Modes> = const {
        Cell::new(Modes {
            included: DispatchKeySet::EMPTY,
            excluded: DispatchKeySet::EMPTY,
            grad: true,
            inference: false,
        })
    };
}

/// The keys that a call dispatches on: those of its tensors, with the thread's inclusions and exclusions.
#[inline]
pub fn effective(keys: DispatchKeySet) -> DispatchKeySet {
    let modes = MODES.get();
    (keys | modes.included) - modes.excluded
}

/// True while operators record the autograd graph (`torch.is_grad_enabled`).
#[inline]
pub fn grad_enabled() -> bool {
    MODES.get().grad
}

/// True inside `inference_mode`.
#[inline]
pub fn inference_enabled() -> bool {
    MODES.get().inference
}

/// A copy of a thread's modes, to carry them to another thread.
#[derive(Clone, Copy)]
pub struct Snapshot(Modes);

/// The current thread's modes.
pub fn snapshot() -> Snapshot {
    Snapshot(MODES.get())
}

/// Restores the thread's modes when dropped. Guards are dropped in the reverse order of their making.
#[must_use = "the mode ends when its guard is dropped"]
pub struct ModeGuard {
    previous: Modes,
    not_send: PhantomData<*const ()>,
}

impl Drop for ModeGuard {
    #[inline]
    fn drop(&mut self) {
        MODES.set(self.previous);
    }
}

#[inline]
fn change(f: impl FnOnce(&mut Modes)) -> ModeGuard {
    let previous = MODES.get();
    let mut modes = previous;
    f(&mut modes);
    MODES.set(modes);
    ModeGuard { previous, not_send: PhantomData }
}

/// Excludes keys from dispatch until the guard is dropped.
#[inline]
pub fn exclude(keys: DispatchKeySet) -> ModeGuard {
    change(|modes| modes.excluded = modes.excluded | keys)
}

/// Adds keys to every dispatch until the guard is dropped.
pub fn include(keys: DispatchKeySet) -> ModeGuard {
    change(|modes| modes.included = modes.included | keys)
}

/// Calls made under this guard run below autograd (`AutoDispatchBelowAutograd`).
#[inline]
pub fn below_autograd() -> ModeGuard {
    exclude(DispatchKeySet::AUTOGRAD)
}

/// Sets grad mode until the guard is dropped.
#[inline]
pub fn grad_mode(enabled: bool) -> ModeGuard {
    change(|modes| modes.grad = enabled)
}

/// Sets inference mode until the guard is dropped: no graph, no version counters, no view tracking.
pub fn inference_mode(enabled: bool) -> ModeGuard {
    let below = DispatchKeySet::AUTOGRAD | DispatchKeySet::AD_INPLACE_OR_VIEW;
    change(|modes| {
        modes.inference = enabled;
        modes.grad = !enabled;
        modes.excluded = if enabled { modes.excluded | below } else { modes.excluded - below };
    })
}

/// Takes over the modes of another thread until the guard is dropped.
pub fn restore(snapshot: Snapshot) -> ModeGuard {
    change(|modes| *modes = snapshot.0)
}
