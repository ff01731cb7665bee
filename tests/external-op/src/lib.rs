//! A crate outside of the library that adds an operator with a gradient: `user::squared_relu`, scale * max(x, 0)^2.
//!
//! It depends on `tensor` alone. The kernel for the CPU is plain Rust over slices, the shape rule for the meta device two
//! lines, the gradient a custom [`Function`] whose backward is written with operators, so that it has a gradient itself.
#![forbid(unsafe_code)]

use tensor::autograd::{BackwardContext, Context, Function};
use tensor::extension::below_autograd;
use tensor::{DType, Element, Error, Result, Tensor, bail, define_op};

define_op! {
    /// `scale * max(x, 0)^2` of each element of a float32 or float64 tensor.
    pub fn squared_relu(x: &Tensor, scale: f64) -> Tensor;
    static SQUARED_RELU;
    schema: "user::squared_relu(Tensor x, *, float scale=1.0) -> Tensor";
    kernels: { Cpu: cpu, Meta: meta, Autograd: autograd };
}

fn cpu(x: &Tensor, scale: f64) -> Result<Tensor> {
    match x.dtype() {
        DType::F32 => each(x, |x: f32| scale as f32 * x.max(0.0).powi(2)),
        DType::F64 => each(x, |x: f64| scale * x.max(0.0).powi(2)),
        other => bail!(NotImplemented, "squared_relu: expected float32 or float64, but got {other}"),
    }
}

fn each<T: Element>(x: &Tensor, f: impl Fn(T) -> T) -> Result<Tensor> {
    Tensor::from_vec(x.to_vec()?.into_iter().map(f).collect(), x.sizes())
}

fn meta(x: &Tensor, _scale: f64) -> Result<Tensor> {
    Tensor::empty(x.sizes(), x.options())
}

fn autograd(x: &Tensor, scale: f64) -> Result<Tensor> {
    SquaredRelu { scale }.apply(&[x])?.pop().ok_or_else(|| Error::runtime("squared_relu: no result"))
}

struct SquaredRelu {
    scale: f64,
}

impl Function for SquaredRelu {
    fn forward(&self, ctx: &mut Context, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        ctx.save_for_backward(inputs);
        Ok(vec![below_autograd(|| squared_relu(inputs[0], self.scale))?])
    }

    // d/dx scale * max(x, 0)^2 = 2 * scale * max(x, 0)
    fn backward(&self, ctx: &BackwardContext, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = ctx.saved_tensors()?;
        let ([x], [Some(grad)]) = (&saved[..], grads) else { return Ok(vec![None]) };
        Ok(vec![Some((x.relu()? * (2.0 * self.scale) * grad)?)])
    }
}
