//! Steps of optimizers: each parameter, its gradient and its state in one pass over memory.
//!
//! Tensors of one parameter have one length and are contiguous. What is computed is computed in f32 (f64 for f64) and
//! rounded once a tensor. Elements are independent, so chunks do not matter.

use parking_lot::Mutex;
use tensor_aten::kernels::{AdamSlot, AdamStep, SgdSlot, SgdStep};
use tensor_core::{Result, TensorImpl};

use crate::isa::Isa;
use crate::loops::views::lock;
use crate::parallel::{GRAIN, parallel_for};
use crate::simd::{Arith, Math, Real, RealFloating};

/// Calls `step(i)` for each parameter: large ones one after the other, each in parallel, then the small ones side by side.
fn each(sizes: &[usize], step: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let (large, small): (Vec<usize>, Vec<usize>) = (0..sizes.len()).partition(|&i| sizes[i] > GRAIN);
    large.into_iter().try_for_each(&step)?;
    let total: usize = small.iter().map(|&i| sizes[i]).sum();
    let grain = (GRAIN * small.len()).checked_div(total).unwrap_or(1);
    let failed = Mutex::new(None);
    parallel_for(small.len(), grain, |begin, end| {
        for &i in &small[begin..end] {
            if let Err(e) = step(i) {
                failed.lock().get_or_insert(e);
            }
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// Calls `f` for pieces of a gradient with those of `N` tensors that it changes, in parallel, compiled for the level `I`.
fn pieces<I: Isa, T: Send + Sync, const N: usize>(
    grad: &[T],
    tensors: [&mut [T]; N],
    f: impl Fn(&[T], &mut [&mut [T]; N]) + Sync,
) {
    let mut rest = tensors.map(|tensor| tensor.chunks_mut(GRAIN));
    let parts: Vec<_> = grad
        .chunks(GRAIN)
        .map(|grad| (grad, Mutex::new(std::array::from_fn(|i| rest[i].next().unwrap_or_default()))))
        .collect();
    parallel_for(parts.len(), 1, |begin, end| {
        for (grad, tensors) in &parts[begin..end] {
            let mut tensors = tensors.lock();
            I::run(|| f(grad, &mut tensors));
        }
    });
}

/// Locks a gradient for reading and `N` tensors for writing, and calls `f` with their elements.
fn with<T: RealFloating, const N: usize>(
    grad: &TensorImpl,
    tensors: [&TensorImpl; N],
    f: impl FnOnce(&[T], [&mut [T]; N]),
) -> Result<()> {
    let locked = lock(&[grad], &tensors)?;
    let grad = locked.read::<T>(0)?.dense();
    let mut views = Vec::with_capacity(N);
    for i in 0..N {
        views.push(locked.write::<T>(i)?);
    }
    let mut views = views.iter_mut();
    let slices: [&mut [T]; N] =
        std::array::from_fn(|_| views.next().and_then(|view| view.slice_mut()).unwrap_or_default());
    f(&grad, slices);
    Ok(())
}

/// How many elements fill whole vectors of 32 bytes. Of the rest, upstream's compiler fuses other products with the sums of
/// running averages; so do these kernels, to give the same bits.
fn in_vectors<T>(n: usize) -> usize {
    n - n % (32 / size_of::<T>()).max(1)
}

/// The numbers of an Adam step for one parameter, in the type of computation.
#[derive(Clone, Copy)]
struct AdamNumbers<O> {
    sign: O,
    penalty: O,
    kept: O,
    beta2: O,
    new1: O,
    new2: O,
    step: O,
    scale: O,
    eps: O,
}

impl<O: Math> AdamNumbers<O> {
    fn new(slot: &AdamSlot<'_>, step: &AdamStep) -> Self {
        let of = O::from_f64;
        let (decay, lr) = (step.weight_decay, step.lr);
        Self {
            sign: of(if step.maximize { -1.0 } else { 1.0 }),
            penalty: of(if step.decoupled { 0.0 } else { decay }),
            kept: of(if step.decoupled { 1.0 - lr * decay } else { 1.0 }),
            beta2: of(step.beta2),
            new1: of(1.0 - step.beta1),
            new2: of(1.0 - step.beta2),
            step: of(lr / (1.0 - step.beta1.powf(slot.step))),
            scale: of((1.0 - step.beta2.powf(slot.step)).sqrt()),
            eps: of(step.eps),
        }
    }

    /// The parameter before its step and the new running averages. `ALONE`: of an element beyond the last vector.
    #[inline(always)]
    fn averages<I: Isa, const ALONE: bool>(&self, [p, g, m, v]: [O; 4]) -> (O, O, O) {
        let g = g.mul(self.sign);
        let g = if self.penalty.truth() { g.mul_accumulate::<I>(p, self.penalty) } else { g };
        let m = m.mul_accumulate::<I>(g.sub(m), self.new1);
        let new = g.mul(self.new2);
        let v = if ALONE {
            new.mul(g).mul_accumulate::<I>(v, self.beta2)
        } else {
            v.mul(self.beta2).mul_accumulate::<I>(new, g)
        };
        (p.mul(self.kept), m, v)
    }

    /// The parameter after its step.
    #[inline(always)]
    fn stepped<I: Isa>(&self, p: O, m: O, v: O) -> O {
        let divisor = v.sqrt::<I>().div(self.scale).add(self.eps);
        p.sub(self.step.mul(m).div(divisor))
    }
}

/// One step of Adam, or AdamW, of all parameters:
/// `m = lerp(m, g, 1 - beta1)`, `v = beta2 v + (1 - beta2) g^2`, `p -= lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps)`.
pub fn adam<I: Isa, T: RealFloating>(slots: &[AdamSlot<'_>], step: &AdamStep) -> Result<()> {
    let sizes: Vec<usize> = slots.iter().map(|slot| slot.param.numel() as usize).collect();
    each(&sizes, |i| {
        let slot = &slots[i];
        let numbers = AdamNumbers::<T::Op>::new(slot, step);
        let (grad, p, m, v) =
            (slot.grad.as_impl(), slot.param.as_impl(), slot.exp_avg.as_impl(), slot.exp_avg_sq.as_impl());
        match slot.max_exp_avg_sq {
            None => with::<T, 3>(grad, [p, m, v], |grad, tensors| {
                pieces::<I, T, 3>(grad, tensors, |grad, tensors| {
                    let (grads, rest) = grad.split_at(in_vectors::<T>(grad.len()));
                    let [p, m, v] = tensors.each_mut().map(|tensor| tensor.split_at_mut(grads.len()));
                    adam_piece::<I, T, false>(&numbers, grads, [p.0, m.0, v.0]);
                    adam_piece::<I, T, true>(&numbers, rest, [p.1, m.1, v.1]);
                });
            }),
            Some(most) => with::<T, 4>(grad, [p, m, v, most.as_impl()], |grad, tensors| {
                pieces::<I, T, 4>(grad, tensors, |grad, tensors| {
                    let (grads, rest) = grad.split_at(in_vectors::<T>(grad.len()));
                    let [p, m, v, most] = tensors.each_mut().map(|tensor| tensor.split_at_mut(grads.len()));
                    amsgrad_piece::<I, T, false>(&numbers, grads, [p.0, m.0, v.0, most.0]);
                    amsgrad_piece::<I, T, true>(&numbers, rest, [p.1, m.1, v.1, most.1]);
                });
            }),
        }
    })
}

#[inline(always)]
fn adam_piece<I: Isa, T: RealFloating, const ALONE: bool>(
    numbers: &AdamNumbers<T::Op>,
    grad: &[T],
    [p, m, v]: [&mut [T]; 3],
) {
    let n = grad.len();
    let (p, m, v) = (&mut p[..n], &mut m[..n], &mut v[..n]);
    for i in 0..n {
        let (q, a, s) = numbers.averages::<I, ALONE>([p[i].up(), grad[i].up(), m[i].up(), v[i].up()]);
        (m[i], v[i]) = (T::down(a), T::down(s));
        p[i] = T::down(numbers.stepped::<I>(q, a, s));
    }
}

#[inline(always)]
fn amsgrad_piece<I: Isa, T: RealFloating, const ALONE: bool>(
    numbers: &AdamNumbers<T::Op>,
    grad: &[T],
    [p, m, v, most]: [&mut [T]; 4],
) {
    let n = grad.len();
    let (p, m, v, most) = (&mut p[..n], &mut m[..n], &mut v[..n], &mut most[..n]);
    for i in 0..n {
        let (q, a, s) = numbers.averages::<I, ALONE>([p[i].up(), grad[i].up(), m[i].up(), v[i].up()]);
        let largest = most[i].up().maximum(s);
        (m[i], v[i], most[i]) = (T::down(a), T::down(s), T::down(largest));
        p[i] = T::down(numbers.stepped::<I>(q, a, largest));
    }
}

/// The numbers of a step of gradient descent, in the type of computation.
#[derive(Clone, Copy)]
struct SgdNumbers<O> {
    sign: O,
    penalty: O,
    momentum: O,
    new: O,
    lr: O,
    first: bool,
    nesterov: bool,
}

impl<O: Math> SgdNumbers<O> {
    fn new(step: &SgdStep) -> Self {
        let of = O::from_f64;
        Self {
            sign: of(if step.maximize { -1.0 } else { 1.0 }),
            penalty: of(step.weight_decay),
            momentum: of(step.momentum),
            new: of(1.0 - step.dampening),
            lr: of(-step.lr),
            first: step.first,
            nesterov: step.nesterov,
        }
    }

    /// The gradient with its penalty.
    #[inline(always)]
    fn slope<I: Isa>(&self, p: O, g: O) -> O {
        let g = g.mul(self.sign);
        if self.penalty.truth() { g.mul_accumulate::<I>(p, self.penalty) } else { g }
    }

    /// The parameter and its momentum after a step, from their values before it and the gradient. `ALONE`: of an element
    /// beyond the last vector.
    #[inline(always)]
    fn moved<I: Isa, const ALONE: bool>(&self, [q, g, b]: [O; 3]) -> (O, O) {
        let g = self.slope::<I>(q, g);
        let carried = if ALONE {
            g.mul(self.new).mul_accumulate::<I>(b, self.momentum)
        } else {
            b.mul(self.momentum).mul_accumulate::<I>(g, self.new)
        };
        let b = if self.first { g } else { carried };
        let g = if self.nesterov { g.mul_accumulate::<I>(b, self.momentum) } else { b };
        (q.mul_accumulate::<I>(g, self.lr), b)
    }
}

/// One step of gradient descent of all parameters: `b = momentum b + (1 - dampening) g` (at first `b = g`), and `p -= lr b`, or
/// `p -= lr (g + momentum b)` by Nesterov; `p -= lr g` without momentum.
pub fn sgd<I: Isa, T: RealFloating>(slots: &[SgdSlot<'_>], step: &SgdStep) -> Result<()> {
    let sizes: Vec<usize> = slots.iter().map(|slot| slot.param.numel() as usize).collect();
    let numbers = SgdNumbers::<T::Op>::new(step);
    each(&sizes, |i| {
        let slot = &slots[i];
        let (grad, p) = (slot.grad.as_impl(), slot.param.as_impl());
        match slot.momentum_buffer {
            None => with::<T, 1>(grad, [p], |grad, tensors| {
                pieces::<I, T, 1>(grad, tensors, |grad, [p]| {
                    let n = grad.len();
                    let p = &mut p[..n];
                    for i in 0..n {
                        let q = p[i].up();
                        p[i] = T::down(q.mul_accumulate::<I>(numbers.slope::<I>(q, grad[i].up()), numbers.lr));
                    }
                });
            }),
            Some(buffer) => with::<T, 2>(grad, [p, buffer.as_impl()], |grad, tensors| {
                pieces::<I, T, 2>(grad, tensors, |grad, tensors| {
                    let (grads, rest) = grad.split_at(in_vectors::<T>(grad.len()));
                    let [p, buffer] = tensors.each_mut().map(|tensor| tensor.split_at_mut(grads.len()));
                    sgd_piece::<I, T, false>(&numbers, grads, [p.0, buffer.0]);
                    sgd_piece::<I, T, true>(&numbers, rest, [p.1, buffer.1]);
                });
            }),
        }
    })
}

#[inline(always)]
fn sgd_piece<I: Isa, T: RealFloating, const ALONE: bool>(
    numbers: &SgdNumbers<T::Op>,
    grad: &[T],
    [p, buffer]: [&mut [T]; 2],
) {
    let n = grad.len();
    let (p, buffer) = (&mut p[..n], &mut buffer[..n]);
    for i in 0..n {
        let (q, b) = numbers.moved::<I, ALONE>([p[i].up(), grad[i].up(), buffer[i].up()]);
        (p[i], buffer[i]) = (T::down(q), T::down(b));
    }
}
