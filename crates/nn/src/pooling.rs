//! [`MaxPool2d`].

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use crate::{Forward, Module};

/// The largest element of each window (`torch.nn.MaxPool2d`): input (N, C, H, W) or (C, H, W).
#[derive(Module, Clone, Copy, Debug)]
#[module(crate = "tensor_nn", repr)]
pub struct MaxPool2d {
    kernel_size: [i64; 2],
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
    ceil_mode: bool,
}

impl MaxPool2d {
    /// Square windows side by side.
    pub const fn new(kernel_size: i64) -> Self {
        Self::new_opt([kernel_size; 2], [kernel_size; 2], [0; 2], [1; 2], false)
    }

    /// Windows with every setting.
    pub const fn new_opt(
        kernel_size: [i64; 2],
        stride: [i64; 2],
        padding: [i64; 2],
        dilation: [i64; 2],
        ceil_mode: bool,
    ) -> Self {
        Self { kernel_size, stride, padding, dilation, ceil_mode }
    }

    fn extra_repr(&self) -> String {
        let one = |p: [i64; 2]| if p[0] == p[1] { p[0].to_string() } else { format!("({}, {})", p[0], p[1]) };
        format!(
            "kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
            one(self.kernel_size),
            one(self.stride),
            one(self.padding),
            one(self.dilation),
            if self.ceil_mode { "True" } else { "False" }
        )
    }
}

impl Forward for MaxPool2d {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::max_pool2d(input, &self.kernel_size, &self.stride, &self.padding, &self.dilation, self.ceil_mode)
    }
}
