//! Memory stays flat: graphs that nobody runs backward, training steps, tensors that change threads, errors. Bytes of the
//! allocator and resident pages are held to what they were after a warm-up, in a process of their own.

use std::sync::mpsc;

use tensor::config::{empty_cache, memory_stats, set_num_threads};
use tensor::prelude::*;
use tensor::{autograd, ops, optim};

use crate::child::alone;

const STEPS: usize = if cfg!(debug_assertions) { 300 } else { 1_000 };
const FORWARDS: usize = if cfg!(debug_assertions) { 2_000 } else { 10_000 };

/// Resident bytes of this process; 0 where the system does not say.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// Runs `f` a tenth of the times to warm up, then checks that the rest leaves memory where it was. A leak grows in every pass; what
/// threads hand each other settles by some hundred KiB in one or the other.
fn flat(times: usize, mut f: impl FnMut() -> Result<()>) {
    const PASSES: usize = 4;
    // A leak of one small block a round would be several of these.
    let allowance = 256 * 1024;
    (0..times / 10).for_each(|_| f().unwrap());
    let mut grown = Vec::new();
    while grown.len() < PASSES {
        let (bytes, pages) = (memory_stats(), resident());
        (0..times).for_each(|_| f().unwrap());
        let (after, pages_after) = (memory_stats(), resident());
        assert_eq!(after.allocated, bytes.allocated, "bytes that no storage owns");
        assert!(
            after.cached <= bytes.cached + (1 << 16),
            "the cache grew from {} to {} bytes",
            bytes.cached,
            after.cached
        );
        grown.push(pages_after.saturating_sub(pages));
        if grown.last().is_some_and(|&last| last <= allowance) {
            return;
        }
    }
    panic!("resident memory grew by {grown:?} bytes, pass by pass");
}

fn network() -> nn::Sequential {
    let linear = |a, b| nn::Linear::new(a, b).unwrap();
    nn::sequential![
        linear(16, 300),
        nn::ReLU,
        nn::LayerNorm::new([300]).unwrap(),
        nn::Dropout::new(0.1).unwrap(),
        linear(300, 4)
    ]
}

#[test]
fn graphs_without_a_backward_are_dropped() {
    alone!(graphs_without_a_backward_are_dropped, 60 => {
        let net = network();
        let x = Tensor::randn(&[8, 16], ()).unwrap();
        flat(FORWARDS, || net.forward(&x)?.exp()?.sum().map(drop));
        // Views, writes through them and hooks keep nodes in circles that must not close.
        let w = net.parameters()[0].tensor().detach().unwrap();
        w.requires_grad_(true).unwrap();
        flat(FORWARDS, || {
            let y = (&w * 2.0)?;
            let view = y.narrow(0, 0, 3)?;
            view.mul_(&view.copy()?)?;
            let seen = y.clone();
            view.register_hook(move |_| seen.detach().map(Some))?;
            y.retain_grad()?;
            Ok(())
        });
    });
}

fn trained(optimizer: &mut dyn Optimizer, net: &nn::Sequential) {
    let (x, y) = (Tensor::randn(&[32, 16], ()).unwrap(), Tensor::randn(&[32, 4], ()).unwrap());
    flat(STEPS, || {
        optimizer.zero_grad()?;
        nn::MSELoss::new().forward(&net.forward(&x)?, &y)?.backward()?;
        optimizer.step()
    });
}

#[test]
fn training_steps_leave_nothing() {
    alone!(training_steps_leave_nothing, 90 => {
        let net = network();
        trained(&mut optim::Adam::new(net.parameters(), optim::AdamOptions::lr(1e-3)).unwrap(), &net);
        let momentum = optim::SgdOptions { momentum: 0.9, ..optim::SgdOptions::lr(1e-3) };
        trained(&mut optim::SGD::new(net.parameters(), momentum).unwrap(), &net);
    });
}

#[test]
fn double_backwards_and_errors_leave_nothing() {
    alone!(double_backwards_and_errors_leave_nothing, 60 => {
        let x = Tensor::randn(&[40, 40], ()).unwrap();
        x.requires_grad_(true).unwrap();
        flat(STEPS, || {
            let y = x.matmul(&x)?.tanh()?.sum()?;
            let grads = autograd::grad(&[&y], &[&x], None, None, true, false)?;
            let penalty = grads[0].as_ref().map_or_else(|| x.sum(), |g| (g * g).sum_of())?;
            penalty.backward()?;
            x.set_grad(None)
        });
        flat(STEPS, || {
            // Refused while shapes are checked, in the middle of a backward, and in a hook.
            assert!((&x + Tensor::ones(&[3, 3], ())?).is_err() && x.matmul(Tensor::ones(&[3], ())?).is_err());
            let y = x.exp()?;
            let changed = (&y * &y)?;
            no_grad(|| y.add_scalar_(1.0).map(drop))?;
            assert!(changed.sum()?.backward().is_err());
            let z = (&x * &x)?;
            z.register_hook(|_| Err(Error::runtime("refused")))?;
            assert!(z.sum()?.backward().is_err());
            x.set_grad(None)
        });
    });
}

trait SumOf {
    /// The sum of a product that may have failed.
    fn sum_of(self) -> Result<Tensor>;
}

impl SumOf for Result<Tensor> {
    fn sum_of(self) -> Result<Tensor> {
        self?.sum()
    }
}

/// Blocks are given back by a thread that never asks for any: lists of threads must not fill up.
#[test]
fn tensors_that_die_on_another_thread_leave_nothing() {
    alone!(tensors_that_die_on_another_thread_leave_nothing, 60 => {
        let (send, receive) = mpsc::channel::<Vec<Tensor>>();
        let (answer, answers) = mpsc::channel::<i64>();
        let gone = |_: &dyn std::error::Error| Error::runtime("the other thread is gone");
        let undertaker = std::thread::spawn(move || {
            for tensors in receive {
                let numel = tensors.iter().map(Tensor::numel).sum();
                drop(tensors);
                answer.send(numel).unwrap();
            }
        });
        let round = || {
            let small = (0..20).map(|_| Tensor::ones(&[5], ())).chain([Tensor::ones(&[3000], ())]);
            send.send(small.collect::<Result<_>>()?).map_err(|e| gone(&e))?;
            assert_eq!(answers.recv().map_err(|e| gone(&e))?, 3100);
            Ok(())
        };
        flat(FORWARDS, round);
        drop(send);
        undertaker.join().unwrap();
    });
}

#[test]
fn threads_that_end_leave_nothing() {
    alone!(threads_that_end_leave_nothing, 60 => {
        set_num_threads(2);
        let x = Tensor::randn(&[64, 64], ()).unwrap();
        x.requires_grad_(true).unwrap();
        flat(STEPS, || {
            let work = || {
                let y = x.matmul(&x)?.erf()?.sum()?;
                autograd::grad(&[&y], &[&x], None, None, false, false).map(drop)
            };
            std::thread::scope(|scope| scope.spawn(work).join().unwrap())
        });
    });
}

#[test]
fn the_cache_is_given_back() {
    alone!(the_cache_is_given_back, 30 => {
        let before = memory_stats().allocated;
        let x = Tensor::ones(&[1 << 20], ()).unwrap();
        assert_eq!(memory_stats().allocated, before + (4 << 20));
        assert!(memory_stats().peak >= before + (4 << 20));
        drop(x);
        assert_eq!(memory_stats().allocated, before);
        assert!(memory_stats().cached >= 4 << 20);
        empty_cache();
        assert_eq!(memory_stats().cached, 0);
    });
}

/// What models free in one pass is used by the next, whose tensors have other sizes.
#[test]
fn freed_memory_serves_other_sizes() {
    alone!(freed_memory_serves_other_sizes, 30 => {
        for mebibytes in [4, 6, 9, 14, 3, 30, 1] {
            let blocks = (0..60 / mebibytes).map(|_| Tensor::empty(&[mebibytes << 18], ()));
            drop(blocks.collect::<Result<Vec<_>>>().unwrap());
        }
        assert!(memory_stats().cached <= 66 << 20, "{} bytes are kept", memory_stats().cached);
    });
}

/// The most bytes that a pass needs at once, beyond those before it. Once a process: the mark is not taken back.
fn most(f: impl FnOnce() -> Result<()>) -> usize {
    let before = memory_stats().allocated;
    f().unwrap();
    memory_stats().peak - before
}

/// A table (20000, 64) that requires a gradient, and its bytes.
fn table() -> (Tensor, usize) {
    let table = Tensor::ones(&[20_000, 64], ()).unwrap();
    table.requires_grad_(true).unwrap();
    (table, 20_000 * 64 * 4)
}

#[test]
fn a_weight_has_its_gradient_and_no_copy() {
    alone!(a_weight_has_its_gradient_and_no_copy, 30 => {
        let (weight, bytes) = table();
        let x = Tensor::ones(&[3, 64], ()).unwrap();
        let most = most(|| ops::linear(&x, &weight, None)?.sum()?.backward());
        assert!(most < bytes * 5 / 4, "{most} bytes for a gradient of {bytes}");
    });
}

#[test]
fn a_tied_table_has_one_gradient() {
    alone!(a_tied_table_has_one_gradient, 30 => {
        let (table, bytes) = table();
        let indices = tensor!([1, 2, 1]).unwrap();
        let most = most(|| {
            let rows = ops::embedding(&table, &indices, -1, false, false)?;
            ops::linear(&rows, &table, None)?.sum()?.backward()
        });
        assert!(most < bytes * 5 / 4, "{most} bytes for a gradient of {bytes}");
    });
}

/// Sizes that no machine has, views beyond the storage, and their like are errors that leave nothing either.
#[test]
fn absurd_sizes_are_errors() {
    alone!(absurd_sizes_are_errors, 30 => {
        flat(1000, || {
            let x = Tensor::ones(&[2], ())?;
            assert!(Tensor::empty(&[1 << 62], ()).is_err() && Tensor::empty(&[i64::MAX, i64::MAX], ()).is_err());
            assert!(Tensor::zeros(&[1 << 45], ()).is_err() && Tensor::zeros(&[-1], ()).is_err());
            assert!(x.resize_(&[1 << 60]).is_err() && x.resize_(&[-3]).is_err());
            assert!(x.expand(&[1 << 40, 2])?.contiguous().is_err());
            assert!(x.repeat(&[1 << 61]).is_err() && x.as_strided(&[9], &[1]).is_err());
            assert_eq!(x.to_vec::<f32>()?, [1.0, 1.0]);
            Ok(())
        });
    });
}
