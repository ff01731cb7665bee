//! Modes of the thread, as closures and guards, and anomaly detection.

use std::sync::atomic::{AtomicU8, Ordering};

use tensor_core::tls::{self, ModeGuard};

/// Runs a closure without recording a graph (`torch.no_grad`).
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    let _guard = tls::grad_mode(false);
    f()
}

/// Runs a closure that records a graph, inside of [`no_grad`] too (`torch.enable_grad`).
pub fn enable_grad<R>(f: impl FnOnce() -> R) -> R {
    let _guard = tls::grad_mode(true);
    f()
}

/// Runs a closure without graphs, version counters and view tracking (`torch.inference_mode`).
pub fn inference_mode<R>(f: impl FnOnce() -> R) -> R {
    let _guard = tls::inference_mode(true);
    f()
}

/// Turns recording on or off until the guard is dropped (`torch.set_grad_enabled`).
pub fn set_grad_enabled(enabled: bool) -> ModeGuard {
    tls::grad_mode(enabled)
}

const ENABLED: u8 = 1;
const CHECK_NAN: u8 = 2;
static ANOMALY: AtomicU8 = AtomicU8::new(0);

/// Restores anomaly detection as it was when dropped.
#[must_use = "the mode ends when its guard is dropped"]
pub struct AnomalyGuard(u8);

/// Until the guard is dropped, backward passes of all threads fail at the node that returns a NaN
/// (`torch.autograd.detect_anomaly`).
pub fn detect_anomaly(check_nan: bool) -> AnomalyGuard {
    let mode = ENABLED | if check_nan { CHECK_NAN } else { 0 };
    AnomalyGuard(ANOMALY.swap(mode, Ordering::Relaxed))
}

impl Drop for AnomalyGuard {
    fn drop(&mut self) {
        ANOMALY.store(self.0, Ordering::Relaxed);
    }
}

/// True while backward passes look for NaNs.
#[inline]
pub(crate) fn checks_nan() -> bool {
    ANOMALY.load(Ordering::Relaxed) & CHECK_NAN != 0
}
