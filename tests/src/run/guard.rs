//! Turns a panic inside a check into a failure of that check, so that the run goes on.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::Outcome;
use crate::corpus::Result;

thread_local! {
    /// While a check runs: where it panicked, if it did.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static CHECKING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Keeps the text of panics inside checks instead of printing it. Other panics are printed as before.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if CHECKING.get() {
                PANIC.with_borrow_mut(|slot| *slot = Some(info.to_string()));
            } else {
                previous(info);
            }
        }));
    });
}

/// Runs a check; a panic is an error of it.
pub(super) fn attempt<T>(check: impl FnOnce() -> Result<T>) -> Result<T> {
    CHECKING.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(check));
    CHECKING.set(false);
    result.unwrap_or_else(|_| {
        let text = PANIC.with_borrow_mut(Option::take).unwrap_or_default();
        Err(format!("panic: {}", text.replace('\n', " ")))
    })
}

/// How a check went.
pub(super) fn outcome(check: impl FnOnce() -> Result<()>) -> Outcome {
    match attempt(check) {
        Ok(()) => Outcome::Passed,
        Err(reason) => Outcome::Failed(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_failures() {
        install();
        let list: [i32; 0] = [];
        let outcome = outcome(|| if list[std::hint::black_box(7)] == 0 { Ok(()) } else { Err("no".to_owned()) });
        assert!(matches!(outcome, Outcome::Failed(text) if text.contains("index out of bounds")));
        assert_eq!(super::outcome(|| Ok(())), Outcome::Passed);
    }
}
