//! No safe call deadlocks or races: guards held crosswise, in-place operators on shared storages, shapes that change under
//! readers, backwards over shared leaves. Each test runs under a watchdog.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tensor::prelude::*;
use tensor::{autograd, config};

use crate::child::{alone, at_once};

const ROUNDS: usize = if cfg!(debug_assertions) { 1_000 } else { 10_000 };

/// Checks that an error is the one that a guard elsewhere explains.
fn borrowed(error: &Error) {
    assert!(error.message().starts_with("storage is borrowed"), "{error}");
}

/// The one value that all elements have.
fn uniform(x: &Tensor) -> f32 {
    let values = x.to_vec::<f32>().unwrap();
    assert!(values.iter().all(|v| v.to_bits() == values[0].to_bits()), "a torn write: {values:?}");
    values[0]
}

/// A number that looks random, the same in each run.
fn mix(seed: usize) -> usize {
    (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xd6e8_feb8_6659_fd93) as usize >> 7
}

/// Reads `from`, then writes `to` while the reader lives; returns whether both guards were had.
fn slices(from: &Tensor, to: &Tensor) -> bool {
    let Ok(source) = from.as_slice::<f32>().inspect_err(borrowed) else { return false };
    let value = source[0];
    assert!(source.iter().all(|v| v.to_bits() == value.to_bits()), "a torn read");
    let Ok(mut target) = to.as_mut_slice::<f32>().inspect_err(borrowed) else { return false };
    target.fill(value + 1.0);
    true
}

fn accessors(from: &Tensor, to: &Tensor) -> bool {
    let Ok(source) = from.accessor::<f32, 1>().inspect_err(borrowed) else { return false };
    let Ok(mut target) = to.accessor_mut::<f32, 1>().inspect_err(borrowed) else { return false };
    let [n] = *target.sizes();
    (0..n).for_each(|i| target[[i]] = source[[0]] + 1.0);
    true
}

/// Calls operators while a guard lives: those that conflict with it are errors, the others run.
fn operators(from: &Tensor, to: &Tensor) -> bool {
    let Ok(source) = from.as_slice::<f32>().inspect_err(borrowed) else { return false };
    borrowed(&from.add_scalar_(1.0).map(drop).unwrap_err());
    borrowed(&from.copy_(to).map(drop).unwrap_err());
    // Others may hold a guard of `to`; readers of `from` disturb no reader.
    let _ = from.sum().unwrap();
    let done = to.copy_(from).map(drop).inspect_err(borrowed).is_ok();
    done && source[0].is_finite()
}

#[test]
fn guards_held_crosswise_are_errors_at_once() {
    alone!(guards_held_crosswise_are_errors_at_once, 30 => {
        for work in [slices, accessors, operators] {
            let (a, b) = (Tensor::zeros(&[64], ()).unwrap(), Tensor::zeros(&[64], ()).unwrap());
            let done = AtomicUsize::new(0);
            let side = |from: &Tensor, to: &Tensor| {
                let had = (0..ROUNDS).filter(|_| work(from, to)).count();
                done.fetch_add(had, Ordering::Relaxed);
            };
            at_once(vec![Box::new(|| side(&a, &b)), Box::new(|| side(&b, &a))]);
            assert!(done.into_inner() > 0);
            // No count was left behind: everything works again, on both.
            uniform(&a);
            uniform(&b);
            a.add_(&b).unwrap().fill_scalar_(0.0).unwrap();
            b.as_mut_slice::<f32>().unwrap().fill(1.0);
            assert_eq!(uniform(&b), 1.0);
        }
    });
}

#[test]
fn a_guard_outlives_its_tensor_and_its_thread() {
    alone!(a_guard_outlives_its_tensor_and_its_thread, 10 => {
        let x = Tensor::ones(&[3], ()).unwrap();
        let view = x.narrow(0, 1, 2).unwrap();
        let made = std::thread::scope(|scope| scope.spawn(|| x.accessor_mut::<f32, 1>().unwrap()).join().unwrap());
        for tensor in [&x, &view] {
            borrowed(&tensor.sum().unwrap_err());
            borrowed(&tensor.fill_scalar_(2.0).map(drop).unwrap_err());
            borrowed(&tensor.to_vec::<f32>().unwrap_err());
            borrowed(&tensor.as_slice::<f32>().map(drop).unwrap_err());
            // No element is touched: nothing to conflict with.
            assert_eq!(tensor.unsqueeze(0).unwrap().dim(), 2);
        }
        drop(x);
        assert_eq!(made[[2]], 1.0);
        borrowed(&view.sum().unwrap_err());
        drop(made);
        assert_eq!(view.sum().unwrap().item().unwrap(), Scalar::Float(2.0));
    });
}

/// In-place operators hold their storages: counts add up, and all elements see the same operations in the same order.
#[test]
fn in_place_operators_on_shared_tensors() {
    alone!(in_place_operators_on_shared_tensors, 60 => {
        config::set_num_threads(3);
        // The larger one is split over the pool.
        for n in [64, 100_000] {
            let rounds = ROUNDS * 64 / (64 + n as usize / 50);
            let count = Tensor::zeros(&[n], DType::I64).unwrap();
            let tensors: Vec<Tensor> = (0..3).map(|i| Tensor::full(&[n], i as f64, ()).unwrap()).collect();
            let work = |thread: usize| {
                let halves = [count.narrow(0, 0, n / 2).unwrap(), count.narrow(0, n / 2, n / 2).unwrap()];
                let folded = count.view(&[2, n / 2]).unwrap().t().unwrap();
                for round in 0..rounds {
                    match round % 4 {
                        0 => halves.iter().for_each(|half| assert!(half.add_scalar_(1).is_ok())),
                        1 => assert!(folded.add_scalar_(1).is_ok()),
                        2 => assert!(count.sub_scalar_(-1).is_ok()),
                        _ => assert!(count.add_(tensor!(1).unwrap()).is_ok()),
                    }
                    let choice = mix(thread * rounds + round);
                    let (a, b) = (&tensors[choice % 3], &tensors[choice / 3 % 3]);
                    match choice / 9 % 7 {
                        0 => assert!(a.add_(b).is_ok()),
                        1 => assert!(a.mul_(b).is_ok()),
                        2 => assert!(a.copy_(b).is_ok()),
                        3 => assert!(a.fill_scalar_(choice as f64).is_ok()),
                        4 => assert!(a.fill_(b.select(0, n - 1).unwrap()).is_ok()),
                        5 => assert!(a.div_(b).is_ok()),
                        _ => assert!(uniform(&(a - b).unwrap()).to_bits() != 1),
                    }
                }
            };
            at_once((0..4).map(|thread| Box::new(move || work(thread)) as Box<dyn FnOnce() + Send + '_>).collect());
            let _: f32 = tensors.iter().map(uniform).sum();
            let counts = count.to_vec::<i64>().unwrap();
            assert!(counts.iter().all(|&c| c == 4 * rounds as i64), "lost writes: {:?} of {}", &counts[..2], 4 * rounds);
        }
    });
}

/// Calls that read a tensor's shape and elements in many ways. Errors are fine, panics and strange elements are not.
fn readers() -> Vec<(&'static str, fn(&Tensor) -> Result<Tensor>)> {
    vec![
        ("to_vec", |x| Tensor::from_slice(&x.to_vec::<f32>()?, &[-1]).or_else(|_| x.detach())),
        ("print", |x| {
            assert!(x.to_string().starts_with("tensor("));
            assert!(format!("{x:?}").starts_with("tensor("));
            x.detach()
        }),
        ("accessor", |x| {
            let acc = x.accessor::<f32, 2>()?;
            let &[rows, cols] = acc.sizes();
            let values: Vec<f32> = (0..rows).flat_map(|i| (0..cols).map(move |j| [i, j])).map(|at| acc[at]).collect();
            Tensor::from_slice(&values, &[values.len() as i64])
        }),
        ("slice", |x| x.with_slice::<f32, _>(|all| Tensor::from_slice(all, &[all.len() as i64]))?),
        ("item", |x| Tensor::full(&[1], x.item()?, DType::F32)),
        ("exp", |x| x.exp()?.full_like(7.0)),
        ("max", Tensor::max),
        ("amax", |x| x.amax()),
        ("maximum", |x| x.maximum(x)),
        ("where", |x| x.where_self(x.ge_scalar(0.0)?, x)),
        ("cat", |x| tensor::ops::cat(&[x, x], 0)),
        ("stack", |x| tensor::ops::stack(&[x, x], -1)),
        ("copy", |x| x.copy()),
        ("contiguous", |x| x.transpose(0, -1)?.contiguous()),
        ("clone into", |x| Tensor::zeros(&[2, 3], ())?.copy_(x).cloned()?.clamp_min(7.0)),
        ("reshape", |x| x.reshape(&[-1])),
        ("view", |x| x.view(&[2, -1])),
        ("flatten", |x| x.flatten()),
        ("t", Tensor::t),
        ("transpose", |x| x.transpose(0, 1)),
        ("permute", |x| x.permute(&[1, 0])),
        ("squeeze", Tensor::squeeze),
        ("unsqueeze", |x| x.unsqueeze(1)),
        ("expand", |x| x.unsqueeze(0)?.expand_as(tensor::ops::stack(&[x, x], 0)?)),
        ("select", |x| x.select(0, -1)),
        ("narrow", |x| x.narrow(0, 0, 2)),
        ("index", |x| x.i((.., 0))),
        ("index list", |x| x.i([0, 1])),
        ("mask", |x| x.masked_select(x.ge_scalar(0.0)?)),
        ("index_select", |x| x.index_select(0, tensor!([1, 0])?)),
        ("gather", |x| x.gather(0, x.lt_scalar(0.0)?.to_dtype(DType::I64)?)),
        ("diagonal", |x| x.diagonal()),
        ("flip", |x| x.flip(&[0])),
        ("unfold", |x| x.unfold(0, 2, 1)),
        ("as_strided", |x| x.as_strided(&[2, 2], &[1, 2])),
        ("split", |x| x.split(1)?.pop().map_or_else(|| x.detach(), Ok)),
        ("unbind", |x| x.unbind()?.pop().map_or_else(|| x.detach(), Ok)),
        ("movedim", |x| x.movedim_int(0, 1)),
        ("repeat", |x| x.repeat(&[2, 1])),
        ("view_dtype", |x| x.view_dtype(DType::I32)?.view_dtype(DType::F32)),
        ("detach", Tensor::detach),
        ("empty_like", |x| x.full_like(7.0)),
        ("matmul", |x| x.matmul(x)?.full_like(7.0)),
        ("sum", |x| x.sum_dim(&[0], true)?.full_like(7.0)),
        ("softmax", |x| x.softmax(0)?.full_like(7.0)),
        ("cumsum", |x| x.cumsum(0)?.full_like(7.0)),
        ("tril", |x| x.tril()?.full_like(7.0)),
        ("linear", |x| tensor::ops::linear(x, x, None)?.full_like(7.0)),
        ("max_dim", |x| Ok(x.max_dim(0, false)?.0)),
        ("argmax", |x| x.argmax()?.full_like(7.0)?.to_dtype(DType::F32)),
        ("norm", |x| x.norm_scalar()?.full_like(7.0)),
        ("cummax", |x| Ok(x.cummax(0)?.0)),
        ("cumprod", |x| x.cumprod(-1)?.full_like(7.0)),
        ("log_softmax", |x| x.log_softmax(-1)?.full_like(7.0)),
        ("take", |x| x.take(tensor!([0, 2, 1])?)),
        ("nonzero", |x| x.nonzero()?.full_like(7.0)?.to_dtype(DType::F32)),
        ("dot", |x| x.select(0, 0)?.dot(x)?.full_like(7.0)),
        ("bmm", |x| x.bmm(x)?.full_like(7.0)),
        ("addmm", |x| x.addmm(x, x.t()?)?.full_like(7.0)),
        ("index_add", |x| x.index_add(0, tensor!([1, 0])?, x)?.full_like(7.0)),
        ("index_fill", |x| x.index_fill_(0, tensor!([1, 0])?, 7.0)?.copy()),
        ("index_put", |x| x.i_set_(([1, 0], 1), 7.0)?.copy()),
        ("scatter", |x| x.scatter(0, x.lt_scalar(0.0)?.to_dtype(DType::I64)?, x)),
        ("masked_scatter", |x| x.masked_scatter(x.ge_scalar(0.0)?, x)),
        ("sort", |x| Ok(x.sort()?.0)),
        ("topk", |x| Ok(x.topk(1)?.0)),
        ("kthvalue", |x| Ok(x.kthvalue(1)?.0)),
        ("median", |x| Ok(x.median_dim(0)?.0)),
        ("unique", |x| Ok(tensor::ops::_unique2(x, true, true, true)?.0)),
        ("searchsorted", |x| {
            tensor::ops::searchsorted(x, x, false, false, None, None)?.full_like(7.0)?.to_dtype(DType::F32)
        }),
        ("bucketize", |x| tensor::ops::bucketize(x, x, false, false)?.full_like(7.0)?.to_dtype(DType::F32)),
        ("histc", |x| x.histc()?.full_like(7.0)),
        ("var", |x| x.var_correction()?.full_like(7.0)),
        ("logsumexp", |x| x.logsumexp(&[0])?.full_like(7.0)),
        ("roll", |x| tensor::ops::roll(x, &[1], &[0])),
        ("avg_pool1d", |x| tensor::ops::avg_pool1d(x, &[2], &[1], &[0], false, true)),
        ("max_pool2d", |x| tensor::ops::max_pool2d(x, &[1, 1], &[1, 1], &[0, 0], &[1, 1], false)),
        ("avg_pool2d", |x| tensor::ops::avg_pool2d(x, &[1, 1], &[1, 1], &[0, 0], false, true, None)),
        ("conv1d", |x| tensor::ops::conv1d(x, &x.unsqueeze(1)?, None, &[1], &[0], &[1], 1)?.full_like(7.0)),
        ("layer_norm", |x| tensor::ops::layer_norm(x, &[3], None, None, 1e-5, false)?.full_like(7.0)),
        ("embedding", |x| tensor::ops::embedding(x, &tensor!([1, 0])?, -1, false, false)),
        ("cdist", |x| tensor::ops::cdist(x, x, 2.0, None)?.full_like(7.0)),
        ("pad", |x| tensor::ops::constant_pad_nd(x, &[1, 1], 7.0)),
        ("reflect", |x| tensor::ops::reflection_pad1d(x, &[1, 1])),
        ("einsum", |x| tensor::ops::einsum("ij,kj->ik", &[x, x], None)?.full_like(7.0)),
        ("tensordot", |x| tensor::ops::tensordot(x, x, &[0], &[0])?.full_like(7.0)),
        ("attention", |x| {
            tensor::ops::scaled_dot_product_attention(x, x, x, None, 0.0, false, None, false)?.full_like(7.0)
        }),
        ("state", |x| {
            let _ = (x.size(1), x.stride(-1), x.is_contiguous(), x.suggest_memory_format(), x.data_ptr(), x.version());
            x.detach()
        }),
    ]
}

/// Changes the shape, never the storage's bytes.
fn reshape_in_place(x: &Tensor, step: usize) -> Result<()> {
    const SHAPES: [&[i64]; 8] = [&[4], &[2, 3], &[2, 2, 2], &[5, 0], &[3, 40], &[], &[1, 1, 1, 2, 1, 3], &[120]];
    match mix(step) % 12 {
        8 => x.t_().map(drop),
        9 => x.transpose_(0, -1).map(drop),
        10 => x.unsqueeze_(0).map(drop),
        11 => x.squeeze_().map(drop),
        shape => x.resize_(SHAPES[shape]).map(drop),
    }
}

#[test]
fn shapes_that_change_under_readers() {
    alone!(shapes_that_change_under_readers, 60 => {
        // Every panic, of the library or of an assertion, with its place; none on threads of the pool, which know no name.
        config::set_num_threads(1);
        thread_local!(static NAME: Cell<&'static str> = const { Cell::new("") });
        static PANICS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        std::panic::set_hook(Box::new(|info| {
            let text = format!("{}: {info}", NAME.get());
            PANICS.lock().unwrap().insert(text);
        }));
        let x = Tensor::full(&[120], 7.0, DType::F32).unwrap();
        let stop = AtomicBool::new(false);
        let read = |first: usize| {
            let readers = readers();
            for round in 0..ROUNDS * 20 {
                let (name, read) = readers[(first + round) % readers.len()];
                NAME.set(name);
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    let Ok(y) = read(&x) else { return };
                    let strange = y.to_vec::<f32>().unwrap().into_iter().find(|&v| v != 7.0);
                    assert!(strange.is_none(), "{name} read {strange:?}, which nobody wrote");
                }));
            }
            stop.store(true, Ordering::Relaxed);
        };
        let change = || {
            for step in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let _ = reshape_in_place(&x, step);
            }
        };
        at_once(vec![Box::new(|| read(0)), Box::new(|| read(17)), Box::new(change)]);
        drop(std::panic::take_hook());
        let panics = PANICS.lock().unwrap();
        assert!(panics.is_empty(), "no call may panic: {panics:#?}");
    });
}

/// A storage that grows moves its bytes; whoever reads sees the old elements or the new ones, at one address.
#[test]
fn storages_that_grow_under_readers() {
    alone!(storages_that_grow_under_readers, 60 => {
        for _ in 0..ROUNDS / 10 {
            let x = Tensor::ones(&[8], ()).unwrap();
            let head = x.narrow(0, 0, 8).unwrap();
            let done = AtomicBool::new(false);
            let grow = || {
                for n in 1..40 {
                    // A slice may be out: then nothing changes.
                    let _ = x.resize_(&[n * 200]).map(drop).inspect_err(borrowed);
                }
                done.store(true, Ordering::Relaxed);
            };
            let read = || {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(uniform(&head), 1.0);
                    assert_eq!(head.sum().unwrap().item().unwrap(), Scalar::Float(8.0));
                    let slice = head.as_slice::<f32>().unwrap();
                    std::thread::yield_now();
                    assert_eq!(slice.iter().sum::<f32>(), 8.0);
                    head.mul_(&head).map(drop).unwrap_err();
                }
            };
            at_once(vec![Box::new(grow), Box::new(read)]);
            assert_eq!(uniform(&head), 1.0);
        }
    });
}

/// Each thread builds its own graph over shared leaves; no gradient is lost.
#[test]
fn backwards_over_shared_leaves() {
    alone!(backwards_over_shared_leaves, 60 => {
        let rounds = ROUNDS / 10;
        let leaf = |value: f64| {
            let x = Tensor::full(&[16], value, DType::F64).unwrap();
            x.requires_grad_(true).unwrap();
            x
        };
        let (w, b) = (leaf(3.0), leaf(5.0));
        let shared = (&w * &b).unwrap();
        let hooked = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let work = |thread: usize| {
                for round in 0..rounds {
                    let x = Tensor::full(&[16], (1 + thread) as f64, DType::F64).unwrap();
                    let y = (&w * &x + &b).unwrap();
                    y.register_hook(|_| Ok(None)).unwrap();
                    y.sum().unwrap().backward().unwrap();
                    if round % 8 == 0 {
                        // A node that all threads run, kept by each.
                        let root = shared.sum().unwrap();
                        let grads = autograd::grad(&[&root], &[&w, &b], None, Some(true), false, false).unwrap();
                        assert_eq!(uniform64(grads[0].as_ref().unwrap()), 5.0);
                        hooked.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            (0..4).for_each(|thread| drop(scope.spawn(move || work(thread))));
        });
        assert_eq!(hooked.into_inner(), 4 * rounds.div_ceil(8));
        assert_eq!(uniform64(&w.grad().unwrap()), (rounds * (1 + 2 + 3 + 4)) as f64);
        assert_eq!(uniform64(&b.grad().unwrap()), (rounds * 4) as f64);
    });
}

fn uniform64(x: &Tensor) -> f64 {
    let values = x.to_vec::<f64>().unwrap();
    assert!(values.iter().all(|v| *v == values[0]), "{values:?}");
    values[0]
}

/// Training without a lock of the user's (Hogwild): updates in place while others run forward and backward. What was
/// changed since it was saved is an error, never a wrong gradient; nothing waits for ever.
#[test]
fn updates_under_other_threads_backwards() {
    alone!(updates_under_other_threads_backwards, 60 => {
        let w = Tensor::ones(&[32, 32], ()).unwrap();
        w.requires_grad_(true).unwrap();
        let steps = AtomicUsize::new(0);
        let work = || {
            for _ in 0..ROUNDS / 5 {
                let x = Tensor::ones(&[4, 32], ()).unwrap();
                let loss = x.matmul(&w).unwrap().matmul(&w).unwrap().mean().unwrap();
                match loss.backward() {
                    Ok(()) => {
                        steps.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => assert!(error.message().contains("modified by an inplace operation"), "{error}"),
                }
                no_grad(|| {
                    if let Some(grad) = w.grad() {
                        w.sub_((&grad * 1e-9)?)?;
                        grad.zero_()?;
                    }
                    w.clamp_max_(2.0).map(drop)
                })
                .unwrap();
            }
        };
        at_once((0..3).map(|_| Box::new(work) as Box<dyn FnOnce() + Send + '_>).collect());
        assert!(steps.into_inner() > 0);
        assert!(w.detach().unwrap().isnan().unwrap().any().unwrap().item().unwrap() == Scalar::Bool(false));
    });
}
