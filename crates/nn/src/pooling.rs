//! [`MaxPool2d`].

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use crate::options::options;
use crate::{Forward, Module, Pair, python};

options! {
    /// The settings of a [`MaxPool2d`] that have defaults.
    MaxPool2dOptions {
        /// steps of the window; the window's own size where absent
        stride: Option<Pair> = None => Some(Pair),
        /// how far windows reach over the edges
        padding: Pair = Pair([0; 2]),
        /// distances between the elements of a window
        dilation: Pair = Pair([1; 2]),
        /// whether windows that reach over the far edge count
        ceil_mode: bool = false,
    }
}

/// The largest element of each window (`torch.nn.MaxPool2d`): input (N, C, H, W) or (C, H, W).
#[derive(Module, Clone, Debug)]
#[module(crate = "tensor_nn", repr)]
pub struct MaxPool2d {
    #[module(skip)]
    kernel_size: Pair,
    options: MaxPool2dOptions,
}

impl MaxPool2d {
    /// Windows side by side. A size of one number is a square.
    pub fn new(kernel_size: impl Into<Pair>) -> Self {
        Self::new_opt(kernel_size, MaxPool2dOptions::new())
    }

    /// Windows with every setting.
    pub fn new_opt(kernel_size: impl Into<Pair>, options: MaxPool2dOptions) -> Self {
        Self { kernel_size: kernel_size.into(), options }
    }

    fn stride(&self) -> Pair {
        self.options.stride.unwrap_or(self.kernel_size)
    }

    fn extra_repr(&self) -> String {
        format!(
            "kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
            self.kernel_size.short(),
            self.stride().short(),
            self.options.padding.short(),
            self.options.dilation.short(),
            python::bool(self.options.ceil_mode)
        )
    }
}

impl Forward for MaxPool2d {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let MaxPool2dOptions { padding: Pair(padding), dilation: Pair(dilation), ceil_mode, .. } = self.options;
        ops::max_pool2d(input, &self.kernel_size.0, &self.stride().0, &padding, &dilation, ceil_mode)
    }
}
