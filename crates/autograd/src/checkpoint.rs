//! [`checkpoint`]: keeps the inputs of a part of a model instead of what its operators save, and computes that again in
//! backward (`torch.utils.checkpoint`, the variant without reentrant backward: it is a pair of saved-tensor hooks).

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tensor_aten::Tensor;
use tensor_core::{Error, Result, check, generator, tls};

use crate::saved::{Packed, SavedTensorHooks, SavedVariable, saved_tensors_hooks};

type Body = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync>;

/// A checkpointed part: what it needs to run again.
struct Frame {
    body: Body,
    inputs: Vec<SavedVariable>,
    /// the generator's state before the first run
    random: Vec<u8>,
    modes: tls::Snapshot,
    /// how many tensors the first run saved
    saved: AtomicUsize,
    recomputed: Mutex<Vec<Option<Tensor>>>,
}

/// What is stored in the place of a saved tensor.
struct Holder {
    frame: Arc<Frame>,
    index: usize,
    sizes: Vec<i64>,
}

/// Runs `body` without keeping what its operators save; backward runs it again. `body` must do the same thing each time;
/// random numbers are the same in both runs.
///
/// # Errors
/// Those of `body`; in backward, when it saved other tensors than in forward, or an input was changed in place since.
pub fn checkpoint(
    body: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    inputs: &[&Tensor],
) -> Result<Vec<Tensor>> {
    let arguments: Vec<Tensor> = inputs.iter().map(|input| (*input).clone()).collect();
    if !tls::grad_enabled() {
        return body(&arguments);
    }
    let frame = Arc::new(Frame {
        body: Box::new(body),
        inputs: inputs.iter().map(|input| SavedVariable::unpacked_input(input)).collect::<Result<_>>()?,
        random: generator::default_cpu().get_state(),
        modes: tls::snapshot(),
        saved: AtomicUsize::new(0),
        recomputed: Mutex::default(),
    });
    let packer = frame.clone();
    let pack = move |tensor: &Tensor| {
        let index = packer.saved.fetch_add(1, Ordering::Relaxed);
        let holder = Holder { frame: packer.clone(), index, sizes: tensor.sizes().to_vec() };
        Ok(Box::new(holder) as Packed)
    };
    let _hooks = saved_tensors_hooks(SavedTensorHooks::new(pack, unpack));
    (frame.body)(&arguments)
}

fn unpack(packed: &(dyn Any + Send + Sync)) -> Result<Tensor> {
    let Some(Holder { frame, index, sizes }) = packed.downcast_ref() else {
        return Err(Error::runtime("torch.utils.checkpoint: an unknown tensor was unpacked"));
    };
    let mut found = frame.take(*index);
    if found.is_none() {
        frame.recompute()?;
        found = frame.take(*index);
    }
    match found {
        Some(tensor) => {
            check!(
                tensor.sizes() == sizes.as_slice(),
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during \
                 the forward pass.\ntensor at position {index}:\nsaved metadata: {{'shape': torch.Size({})}}\nrecomputed \
                 metadata: {{'shape': torch.Size({})}}",
                tensor_core::strides::show(sizes),
                tensor_core::strides::show(tensor.sizes())
            );
            Ok(tensor)
        }
        None => Err(count_error(frame.saved.load(Ordering::Relaxed), *index)),
    }
}

fn count_error(forward: usize, recomputed: usize) -> Error {
    Error::runtime(format!(
        "torch.utils.checkpoint: A different number of tensors was saved during the original forward and \
         recomputation.\nNumber of tensors saved during forward: {forward}\nNumber of tensors saved during recomputation: \
         {recomputed}."
    ))
}

impl Frame {
    /// Each recomputed tensor is given out once, so that it lives no longer than its use.
    fn take(&self, index: usize) -> Option<Tensor> {
        self.recomputed.lock().get_mut(index).and_then(Option::take)
    }

    /// Runs the body again, up to the last tensor that the first run saved.
    fn recompute(&self) -> Result<()> {
        let wanted = self.saved.load(Ordering::Relaxed);
        let inputs = self.inputs.iter().map(SavedVariable::unpack_input).collect::<Result<Vec<_>>>()?;
        let _random = generator::default_cpu().fork();
        generator::default_cpu().set_state(&self.random)?;
        let list: Arc<Mutex<Vec<Option<Tensor>>>> = Arc::new(Mutex::new(Vec::with_capacity(wanted)));
        let complete = Arc::new(AtomicBool::new(false));
        let (collector, done) = (list.clone(), complete.clone());
        let pack = move |tensor: &Tensor| {
            let mut list = collector.lock();
            list.push(Some(tensor.clone()));
            if list.len() >= wanted {
                done.store(true, Ordering::Relaxed);
                return Err(Error::runtime("checkpoint: everything was recomputed"));
            }
            Ok(Box::new(()) as Packed)
        };
        let refuse = |_: &(dyn Any + Send + Sync)| {
            Err(Error::runtime(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If you are \
                 calling ctx.saved_tensors in backward, make sure to do so only once. Otherwise please open an issue with \
                 details on your use case.",
            ))
        };
        let result = {
            let _modes = tls::restore(self.modes);
            let _hooks = saved_tensors_hooks(SavedTensorHooks::new(pack, refuse));
            (self.body)(&inputs)
        };
        let list = std::mem::take(&mut *list.lock());
        if !complete.load(Ordering::Relaxed) {
            result?;
            if list.len() != wanted {
                return Err(count_error(wanted, list.len()));
            }
        }
        let old = std::mem::replace(&mut *self.recomputed.lock(), list);
        drop(old);
        Ok(())
    }
}
