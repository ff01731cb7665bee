//! What modules hold: [`Parameter`], [`Buffer`], and the [`Training`] flag.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use tensor_aten::Tensor;
use tensor_core::Result;

/// A leaf tensor that is trained (`torch.nn.Parameter`).
#[derive(Clone)]
pub struct Parameter(Tensor);

impl Parameter {
    /// A parameter of some elements, which requires a gradient.
    ///
    /// # Errors
    /// For dtypes without gradients.
    pub fn new(data: Tensor) -> Result<Self> {
        let data = data.detach()?;
        data.requires_grad_(true)?;
        Ok(Self(data))
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.0
    }
}

impl Deref for Parameter {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.0
    }
}

/// A tensor that belongs to a module's state and is not trained (`register_buffer`).
#[derive(Clone)]
pub struct Buffer(Tensor);

impl Buffer {
    /// A buffer of some elements.
    pub fn new(data: Tensor) -> Self {
        Self(data)
    }
}

impl Deref for Buffer {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.0
    }
}

/// Whether a module trains or evaluates. Modules start training.
#[derive(Debug)]
pub struct Training(AtomicBool);

impl Training {
    /// The mode.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the mode; [`Module::train`](crate::Module::train) does it for whole modules.
    pub fn set(&self, training: bool) {
        self.0.store(training, Ordering::Relaxed);
    }
}

impl Default for Training {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Clone for Training {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.get()))
    }
}

impl AsRef<Tensor> for Parameter {
    fn as_ref(&self) -> &Tensor {
        &self.0
    }
}
