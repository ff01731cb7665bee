//! Graphs of a million nodes on a small stack, and memory that stays flat.

use tensor::ops;
use tensor::prelude::*;

/// Each would overflow the small stack if dropping recursed. Fewer under a sanitizer (`.ci/asan`), whose allocations are slow.
const NODES: usize = match (cfg!(tensor_uncached), cfg!(debug_assertions)) {
    (true, _) => 20_000,
    (_, true) => 200_000,
    _ => 1_000_000,
};

fn on_a_small_stack(f: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(f);
    let thread = thread.map_err(|error| Error::runtime(error.to_string()))?;
    thread.join().unwrap_or_else(|_| Err(Error::runtime("the thread panicked")))
}

fn leaf(values: &[f64]) -> Result<Tensor> {
    let x = Tensor::from_slice(values, &[values.len() as i64])?;
    x.requires_grad_(true)?;
    Ok(x)
}

fn grad_of(x: &Tensor) -> Result<f64> {
    Ok(x.grad().ok_or_else(|| Error::runtime("no gradient"))?.to_vec()?[0])
}

fn chain(x: &Tensor, step: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let mut y = x.clone();
    for _ in 0..NODES {
        y = step(&y)?;
    }
    Ok(y)
}

#[test]
fn a_chain_of_sums_runs_backward() -> Result<()> {
    on_a_small_stack(|| {
        let (x, b) = (leaf(&[0.0])?, leaf(&[1.0])?);
        chain(&x, |y| ops::add(y, &b, 1))?.backward()?;
        assert_eq!((grad_of(&x)?, grad_of(&b)?), (1.0, NODES as f64));
        Ok(())
    })
}

#[test]
fn a_chain_of_products_runs_backward() -> Result<()> {
    on_a_small_stack(|| {
        let (x, w) = (leaf(&[1.0])?, leaf(&[1.0])?);
        chain(&x, |y| ops::mul(y, &w))?.backward()?;
        assert_eq!((grad_of(&x)?, grad_of(&w)?), (1.0, NODES as f64));
        Ok(())
    })
}

#[test]
fn chains_are_dropped_without_a_backward() -> Result<()> {
    on_a_small_stack(|| {
        let (x, w) = (leaf(&[1.0])?, leaf(&[1.0])?);
        drop(chain(&x, |y| ops::add(y, &w, 1))?);
        drop(chain(&x, |y| ops::mul(y, &w))?);
        drop(chain(&x, |y| ops::mul(&w, y))?);
        drop(chain(&x, ops::exp)?);
        Ok(())
    })
}

#[test]
fn chains_of_in_place_writes_through_views_are_dropped() -> Result<()> {
    on_a_small_stack(|| {
        let w = leaf(&[1.0])?;
        let base = ops::mul(&leaf(&[1.0, 2.0])?, &w)?;
        let view = ops::slice(&base, 0, Some(0), Some(1), 1)?;
        for _ in 0..NODES / 10 {
            ops::add_(&view, &w, 1)?;
        }
        Ok(())
    })
}

#[test]
fn chains_through_hooks_and_gradients_are_dropped() -> Result<()> {
    on_a_small_stack(|| {
        let mut x = leaf(&[1.0])?;
        let mut g = leaf(&[1.0])?;
        for _ in 0..NODES / 10 {
            let next = leaf(&[1.0])?;
            let held = x.clone();
            next.register_hook(move |_| Ok(Some(held.clone())))?;
            x = next;
            let next = leaf(&[1.0])?;
            next.set_grad(Some(g))?;
            g = next;
        }
        Ok(())
    })
}

#[test]
fn wide_graphs_of_shared_nodes() -> Result<()> {
    on_a_small_stack(|| {
        let x = leaf(&[1.0])?;
        // y doubles at each step, along two edges to the same node.
        let mut y = x.clone();
        for _ in 0..60 {
            y = ops::add(&y, &y, 1)?;
        }
        y.backward()?;
        assert_eq!(grad_of(&x)?, (1u64 << 60) as f64);
        Ok(())
    })
}
