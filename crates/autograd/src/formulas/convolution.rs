//! Gradients of convolutions. A convolution is linear in its input and in its weight, so second derivatives are
//! convolutions and gradients of convolutions again.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

use super::conj;

type Three = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// Gradients with respect to input, weight and bias.
#[allow(clippy::too_many_arguments)]
pub fn convolution_grads(
    grad: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    bias_sizes: Option<&[i64]>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    mask: [bool; 3],
) -> Result<Three> {
    ops::convolution_backward(
        grad,
        &conj(input)?,
        &conj(weight)?,
        bias_sizes,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        mask,
    )
}

/// The sum of those that there are.
fn sum(terms: [Option<Tensor>; 3]) -> Result<Option<Tensor>> {
    let mut total: Option<Tensor> = None;
    for term in terms.into_iter().flatten() {
        total = Some(match total {
            Some(total) => ops::add(&total, &term, 1)?,
            None => term,
        });
    }
    Ok(total)
}

/// Gradients of `convolution_backward` with respect to `grad_output`, `input` and `weight`, from those of its three results.
#[allow(clippy::too_many_arguments)]
pub fn convolution_double_grads(
    gg_input: Option<&Tensor>,
    gg_weight: Option<&Tensor>,
    gg_bias: Option<&Tensor>,
    grad_output: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    mask: [bool; 3],
) -> Result<Three> {
    let forward = |x: &Tensor, w: &Tensor| {
        ops::convolution(x, w, None, stride, padding, dilation, transposed, output_padding, groups)
    };
    let backward = |x: &Tensor, w: &Tensor, mask: [bool; 3]| {
        ops::convolution_backward(
            grad_output,
            x,
            w,
            None,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            mask,
        )
    };
    let to_output = if mask[0] {
        let bias = gg_bias.map(|bias| {
            let mut sizes = vec![1; grad_output.dim()];
            sizes[1] = -1;
            ops::expand(&ops::reshape(bias, &sizes)?, grad_output.sizes(), false)
        });
        let terms =
            [gg_input.map(|x| forward(x, weight)), gg_weight.map(|w| forward(input, w)), bias].map(Option::transpose);
        let [a, b, c] = terms;
        sum([a?, b?, c?])?
    } else {
        None
    };
    let to_input = match gg_weight {
        Some(w) if mask[1] => backward(input, w, [true, false, false])?.0,
        _ => None,
    };
    let to_weight = match gg_input {
        Some(x) if mask[2] => backward(x, weight, [false, true, false])?.1,
        _ => None,
    };
    Ok((to_output, to_input, to_weight))
}
