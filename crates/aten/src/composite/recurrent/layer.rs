//! Layers of recurrent networks: steps in turn over a sequence of equal or of packed lengths, in both directions, stacked.

use tensor_core::{Result, check};

use super::cell::{Cell, State, Weights};
use crate::{Tensor, ops};

/// The input or output of a layer.
pub struct Sequence {
    /// (steps, batch, features), or, packed, the rows of all steps in turn.
    pub data: Tensor,
    /// How many rows each step of a packed sequence has; they never grow.
    pub packed: Option<Vec<i64>>,
}

impl Sequence {
    fn with(&self, data: Tensor) -> Self {
        Self { data, packed: self.packed.clone() }
    }
}

/// A network's settings.
pub struct Network {
    pub cell: Cell,
    pub layers: i64,
    pub dropout: f64,
    pub train: bool,
    pub bidirectional: bool,
}

/// One direction of a layer: the outputs of all steps, and the last state.
fn run(cell: Cell, x: &Sequence, state: &State, weights: &Weights<'_>, reverse: bool) -> Result<(Tensor, State)> {
    let gates = weights.of_input(&x.data)?;
    match &x.packed {
        None => {
            let mut steps = ops::unbind_int(&gates, 0)?;
            if reverse {
                steps.reverse();
            }
            let mut state = state.clone();
            let mut outputs = Vec::with_capacity(steps.len());
            for step in &steps {
                state = cell.step(step, &state, weights)?;
                outputs.push(state.hidden.clone());
            }
            check!(!outputs.is_empty(), "Expected sequence length to be larger than 0 in RNN");
            if reverse {
                outputs.reverse();
            }
            Ok((ops::stack(&outputs.iter().collect::<Vec<_>>(), 0)?, state))
        }
        Some(sizes) => {
            check!(!sizes.is_empty(), "Expected sequence length to be larger than 0 in RNN");
            let packed = if reverse { run_packed_back } else { run_packed };
            packed(cell, &gates, sizes, state, weights)
        }
    }
}

/// Packed steps forwards: sequences that end hand over their rows of the state.
fn run_packed(
    cell: Cell,
    gates: &Tensor,
    sizes: &[i64],
    state: &State,
    weights: &Weights<'_>,
) -> Result<(Tensor, State)> {
    let (mut outputs, mut ended) = (Vec::with_capacity(sizes.len()), Vec::new());
    let (mut offset, mut last) = (0, sizes[0]);
    let mut state = state.clone();
    for &size in sizes {
        let step = ops::narrow(gates, 0, offset, size)?;
        offset += size;
        if size < last {
            ended.push(state.rows(size, last)?);
            state = state.rows(0, size)?;
        }
        last = size;
        state = cell.step(&step, &state, weights)?;
        outputs.push(state.hidden.clone());
    }
    ended.push(state);
    ended.reverse();
    Ok((ops::cat(&outputs.iter().collect::<Vec<_>>(), 0)?, State::joined(&ended)?))
}

/// Packed steps backwards: sequences that end later join with their first state.
fn run_packed_back(
    cell: Cell,
    gates: &Tensor,
    sizes: &[i64],
    initial: &State,
    weights: &Weights<'_>,
) -> Result<(Tensor, State)> {
    let mut outputs = Vec::with_capacity(sizes.len());
    let mut offset = gates.size(0)?;
    let mut last = sizes[sizes.len() - 1];
    let mut state = initial.rows(0, last)?;
    for &size in sizes.iter().rev() {
        if size > last {
            state = State::joined(&[state, initial.rows(last, size)?])?;
        }
        offset -= size;
        let step = ops::narrow(gates, 0, offset, size)?;
        last = size;
        state = cell.step(&step, &state, weights)?;
        outputs.push(state.hidden.clone());
    }
    outputs.reverse();
    Ok((ops::cat(&outputs.iter().collect::<Vec<_>>(), 0)?, state))
}

impl Network {
    /// All layers: the last one's outputs and the last state of each layer and direction.
    pub fn run(&self, x: Sequence, states: &[State], weights: &[Weights<'_>]) -> Result<(Tensor, Vec<State>)> {
        let directions = if self.bidirectional { 2 } else { 1 };
        if self.bidirectional {
            let odd = !states.len().is_multiple_of(2) || !weights.len().is_multiple_of(2);
            check!(!odd, "Odd number of params or hiddens given to a bidirectional RNN");
        }
        check!(self.layers == (states.len() / directions) as i64, "Expected more hidden states in stacked_rnn");
        check!(self.layers == (weights.len() / directions) as i64, "Expected more weights in stacked_rnn");
        let mut x = x;
        let mut last = Vec::with_capacity(states.len());
        for layer in 0..self.layers as usize {
            let mut outputs = Vec::with_capacity(directions);
            for direction in 0..directions {
                let at = layer * directions + direction;
                let (output, state) = run(self.cell, &x, &states[at], &weights[at], direction > 0)?;
                outputs.push(output);
                last.push(state);
            }
            let mut output = if self.bidirectional {
                ops::cat(&outputs.iter().collect::<Vec<_>>(), -1)?
            } else {
                outputs.swap_remove(0)
            };
            if self.dropout != 0.0 && self.train && (layer as i64) < self.layers - 1 {
                output = ops::dropout(&output, self.dropout, true)?;
            }
            x = x.with(output);
        }
        Ok((x.data, last))
    }
}
