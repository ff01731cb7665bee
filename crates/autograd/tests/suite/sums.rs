//! Gradients of leaves that are used more than once, or transposed: whose memory they end up in, and who may see that.

use std::sync::{Arc, Mutex, PoisonError};

use tensor_aten::{Tensor, ops};
use tensor_autograd::{grad, node};
use tensor_core::Result;

use crate::{leaf, plain, values};

/// A table (5, 3) that requires a gradient.
fn table() -> Result<Tensor> {
    let table = ops::view(&plain(&(0..15).map(f64::from).collect::<Vec<_>>())?, &[5, 3])?.copy()?;
    table.requires_grad_(true)?;
    Ok(table)
}

/// A loss over rows of the table, and over products with it: an embedding, and an output layer that shares its table.
struct Tied {
    rows: Tensor,
    transposed: Tensor,
    loss: Tensor,
}

fn tied(table: &Tensor, padding_idx: i64) -> Result<Tied> {
    let indices = Tensor::from_slice(&[1_i64, 3, 1, 2], &[2, 2])?;
    let rows = ops::embedding(table, &indices, padding_idx, false, false)?;
    let transposed = ops::t(table)?;
    let logits = ops::matmul(&rows, &transposed)?;
    let loss = ops::add(&ops::sum(&ops::mul(&logits, &logits)?, None)?, &ops::sum(&rows, None)?, 1)?;
    Ok(Tied { rows, transposed, loss })
}

/// A post-hook of the node that made a tensor, which keeps what that node computed.
fn watch(tensor: &Tensor) -> Result<Arc<Mutex<Vec<Tensor>>>> {
    let seen = Arc::<Mutex<Vec<Tensor>>>::default();
    let kept = seen.clone();
    if let Some(node) = node::grad_fn(tensor)? {
        node.register_hook(Arc::new(move |outputs, _| {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend(outputs.iter().flatten().cloned());
            Ok(None)
        }));
    }
    Ok(seen)
}

fn seen(watched: &Mutex<Vec<Tensor>>) -> Vec<Vec<f64>> {
    watched.lock().unwrap_or_else(PoisonError::into_inner).iter().map(values).collect()
}

/// The gradient of a tied table as a recorded one, which is never summed in place.
fn expected(table: &Tensor, padding_idx: i64) -> Result<Vec<f64>> {
    let grads = grad(&[&tied(table, padding_idx)?.loss], &[table], None, None, true, false)?;
    Ok(grads.iter().flatten().flat_map(values).collect())
}

#[test]
fn rows_are_added_to_the_sum_that_waits() -> Result<()> {
    let table = table()?;
    for padding_idx in [-1, 1] {
        tied(&table, padding_idx)?.loss.backward()?;
        let sum = table.grad().map_or_else(Vec::new, |grad| values(&grad));
        assert_eq!(sum, expected(&table, padding_idx)?);
        let grads = grad(&[&tied(&table, padding_idx)?.loss], &[&table], None, None, false, false)?;
        assert_eq!(grads[0].as_ref().map(values), Some(sum));
        table.set_grad(None)?;
    }
    Ok(())
}

#[test]
fn a_sum_that_somebody_holds_is_not_written() -> Result<()> {
    let table = table()?;
    let alone = {
        let tied = tied(&table, -1)?;
        grad(&[&tied.loss], &[&tied.transposed], None, None, true, false)?[0].as_ref().map(ops::t).transpose()?
    };
    let passes = tied(&table, -1)?;
    let watched = watch(&passes.transposed)?;
    passes.loss.backward()?;
    assert_eq!(seen(&watched), [alone.as_ref().map_or_else(Vec::new, values)]);
    assert_eq!(table.grad().as_ref().map(values), Some(expected(&table, -1)?));
    Ok(())
}

#[test]
fn a_post_hook_sees_the_gradient_and_not_the_sum() -> Result<()> {
    let table = table()?;
    let passes = tied(&table, -1)?;
    let (rows, product) = (watch(&passes.rows)?, watch(&passes.transposed)?);
    passes.loss.backward()?;
    let [rows, product] = [&seen(&rows)[0], &seen(&product)[0]];
    assert!(rows[..3] == [0.0; 3] && rows[12..] == [0.0; 3], "rows that nobody read have no gradient: {rows:?}");
    let sum: Vec<f64> = rows.iter().zip(product).map(|(a, b)| a + b).collect();
    assert_eq!(table.grad().as_ref().map(values), Some(sum));
    Ok(())
}

#[test]
fn the_gradient_of_a_transposed_weight_is_stolen() -> Result<()> {
    let w = table()?;
    let x = ops::view(&plain(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, &[2, 3])?;
    let transposed = ops::t(&w)?;
    let at = Arc::new(Mutex::new(None));
    if let Some(node) = node::grad_fn(&transposed)? {
        let at = at.clone();
        node.register_hook(Arc::new(move |outputs, _| {
            *at.lock().unwrap_or_else(PoisonError::into_inner) =
                outputs[0].as_ref().map(|grad| grad.data_ptr() as usize);
            Ok(None)
        }));
    }
    ops::sum(&ops::mm(&x, &transposed)?, None)?.backward()?;
    let Some(stored) = w.grad() else { panic!("no gradient") };
    assert_eq!(Some(stored.data_ptr() as usize), *at.lock().unwrap_or_else(PoisonError::into_inner));
    assert!(stored.is_contiguous() && !stored.is_view());
    assert_eq!(values(&stored), [5.0, 7.0, 9.0].repeat(5));
    Ok(())
}

#[test]
fn a_gradient_does_not_keep_the_whole_that_it_is_a_part_of() -> Result<()> {
    let a = leaf(&[1.0, 2.0])?;
    let joined = ops::cat(&[&a, &plain(&[0.0; 1000])?], 0)?;
    ops::sum(&ops::mul(&joined, &joined)?, None)?.backward()?;
    let Some(stored) = a.grad() else { panic!("no gradient") };
    assert_eq!((values(&stored), stored.storage().nbytes()), (vec![2.0, 4.0], 16));
    Ok(())
}
