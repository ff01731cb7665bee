//! One step of each kind of recurrent network, from the weights of one layer and direction.

use tensor_core::Result;

use crate::{Tensor, ops};

/// What a step hands to the next: the hidden state, and an LSTM's cell state.
#[derive(Clone)]
pub struct State {
    pub hidden: Tensor,
    pub cell: Option<Tensor>,
}

impl State {
    /// Applies a function to both tensors.
    pub fn map(&self, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Self> {
        Ok(Self { hidden: f(&self.hidden)?, cell: self.cell.as_ref().map(f).transpose()? })
    }

    /// Some of the rows.
    pub fn rows(&self, start: i64, end: i64) -> Result<Self> {
        self.map(|x| ops::narrow(x, 0, start, end - start))
    }

    /// The rows of all in turn.
    pub fn joined(states: &[Self]) -> Result<Self> {
        let hidden: Vec<&Tensor> = states.iter().map(|state| &state.hidden).collect();
        let cells: Vec<&Tensor> = states.iter().filter_map(|state| state.cell.as_ref()).collect();
        let cell = if cells.is_empty() { None } else { Some(ops::cat(&cells, 0)?) };
        Ok(Self { hidden: ops::cat(&hidden, 0)?, cell })
    }
}

/// The weights of one layer and direction.
#[derive(Clone, Copy)]
pub struct Weights<'a> {
    pub input: &'a Tensor,
    pub hidden: &'a Tensor,
    pub input_bias: Option<&'a Tensor>,
    pub hidden_bias: Option<&'a Tensor>,
    /// An LSTM's projection of its hidden state.
    pub projection: Option<&'a Tensor>,
}

impl Weights<'_> {
    /// What the inputs of any number of steps add to the gates.
    pub fn of_input(&self, input: &Tensor) -> Result<Tensor> {
        ops::linear(input, self.input, self.input_bias)
    }

    fn of_hidden(&self, hidden: &Tensor) -> Result<Tensor> {
        ops::linear(hidden, self.hidden, self.hidden_bias)
    }
}

/// The kinds of networks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    Tanh,
    Relu,
    Lstm,
    Gru,
}

impl Cell {
    /// One step, from what the input adds to the gates ([`Weights::of_input`]).
    pub fn step(self, gates: &Tensor, state: &State, weights: &Weights<'_>) -> Result<State> {
        let recurrent = weights.of_hidden(&state.hidden)?;
        let hidden = match (self, &state.cell) {
            (Self::Tanh, _) => ops::tanh(ops::add_(&recurrent, gates, 1)?)?,
            (Self::Relu, _) => ops::relu(ops::add_(&recurrent, gates, 1)?)?,
            (Self::Lstm, Some(cell)) => return lstm(ops::add_(&recurrent, gates, 1)?, cell, weights),
            (Self::Gru | Self::Lstm, _) => gru(gates, &recurrent, &state.hidden)?,
        };
        Ok(State { hidden, cell: None })
    }
}

/// `c' = sigmoid(f) * c + sigmoid(i) * tanh(g)`, `h' = sigmoid(o) * tanh(c')`, from the gates i, f, g, o side by side.
fn lstm(gates: &Tensor, cell: &Tensor, weights: &Weights<'_>) -> Result<State> {
    let parts = ops::unsafe_chunk(gates, 4, 1)?;
    let [i, f, g, o] = parts.as_slice() else { tensor_core::bail!(Runtime, "lstm expects four gates") };
    let (i, f) = (ops::sigmoid(i)?, ops::sigmoid(f)?);
    let (g, o) = (ops::tanh(g)?, ops::sigmoid(o)?);
    let kept = ops::mul(&f, cell)?;
    let cell = ops::add_(&kept, &ops::mul(&i, &g)?, 1)?;
    let mut hidden = ops::mul(&o, &ops::tanh(cell)?)?;
    if let Some(projection) = weights.projection {
        hidden = ops::matmul(&hidden, &ops::t(projection)?)?;
    }
    Ok(State { hidden, cell: Some(cell.clone()) })
}

/// `h' = (h - n) * z + n` with `n = tanh(i_n + r * h_n)`, from the gates r, z, n of the input and of the hidden state.
fn gru(gates: &Tensor, recurrent: &Tensor, hidden: &Tensor) -> Result<Tensor> {
    let (of_input, of_hidden) = (ops::unsafe_chunk(gates, 3, 1)?, ops::unsafe_chunk(recurrent, 3, 1)?);
    let ([ir, iz, inew], [hr, hz, hnew]) = (of_input.as_slice(), of_hidden.as_slice()) else {
        tensor_core::bail!(Runtime, "gru expects three gates")
    };
    let reset = ops::sigmoid(&ops::add(hr, ir, 1)?)?;
    let update = ops::sigmoid(&ops::add(hz, iz, 1)?)?;
    let fresh = ops::tanh(&ops::add(inew, &ops::mul(hnew, &reset)?, 1)?)?;
    let change = ops::mul(&ops::sub(hidden, &fresh, 1)?, &update)?;
    Ok(ops::add_(&change, &fresh, 1)?.clone())
}
