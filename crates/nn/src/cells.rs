//! Recurrent cells, one step of a layer: [`RNNCell`], [`GRUCell`], [`LSTMCell`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_core::{Result, check_value};

use crate::options::options;
use crate::parameter::empty;
use crate::{Module, Parameter, init};

options! {
    /// The settings of recurrent cells that have defaults.
    CellOptions {
        /// whether there are biases
        bias: bool = true,
        /// dtype and device of the parameters
        tensor: TensorOptions = TensorOptions::new(),
    }
}

macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident $gates:literal [$($extra:ident: $ty:ty = $default:expr)?] |$me:ident| $more:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Module, Clone)]
        #[module(crate = "tensor_nn", repr)]
        pub struct $name {
            /// (gates x hidden_size, input_size)
            pub weight_ih: Parameter,
            /// (gates x hidden_size, hidden_size)
            pub weight_hh: Parameter,
            /// (gates x hidden_size)
            pub bias_ih: Option<Parameter>,
            /// (gates x hidden_size)
            pub bias_hh: Option<Parameter>,
            $($extra: $ty,)?
        }

        impl $name {
            /// A cell with biases. All parameters are uniform within 1 / sqrt(hidden_size).
            ///
            /// # Errors
            /// When the sizes are negative or too large.
            pub fn new(input_size: i64, hidden_size: i64) -> Result<Self> {
                Self::new_opt(input_size, hidden_size, CellOptions::new())
            }

            /// With every setting.
            ///
            /// # Errors
            /// As `new`.
            pub fn new_opt(input_size: i64, hidden_size: i64, options: CellOptions) -> Result<Self> {
                let rows = $gates * hidden_size;
                let bias = || options.bias.then(|| empty(&[rows], options.tensor)).transpose();
                let cell = Self {
                    weight_ih: empty(&[rows, input_size], options.tensor)?,
                    weight_hh: empty(&[rows, hidden_size], options.tensor)?,
                    bias_ih: bias()?,
                    bias_hh: bias()?,
                    $($extra: $default,)?
                };
                let bound = if hidden_size > 0 { 1.0 / (hidden_size as f64).sqrt() } else { 0.0 };
                cell.parameters().iter().try_for_each(|parameter| init::uniform_(parameter, -bound, bound))?;
                Ok(cell)
            }

            fn extra_repr(&self) -> String {
                let $me = self;
                let bias = if self.bias_ih.is_some() { "" } else { ", bias=False" };
                format!("{}, {}{bias}{}", self.weight_ih.extent(1), self.weight_hh.extent(1), $more)
            }

            /// Input and states with a batch dimension, and whether the input had one. States are zeros if absent.
            fn batched<const N: usize>(&self, input: &Tensor, hx: Option<[&Tensor; N]>) -> Result<(Tensor, [Tensor; N], bool)> {
                let name = stringify!($name);
                check_value!(
                    matches!(input.dim(), 1 | 2),
                    "{name}: Expected input to be 1D or 2D, got {}D instead",
                    input.dim()
                );
                let batched = input.dim() == 2;
                let with_batch = |x: &Tensor| if batched { Ok(x.clone()) } else { ops::unsqueeze(x, 0) };
                let input = with_batch(input)?;
                let states = match hx {
                    None => {
                        let sizes = [input.size(0)?, self.weight_hh.size(1)?];
                        let zeros = ops::zeros(&sizes, Some(input.dtype()), None, Some(input.device()), None)?;
                        [(); N].map(|()| zeros.clone())
                    }
                    Some(hx) => {
                        for (i, state) in hx.iter().enumerate() {
                            let place = if N > 1 { format!("hx[{i}]") } else { "hidden".to_owned() };
                            check_value!(
                                matches!(state.dim(), 1 | 2),
                                "{name}: Expected {place} to be 1D or 2D, got {}D instead",
                                state.dim()
                            );
                        }
                        let mut states = hx.map(Tensor::clone);
                        for state in &mut states {
                            *state = with_batch(state)?;
                        }
                        states
                    }
                };
                Ok((input, states, batched))
            }
        }
    )* };
}

cells! {
    /// `h' = tanh(W x + b + V h + c)`, or relu of it (`torch.nn.RNNCell`).
    RNNCell 1 [relu: bool = false] |me| if me.relu { ", nonlinearity=relu" } else { "" };
    /// A gated recurrent unit (`torch.nn.GRUCell`).
    GRUCell 3 [] |_me| "";
    /// A cell of long short-term memory (`torch.nn.LSTMCell`).
    LSTMCell 4 [] |_me| "";
}

/// A result without the batch dimension that its input did not have.
fn unbatched(x: Tensor, batched: bool) -> Result<Tensor> {
    if batched { Ok(x) } else { ops::squeeze_dim(&x, 0) }
}

impl RNNCell {
    /// A relu cell with every setting.
    ///
    /// # Errors
    /// As `new`.
    pub fn relu(input_size: i64, hidden_size: i64, options: CellOptions) -> Result<Self> {
        Ok(Self { relu: true, ..Self::new_opt(input_size, hidden_size, options)? })
    }

    /// The next state (batch, hidden_size) for an input (batch, input_size), without a batch dimension where the input has
    /// none. `hx` is the state before; zeros if absent.
    ///
    /// # Errors
    /// For other shapes.
    pub fn forward(&self, input: &Tensor, hx: Option<&Tensor>) -> Result<Tensor> {
        let (input, [hx], batched) = self.batched(input, hx.map(|hx| [hx]))?;
        let run = if self.relu { ops::rnn_relu_cell } else { ops::rnn_tanh_cell };
        let (b_ih, b_hh) = (self.bias_ih.as_deref(), self.bias_hh.as_deref());
        unbatched(run(&input, &hx, &self.weight_ih, &self.weight_hh, b_ih, b_hh)?, batched)
    }
}

impl GRUCell {
    /// As [`RNNCell::forward`].
    ///
    /// # Errors
    /// For other shapes.
    pub fn forward(&self, input: &Tensor, hx: Option<&Tensor>) -> Result<Tensor> {
        let (input, [hx], batched) = self.batched(input, hx.map(|hx| [hx]))?;
        let (b_ih, b_hh) = (self.bias_ih.as_deref(), self.bias_hh.as_deref());
        unbatched(ops::gru_cell(&input, &hx, &self.weight_ih, &self.weight_hh, b_ih, b_hh)?, batched)
    }
}

impl LSTMCell {
    /// The next hidden and cell state (batch, hidden_size) for an input (batch, input_size), without a batch dimension where
    /// the input has none. `hx` are the two before; zeros if absent.
    ///
    /// # Errors
    /// For other shapes.
    pub fn forward(&self, input: &Tensor, hx: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, Tensor)> {
        let (input, [hidden, cell], batched) = self.batched(input, hx.map(|(hidden, cell)| [hidden, cell]))?;
        let (b_ih, b_hh) = (self.bias_ih.as_deref(), self.bias_hh.as_deref());
        let hx = [&hidden, &cell];
        let (hidden, cell) = ops::lstm_cell(&input, &hx, &self.weight_ih, &self.weight_hh, b_ih, b_hh)?;
        Ok((unbatched(hidden, batched)?, unbatched(cell, batched)?))
    }
}
