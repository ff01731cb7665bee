//! Gradients of a layer of an LSTM, back through its steps. The gates are computed again: they take less time than memory.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

/// Gradients of input, two weights, two biases, hidden and cell state.
type Seven =
    (Option<Tensor>, Option<Tensor>, Option<Tensor>, Option<Tensor>, Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// What a step's gradient takes from its forward pass.
struct Step {
    gates: [Tensor; 4],
    /// tanh of the new cell state
    squashed: Tensor,
    cell: Tensor,
    hidden: Tensor,
}

fn forward(gates: &Tensor, hidden: Tensor, cell: Tensor) -> Result<(Step, Tensor, Tensor)> {
    let part = |i: i64| {
        let quarter = gates.size(1)? / 4;
        ops::narrow(gates, 1, i * quarter, quarter)
    };
    let [i, f] = [ops::sigmoid(&part(0)?)?, ops::sigmoid(&part(1)?)?];
    let [g, o] = [ops::tanh(&part(2)?)?, ops::sigmoid(&part(3)?)?];
    let next = ops::add(&ops::mul(&f, &cell)?, &ops::mul(&i, &g)?, 1)?;
    let squashed = ops::tanh(&next)?;
    let output = ops::mul(&o, &squashed)?;
    Ok((Step { gates: [i, f, g, o], squashed, cell, hidden }, output, next))
}

/// A sum of two gradients, of which either may be undefined.
fn sum(a: Option<Tensor>, b: Option<Tensor>) -> Result<Option<Tensor>> {
    Ok(match (a, b) {
        (Some(a), Some(b)) => Some(ops::add(&a, &b, 1)?),
        (a, b) => a.or(b),
    })
}

impl Step {
    /// Gradients of the gates and of the old cell state, from those of the new hidden and cell state.
    fn backward(&self, hidden: &Tensor, cell: Option<Tensor>) -> Result<(Tensor, Tensor)> {
        let [i, f, g, o] = &self.gates;
        let through = ops::tanh_backward(&ops::mul(hidden, o)?, &self.squashed)?;
        let cell = match cell {
            Some(cell) => ops::add(&cell, &through, 1)?,
            None => through,
        };
        let gates = [
            ops::sigmoid_backward(&ops::mul(&cell, g)?, i)?,
            ops::sigmoid_backward(&ops::mul(&cell, &self.cell)?, f)?,
            ops::tanh_backward(&ops::mul(&cell, i)?, g)?,
            ops::sigmoid_backward(&ops::mul(hidden, &self.squashed)?, o)?,
        ];
        Ok((ops::cat(&gates.each_ref(), 1)?, ops::mul(&cell, f)?))
    }
}

/// Gradients of `mkldnn_rnn_layer`, from those of the outputs, the last hidden and the last cell state.
#[allow(clippy::too_many_arguments)]
pub fn lstm_layer_grads(
    grad_output: Option<&Tensor>,
    grad_hidden: Option<&Tensor>,
    grad_cell: Option<&Tensor>,
    x: &Tensor,
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: &Tensor,
    b_hh: &Tensor,
    hx: &Tensor,
    cx: &Tensor,
    reverse: bool,
    biases: bool,
    need: [bool; 7],
) -> Result<Seven> {
    let bias = |b| if biases { Some(b) } else { None };
    let mut order: Vec<i64> = (0..x.size(0)?).collect();
    if reverse {
        order.reverse();
    }
    let of_input = ops::linear(x, w_ih, bias(b_ih))?;
    let (mut steps, mut hidden, mut cell) = (Vec::with_capacity(order.len()), hx.clone(), cx.clone());
    for &t in &order {
        let gates = ops::add(&ops::linear(&hidden, w_hh, bias(b_hh))?, &ops::select_int(&of_input, 0, t)?, 1)?;
        let step;
        (step, hidden, cell) = forward(&gates, hidden, cell)?;
        steps.push(step);
    }
    let (mut hidden, mut cell) = (grad_hidden.cloned(), grad_cell.cloned());
    let mut gates: Vec<Option<Tensor>> = vec![None; steps.len()];
    for (step, &t) in steps.iter().zip(&order).rev() {
        let output = grad_output.map(|grad| ops::select_int(grad, 0, t)).transpose()?;
        let grad = match sum(hidden, output)? {
            Some(grad) => grad,
            None => ops::zeros_like(&step.hidden, None, None, None, None, None)?,
        };
        let (of_gates, of_cell) = step.backward(&grad, cell)?;
        hidden = Some(ops::mm(&of_gates, w_hh)?);
        cell = Some(of_cell);
        gates[t as usize] = Some(of_gates);
    }
    let gates: Vec<&Tensor> = gates.iter().flatten().collect();
    let gates = ops::cat(&gates, 0)?;
    let rows = ops::t(&gates)?;
    let mut states = vec![None; steps.len()];
    for (step, &t) in steps.iter().zip(&order) {
        states[t as usize] = Some(&step.hidden);
    }
    let states: Vec<&Tensor> = states.into_iter().flatten().collect();
    let grad_x = || ops::reshape(&ops::mm(&gates, w_ih)?, x.sizes());
    let grad_ih = || ops::mm(&rows, &ops::reshape(x, &[-1, x.size(2)?])?);
    let grad_hh = || ops::mm(&rows, &ops::cat(&states, 0)?);
    let grad_bias = || ops::sum_dim_int_list(&gates, Some(&[0]), false, None);
    Ok((
        need[0].then(grad_x).transpose()?,
        need[1].then(grad_ih).transpose()?,
        need[2].then(grad_hh).transpose()?,
        (need[3] && biases).then(grad_bias).transpose()?,
        (need[4] && biases).then(grad_bias).transpose()?,
        hidden.filter(|_| need[5]),
        cell.filter(|_| need[6]),
    ))
}
