//! The largest elements of windows at random places, over two and three dimensions, and the gradients.

use tensor_core::strides::Dims;
use tensor_core::{DType, MemoryFormat, Result, check};

use super::convolution::list;
use super::padding::check_scalar_type;
use crate::kernels::{self, FractionalShape, PoolShape, PoolWindow};
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

/// What a call is about: sizes of windows and results, over two or three dimensions.
struct Call<'a> {
    kernel: &'a [i64],
    output: &'a [i64],
}

impl<'a> Call<'a> {
    fn new(dims: usize, kernel: &'a [i64], output: &'a [i64]) -> Result<Self> {
        let of = if dims == 3 { "three " } else { "" };
        for (what, values) in [("kernel_size", kernel), ("output_size", output)] {
            check!(
                values.len() == dims,
                "fractional_max_pool{dims}d: {what} must either be a single Int or tuple of {of}Ints"
            );
        }
        Ok(Self { kernel, output })
    }

    fn dims(&self) -> usize {
        self.kernel.len()
    }

    fn name(&self) -> &'static str {
        if self.dims() == 2 { "fractional_max_pool2d()" } else { "fractional_max_pool3d_out()" }
    }

    /// The shape of what comes out.
    fn sizes(&self, x: &Tensor) -> Result<Dims> {
        let (dims, n, name, sizes) = (self.dims(), x.dim(), self.name(), x.sizes());
        check!(
            self.kernel.iter().all(|&k| k > 0),
            "{name}: kernel size should be greater than zero, but got {}",
            self.kernel.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
        );
        check!(
            n == dims + 1 || n == dims + 2,
            "{name}: Expected {}D or {}D tensor, but got: {}",
            dims + 1,
            dims + 2,
            list(sizes)
        );
        for d in 0..n {
            check!(
                sizes[d] > 0 || (d == 0 && n == dims + 2),
                "{name}: Expected input to have non-zero size for non-batch dimensions, but got{} with dimension {d} being \
                 empty.",
                list(sizes)
            );
        }
        let names: &[&str] = if dims == 2 { &["height", "width"] } else { &["time", "height", "width"] };
        for (d, name_of) in names.iter().enumerate() {
            let size = sizes[n - dims + d];
            // PyTorch leaves an element of room over three dimensions.
            let needed = self.output[d].saturating_add(self.kernel[d]) - 1 + i64::from(dims == 3);
            check!(
                needed <= size,
                "{name}: pool {name_of} {} too large relative to input {name_of} {size}",
                self.kernel[d]
            );
            check!(self.output[d] >= 0, "{name}: output size should not be negative, but got {}", self.output[d]);
        }
        Ok(sizes[..n - dims].iter().chain(self.output).copied().collect())
    }

    fn planes(&self, x: &Tensor) -> usize {
        x.sizes()[..x.dim() - self.dims()].iter().product::<i64>() as usize
    }

    fn forward(&self, out: Out<'_>, x: &Tensor, samples: &Tensor, name: &str) -> Result<(Tensor, Tensor)> {
        let (dims, n) = (self.dims(), x.dim());
        let sizes = self.sizes(x)?;
        let batch = if n == dims + 2 { x.sizes()[0] } else { 1 };
        let channels = x.sizes()[n - dims - 1];
        check!(samples.dtype() == x.dtype(), "Expect _random_samples to have the same dtype as input");
        check!(samples.dim() == 3, "Expect _random_samples to have 3 dimensions, got {}", samples.dim());
        let found = samples.sizes();
        check!(found[0] >= batch, "Expect _random_samples.size(0) no less then input batch size.");
        check!(found[1] == channels, "Expect _random_samples.size(1) equals to input channel size.");
        check!(found[2] == dims as i64, "Expect _random_samples.size(2) equals to {dims}; got {}.", found[2]);
        let kernel = match x.is_meta() {
            true => None,
            false => Some(kernels::fractional(x.device())?.fractional_max_pool.get(x.dtype(), name)?),
        };
        let values = out.prepare(0, Spec::like(&sizes, x), &[x, samples])?;
        let indices = out.prepare(1, Spec::dense(&sizes, DType::I64, x.device()), &[x, samples])?;
        if let Some(kernel) = kernel.filter(|_| values.tensor.numel() > 0) {
            let list = |sizes: &[i64]| sizes.iter().map(|&size| size as usize).collect();
            let shape = FractionalShape {
                planes: self.planes(x),
                image: list(&x.sizes()[n - dims..]),
                result: list(self.output),
                kernel: list(self.kernel),
            };
            let dense = |x: &Tensor| ops::contiguous(x, MemoryFormat::Contiguous);
            kernel(&values.tensor, &indices.tensor, &dense(x)?, &dense(samples)?, &shape)?;
        }
        Ok((values.finish()?, indices.finish()?))
    }

    fn backward(&self, out: Out<'_>, grad: &Tensor, x: &Tensor, indices: &Tensor, name: &str) -> Result<Tensor> {
        let (dims, n) = (self.dims(), x.dim());
        let sizes = self.sizes(x)?;
        for (d, what) in ["time", "height", "width"][3 - dims..].iter().enumerate() {
            let at = n - dims + d;
            let same = grad.dim() == n && grad.sizes()[at] == sizes[at];
            if dims == 2 {
                check!(same, "fractional_max_pool2d_backward(): gradOutput sizes unexpected");
            } else {
                check!(same, "fractional_max_pool3d_backward_out(): gradOutput {what} unexpected");
            }
        }
        check!(
            grad.sizes() == sizes.as_slice() && indices.sizes() == sizes.as_slice(),
            "fractional_max_pool{dims}d_backward(): expected gradients and indices of size {}, but got {} and {}",
            list(&sizes),
            list(grad.sizes()),
            list(indices.sizes())
        );
        let kernel = match x.is_meta() {
            true => None,
            false => Some(kernels::pooling(x.device())?.unpool.get(grad.dtype(), name)?),
        };
        check_scalar_type(grad.dtype(), x.dtype())?;
        check_scalar_type(DType::I64, indices.dtype())?;
        let slot = out.prepare(0, Spec::like(x.sizes(), x), &[grad, x, indices])?;
        if let Some(kernel) = kernel.filter(|_| slot.tensor.numel() > 0) {
            let shape = PoolShape {
                planes: self.planes(x),
                channels: 1,
                image: super::taps::three(x.sizes(), dims),
                result: super::taps::three(&sizes, dims),
                window: PoolWindow::Adaptive,
            };
            let dense = |x: &Tensor| ops::contiguous(x, MemoryFormat::Contiguous);
            kernel(&slot.tensor, &dense(grad)?, &dense(indices)?, &shape, true)?;
        }
        slot.finish()
    }
}

macro_rules! pools {
    ($($dims:literal: $name:ident $error:literal, $backward:ident $error_backward:literal;)*) => { $(
        #[doc = concat!("The largest elements of windows over ", $dims, " dimensions, placed by random numbers; and their places.")]
        pub fn $name(
            out: Out<'_>,
            self_: &Tensor,
            kernel_size: &[i64],
            output_size: &[i64],
            random_samples: &Tensor,
        ) -> Result<(Tensor, Tensor)> {
            Call::new($dims, kernel_size, output_size)?.forward(out, self_, random_samples, $error)
        }
        #[doc = concat!("Gradient of [`", stringify!($name), "`].")]
        pub fn $backward(
            out: Out<'_>,
            grad_output: &Tensor,
            self_: &Tensor,
            kernel_size: &[i64],
            output_size: &[i64],
            indices: &Tensor,
        ) -> Result<Tensor> {
            Call::new($dims, kernel_size, output_size)?.backward(out, grad_output, self_, indices, $error_backward)
        }
    )* };
}

pools! {
    2: fractional_max_pool2d "fractional_max_pool2d_out_frame", fractional_max_pool2d_backward "fractional_max_pool2d_backward_out_frame";
    3: fractional_max_pool3d "fractional_max_pool3d_out_frame", fractional_max_pool3d_backward "fractional_max_pool3d_backward_out_frame";
}
