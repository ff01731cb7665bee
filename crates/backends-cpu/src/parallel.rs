//! The fork-join pool of the CPU kernels: [`parallel_for`] and [`parallel_reduce`] over fixed chunks.
//!
//! The caller works too, and a waiting thread never runs foreign tasks, so a kernel may hold its storage locks in here.
//! Workers spin for a short time after a region, so that a run of operators pays no wake-up, and park after that. If the
//! pool is busy, or the caller is inside a region already, the region runs serially on the caller. Chunks depend on `n`
//! and `grain` alone, so results do not depend on the number of threads.
//!
//! Each thread works through neighbouring chunks, the same ones in every region of that size, and helps others when it has
//! none left. So what it fetches ahead is its own, and what it wrote last time lies in its caches.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Elements that one chunk of an elementwise kernel should have at least.
pub const GRAIN: usize = 32768;

/// How long a worker looks for a new region before it parks: longer than what a training step computes between regions, where
/// 50 us made a step of a small network wait for a wake-up once or twice, a third of its time on a busy machine. A core that is
/// shared loses no more than that a pause: two programs at once take as long as with 50 us.
const SPIN: Duration = Duration::from_micros(200);

/// The most threads that [`set_num_threads`] takes.
const MAX_THREADS: usize = 1024;

/// The most parts that the chunks of a region are dealt out in; further threads share them.
const PARTS: usize = 64;

/// Regions of more chunks run serially: a part counts them in half a word.
const MOST_CHUNKS: usize = 1 << 30;

type Body<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// One region: `body(begin, end)` for each chunk of `grain` out of `n`.
#[derive(Clone, Copy)]
struct Job {
    /// The caller's closure with its lifetime erased; valid while the region is open or a worker is inside.
    body: *const (dyn Fn(usize, usize) + Sync + 'static),
    n: usize,
    grain: usize,
    parts: usize,
}

impl Job {
    /// The first chunk of a part, or one past the last one of the part before.
    fn first(&self, part: usize) -> usize {
        self.n.div_ceil(self.grain) * part / self.parts
    }
}

/// How many neighbouring chunks of a region are taken: in front (the low half) by the thread whose part it is, at the back
/// (the high half) by others. Sums beyond the part's length mean that none is left.
#[repr(align(64))]
struct Part(AtomicU64);

impl Part {
    /// Takes one of `len` chunks, in front or at the back.
    fn take(&self, len: usize, in_front: bool) -> Option<usize> {
        let taken = self.0.fetch_add(if in_front { 1 } else { 1 << 32 }, Ordering::Relaxed);
        let (front, back) = (taken as u32 as usize, (taken >> 32) as usize);
        (front + back < len).then_some(if in_front { front } else { len.wrapping_sub(1 + back) })
    }
}

struct Pool {
    /// Held by the one caller whose region runs.
    busy: AtomicBool,
    /// Bit 0: the region is open. The rest: twice the number of workers inside.
    gate: AtomicUsize,
    /// Counts regions; workers watch it.
    epoch: AtomicUsize,
    /// Written by the holder of `busy` while the gate is 0, read by workers inside.
    job: UnsafeCell<Option<Job>>,
    /// What is taken of the parts of the region.
    parts: [Part; PARTS],
    /// Workers with an index below it may enter.
    limit: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    workers: Mutex<Vec<Arc<Worker>>>,
    /// Threads that a region uses, the caller included; 0 before the first look at the environment.
    threads: AtomicUsize,
}

struct Worker {
    index: usize,
    parked: AtomicBool,
    thread: OnceLock<Thread>,
}

// SAFETY: `job` is written only by the holder of `busy` while no worker is inside (the gate is 0) and read only by workers
// between entering and leaving the gate; everything else is atomic or locked.
unsafe impl Sync for Pool {}

static POOL: Pool = Pool {
    busy: AtomicBool::new(false),
    gate: AtomicUsize::new(0),
    epoch: AtomicUsize::new(0),
    job: UnsafeCell::new(None),
    parts: [const { Part(AtomicU64::new(0)) }; PARTS],
    limit: AtomicUsize::new(0),
    panic: Mutex::new(None),
    workers: Mutex::new(Vec::new()),
    threads: AtomicUsize::new(0),
};

thread_local! {
    /// True on workers, and on a caller while its region runs.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// How many threads a parallel region uses, the caller included (`torch.get_num_threads`).
///
/// The default is `OMP_NUM_THREADS`, else the number of cores that this process may use.
#[inline]
pub fn get_num_threads() -> usize {
    match POOL.threads.load(Ordering::Relaxed) {
        0 => default_threads(),
        n => n,
    }
}

#[cold]
fn default_threads() -> usize {
    let asked = std::env::var("OMP_NUM_THREADS").ok().and_then(|v| v.trim().parse::<usize>().ok()).filter(|&n| n > 0);
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let n = asked.unwrap_or_else(cores).min(MAX_THREADS);
    // A concurrent `set_num_threads` wins.
    match POOL.threads.compare_exchange(0, n, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => n,
        Err(set) => set,
    }
}

/// Sets how many threads a parallel region uses, the caller included (`torch.set_num_threads`). Zero counts as one.
pub fn set_num_threads(n: usize) {
    POOL.threads.store(n.clamp(1, MAX_THREADS), Ordering::Relaxed);
}

/// True inside a parallel region, where a further region would run serially.
pub fn in_parallel_region() -> bool {
    INSIDE.get()
}

/// Calls `body(begin, end)` for the chunks `[0, grain)`, `[grain, 2 grain)`, .. of `0..n`, on several threads.
///
/// A panic of a chunk stops the region and is resumed on the caller.
#[inline]
pub fn parallel_for(n: usize, grain: usize, body: impl Fn(usize, usize) + Sync) {
    let grain = grain.max(1);
    if n <= grain {
        if n > 0 {
            body(0, n);
        }
        return;
    }
    for_chunks(n, grain, &body);
}

/// Maps each chunk of `0..n` to a value and combines the values pairwise, in an order that depends on `n` and `grain`
/// alone. Gives `identity` for `n == 0`.
#[inline]
pub fn parallel_reduce<T: Send + Clone>(
    n: usize,
    grain: usize,
    identity: T,
    map: impl Fn(usize, usize) -> T + Sync,
    combine: impl Fn(T, T) -> T,
) -> T {
    let grain = grain.max(1);
    if n == 0 {
        return identity;
    }
    if n <= grain {
        return map(0, n);
    }
    let slots: Vec<Mutex<Option<T>>> = (0..n.div_ceil(grain)).map(|_| Mutex::new(None)).collect();
    for_chunks(n, grain, &|begin, end| *slots[begin / grain].lock() = Some(map(begin, end)));
    let mut values: Vec<T> = slots.into_iter().filter_map(Mutex::into_inner).collect();
    while values.len() > 1 {
        let mut pairs = values.into_iter();
        let mut next = Vec::with_capacity(pairs.len().div_ceil(2));
        while let Some(a) = pairs.next() {
            next.push(match pairs.next() {
                Some(b) => combine(a, b),
                None => a,
            });
        }
        values = next;
    }
    values.pop().unwrap_or(identity)
}

fn serially(n: usize, grain: usize, body: Body<'_>) {
    let mut begin = 0;
    while begin < n {
        let end = n.min(begin + grain);
        body(begin, end);
        begin = end;
    }
}

fn for_chunks(n: usize, grain: usize, body: Body<'_>) {
    let chunks = n.div_ceil(grain);
    let threads = get_num_threads().min(chunks);
    if threads <= 1
        || chunks > MOST_CHUNKS
        || INSIDE.get()
        || POOL.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        return serially(n, grain, body);
    }
    INSIDE.set(true);
    let spawned = POOL.spawn(threads - 1);
    POOL.limit.store(spawned, Ordering::Relaxed);
    let parts = threads.min(PARTS);
    for part in &POOL.parts[..parts] {
        part.0.store(0, Ordering::Relaxed);
    }
    // SAFETY: only the lifetime changes. Workers use the closure between entering and leaving the gate, and this
    // function returns (or unwinds) only after the gate is closed and empty.
    let body: *const (dyn Fn(usize, usize) + Sync + 'static) = unsafe { std::mem::transmute(std::ptr::from_ref(body)) };
    let job = Job { body, n, grain, parts };
    // SAFETY: `busy` is ours and the gate is 0 (the region before this one waited for that), so no worker reads `job`.
    unsafe { *POOL.job.get() = Some(job) };
    POOL.gate.fetch_add(1, Ordering::Release);
    POOL.epoch.fetch_add(1, Ordering::SeqCst);
    POOL.wake(spawned);
    POOL.work(job, 0);
    POOL.gate.fetch_sub(1, Ordering::AcqRel);
    let mut spins = 0u32;
    while POOL.gate.load(Ordering::Acquire) != 0 {
        spins += 1;
        if spins < 10_000 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
    let panic = POOL.panic.lock().take();
    INSIDE.set(false);
    POOL.busy.store(false, Ordering::Release);
    if let Some(payload) = panic {
        resume_unwind(payload);
    }
}

impl Pool {
    /// Takes chunks until none is left: those of a thread's own part, then what is left of others' parts. A panic is kept for
    /// the caller, and the chunks that are left are dropped.
    fn work(&self, job: Job, thread: usize) {
        let run = || {
            for turn in 0..job.parts {
                let part = (thread + turn) % job.parts;
                let (first, end) = (job.first(part), job.first(part + 1));
                while let Some(i) = self.parts[part].take(end - first, turn == 0) {
                    let begin = (first + i) * job.grain;
                    // SAFETY: the region is open or this worker is inside it, so the caller's closure is alive.
                    unsafe { (*job.body)(begin, job.n.min(begin + job.grain)) };
                }
            }
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
            for part in &self.parts[..job.parts] {
                part.0.store(MOST_CHUNKS as u64, Ordering::Relaxed);
            }
            self.panic.lock().get_or_insert(payload);
        }
    }

    /// Makes sure that there are `wanted` workers; gives how many there are, at most `wanted`.
    fn spawn(&'static self, wanted: usize) -> usize {
        let mut workers = self.workers.lock();
        while workers.len() < wanted {
            let worker =
                Arc::new(Worker { index: workers.len(), parked: AtomicBool::new(false), thread: OnceLock::new() });
            let own = worker.clone();
            let name = format!("tensor-cpu-{}", worker.index);
            match std::thread::Builder::new().name(name).spawn(move || self.live(&own)) {
                Ok(handle) => {
                    let _ = worker.thread.set(handle.thread().clone());
                    workers.push(worker);
                }
                Err(_) => break,
            }
        }
        workers.len().min(wanted)
    }

    fn wake(&self, wanted: usize) {
        for worker in self.workers.lock().iter().take(wanted) {
            if worker.parked.swap(false, Ordering::SeqCst)
                && let Some(thread) = worker.thread.get()
            {
                thread.unpark();
            }
        }
    }

    /// A worker's life.
    fn live(&self, worker: &Worker) {
        INSIDE.set(true);
        let mut seen = 0;
        loop {
            seen = self.wait(worker, seen);
            if worker.index >= self.limit.load(Ordering::Relaxed) || !self.enter() {
                continue;
            }
            // SAFETY: this worker is inside the gate, so nobody writes `job` until it leaves.
            let job = unsafe { *self.job.get() };
            if let Some(job) = job {
                self.work(job, worker.index + 1);
            }
            self.gate.fetch_sub(2, Ordering::Release);
        }
    }

    /// Enters the gate if it is open.
    fn enter(&self) -> bool {
        let mut gate = self.gate.load(Ordering::Relaxed);
        while gate & 1 == 1 {
            match self.gate.compare_exchange_weak(gate, gate + 2, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => gate = now,
            }
        }
        false
    }

    /// Waits for a region after `seen`: spins for [`SPIN`], then parks. Gives the region's number.
    fn wait(&self, worker: &Worker, seen: usize) -> usize {
        let start = Instant::now();
        loop {
            for _ in 0..64 {
                let epoch = self.epoch.load(Ordering::Acquire);
                if epoch != seen {
                    return epoch;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() > SPIN {
                break;
            }
        }
        loop {
            // The caller raises the epoch before it looks at `parked`; this thread does it the other way round, both
            // sequentially consistent, so at least one of them sees the other.
            worker.parked.store(true, Ordering::SeqCst);
            let epoch = self.epoch.load(Ordering::SeqCst);
            if epoch != seen {
                worker.parked.store(false, Ordering::SeqCst);
                return epoch;
            }
            std::thread::park();
        }
    }
}

/// Held by tests that change the number of threads of the one pool.
#[cfg(test)]
pub(crate) static SERIAL: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_index_is_visited_once() {
        let _serial = SERIAL.lock();
        set_num_threads(4);
        for n in [0usize, 1, 7, 64, 1000, 4097] {
            let seen: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            parallel_for(n, 64, |begin, end| {
                assert_eq!(begin % 64, 0);
                for s in &seen[begin..end] {
                    s.fetch_add(1, Ordering::Relaxed);
                }
            });
            assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_part_gives_each_chunk_once() {
        for len in [0, 1, 2, 7] {
            for sides in 0..1 << len {
                let part = Part(AtomicU64::new(0));
                let mut taken: Vec<usize> = (0..len).map(|i| part.take(len, sides >> i & 1 == 1).unwrap()).collect();
                taken.sort_unstable();
                assert_eq!(taken, (0..len).collect::<Vec<_>>());
                assert!(part.take(len, true).is_none() && part.take(len, false).is_none());
            }
        }
    }

    #[test]
    fn more_threads_than_parts_share_them() {
        let _serial = SERIAL.lock();
        set_num_threads(PARTS + 3);
        let sum = AtomicUsize::new(0);
        for _ in 0..20 {
            parallel_for(PARTS * 5 + 1, 1, |begin, _| {
                sum.fetch_add(begin, Ordering::Relaxed);
            });
        }
        assert_eq!(sum.into_inner(), 20 * (PARTS * 5) * (PARTS * 5 + 1) / 2);
    }

    #[test]
    fn many_regions_from_many_threads() {
        let _serial = SERIAL.lock();
        set_num_threads(3);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2000u64 {
                        let sum = AtomicU64::new(0);
                        parallel_for(100, 7, |begin, end| {
                            sum.fetch_add((begin..end).map(|i| i as u64 + round).sum(), Ordering::Relaxed);
                        });
                        assert_eq!(sum.into_inner(), 4950 + 100 * round);
                    }
                });
            }
        });
    }

    #[test]
    fn regions_after_parking_wake_the_workers() {
        let _serial = SERIAL.lock();
        set_num_threads(2);
        for _ in 0..200 {
            std::thread::sleep(Duration::from_micros(120));
            assert_eq!(parallel_reduce(1000, 10, 0, |b, e| e - b, |a, b| a + b), 1000);
        }
    }

    #[test]
    fn nested_regions_run_serially() {
        let _serial = SERIAL.lock();
        set_num_threads(4);
        let sum = AtomicUsize::new(0);
        parallel_for(16, 1, |_, _| {
            assert!(in_parallel_region());
            parallel_for(16, 1, |_, _| {
                sum.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(sum.into_inner(), 256);
        assert!(!in_parallel_region());
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let _serial = SERIAL.lock();
        set_num_threads(4);
        for round in 0..50 {
            let result = catch_unwind(|| {
                parallel_for(100, 1, |begin, _| {
                    if begin == round {
                        resume_unwind(Box::new("chunk failed"));
                    }
                })
            });
            assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"chunk failed"));
            assert_eq!(parallel_reduce(100, 3, 0, |b, e| e - b, |a, b| a + b), 100);
        }
    }

    #[test]
    fn reductions_do_not_depend_on_the_number_of_threads() {
        let _serial = SERIAL.lock();
        let values: Vec<f32> = (0..10_000).map(|i| ((i * 7919) % 1000) as f32 * 0.1).collect();
        let sum = || parallel_reduce(values.len(), 97, 0.0, |b, e| values[b..e].iter().sum::<f32>(), |a, b| a + b);
        set_num_threads(1);
        let one = sum();
        set_num_threads(4);
        for _ in 0..20 {
            assert_eq!(sum().to_bits(), one.to_bits());
        }
    }
}
