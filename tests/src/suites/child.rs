//! Tests that run alone: in a process of their own, under a watchdog, with environment variables of their own.
//!
//! What waits for ever, aborts, overflows a stack or changes the whole process (threads, instruction-set level, allocator
//! statistics) harms no other test, and its failure is a message.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Says to a process which test it runs.
const NAME: &str = "TENSOR_TEST_CHILD";

/// Runs `body` in a child of this process: this test again, found by its `path` ("module::function").
///
/// Fails with the child's output if it fails, and kills it after `seconds`. Optimised builds are fast; those with debug
/// assertions get four times as long.
pub fn run_alone(path: &str, seconds: u64, environment: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var(NAME).as_deref() == Ok(path) {
        return body();
    }
    let limit = Duration::from_secs(if cfg!(debug_assertions) { 4 * seconds } else { seconds });
    let output = run(path, limit, environment);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{path} with {environment:?}: {}\n{text}", output.status);
    // A path that names no test would pass with none run.
    assert!(text.contains("test result: ok. 1 passed"), "{path} names no test:\n{text}");
}

fn run(path: &str, limit: Duration, environment: &[(&str, &str)]) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([path, "--exact", "--nocapture", "--include-ignored"])
        .env(NAME, path)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > limit {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            panic!("{path} did not end within {limit:?}: a deadlock, or a very slow machine\n{text}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// [`run_alone`] under the name of the test that calls it: `alone!(name, 10 => { .. })`.
macro_rules! alone {
    ($name:ident, $seconds:expr => $body:expr) => {
        $crate::child::alone!($name, $seconds, &[] => $body)
    };
    ($name:ident, $seconds:expr, $environment:expr => $body:expr) => {{
        let path = concat!(module_path!(), "::", stringify!($name));
        let path = path.split_once("::").map_or(path, |(_, path)| path);
        $crate::child::run_alone(path, $seconds, $environment, || $body)
    }};
}
pub(crate) use alone;

/// Runs each function on a thread of its own, all started at once, and fails with the first one's panic.
pub fn at_once(bodies: Vec<Box<dyn FnOnce() + Send + '_>>) {
    let barrier = std::sync::Barrier::new(bodies.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = bodies
            .into_iter()
            .map(|body| {
                scope.spawn(|| {
                    barrier.wait();
                    body();
                })
            })
            .collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
