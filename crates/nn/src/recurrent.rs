//! Recurrent layers: [`RNN`], [`GRU`], [`LSTM`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_core::{Result, check, check_value};

use crate::options::options;
use crate::parameter::empty;
use crate::{Member, Module, Parameter, Training, Visitor, init, python};

options! {
    /// The settings of recurrent layers that have defaults.
    RecurrentOptions {
        /// how many layers lie upon each other
        num_layers: i64 = 1,
        /// whether there are biases
        bias: bool = true,
        /// (batch, steps, features) instead of (steps, batch, features)
        batch_first: bool = false,
        /// probability of a dropout between layers, in training
        dropout: f64 = 0.0,
        /// whether layers run backwards too
        bidirectional: bool = false,
        /// dtype and device of the parameters
        tensor: TensorOptions = TensorOptions::new(),
    }
}

/// The parameters of all layers and directions, under PyTorch's names (`weight_ih_l0`, `bias_hh_l1_reverse`).
#[derive(Clone)]
struct Weights(Vec<(String, Parameter)>);

impl Member for Weights {
    fn accept<'a>(&'a self, _: &str, visitor: &mut dyn Visitor<'a>) {
        self.0.iter().for_each(|(name, parameter)| visitor.parameter(name, parameter));
    }
}

impl Weights {
    /// Uniform numbers within 1 / sqrt(hidden_size); `gates` is how many times the hidden size rows are.
    fn new(input_size: i64, hidden_size: i64, gates: i64, options: &RecurrentOptions) -> Result<Self> {
        check_value!(input_size > 0, "input_size must be greater than zero");
        check_value!(hidden_size > 0, "hidden_size must be greater than zero");
        check_value!(options.num_layers > 0, "num_layers must be greater than zero");
        check_value!(
            (0.0..=1.0).contains(&options.dropout),
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        );
        let directions: &[&str] = if options.bidirectional { &["", "_reverse"] } else { &[""] };
        let rows = gates * hidden_size;
        let mut tensors = Vec::new();
        for layer in 0..options.num_layers {
            let features = if layer == 0 { input_size } else { hidden_size * directions.len() as i64 };
            for direction in directions {
                let mut add = |name: &str, sizes: &[i64]| {
                    tensors.push((format!("{name}_l{layer}{direction}"), empty(sizes, options.tensor)?));
                    Ok::<_, tensor_core::Error>(())
                };
                add("weight_ih", &[rows, features])?;
                add("weight_hh", &[rows, hidden_size])?;
                if options.bias {
                    add("bias_ih", &[rows])?;
                    add("bias_hh", &[rows])?;
                }
            }
        }
        let bound = 1.0 / (hidden_size as f64).sqrt();
        tensors.iter().try_for_each(|(_, parameter)| init::uniform_(parameter, -bound, bound))?;
        Ok(Self(tensors))
    }

    fn tensors(&self) -> Vec<&Tensor> {
        self.0.iter().map(|(_, parameter)| parameter.tensor()).collect()
    }
}

/// What the kinds of layers share.
#[derive(Clone)]
struct Layers {
    weights: Weights,
    input_size: i64,
    hidden_size: i64,
    options: RecurrentOptions,
    training: Training,
}

impl Member for Layers {
    fn accept<'a>(&'a self, name: &str, visitor: &mut dyn Visitor<'a>) {
        self.weights.accept(name, visitor);
        visitor.training(&self.training);
    }
}

impl Layers {
    fn new(input_size: i64, hidden_size: i64, gates: i64, options: RecurrentOptions) -> Result<Self> {
        let weights = Weights::new(input_size, hidden_size, gates, &options)?;
        Ok(Self { weights, input_size, hidden_size, options, training: Training::default() })
    }

    fn repr(&self) -> String {
        let RecurrentOptions { num_layers, bias, batch_first, dropout, bidirectional, .. } = self.options;
        let mut text = format!("{}, {}", self.input_size, self.hidden_size);
        let mut add = |given: bool, name: &str, value: String| {
            if given {
                text.push_str(&format!(", {name}={value}"));
            }
        };
        add(num_layers != 1, "num_layers", num_layers.to_string());
        add(!bias, "bias", python::bool(bias).to_owned());
        add(batch_first, "batch_first", python::bool(batch_first).to_owned());
        add(dropout != 0.0, "dropout", python::float(dropout));
        add(bidirectional, "bidirectional", python::bool(bidirectional).to_owned());
        text
    }

    /// The dimension of the batch in inputs.
    fn batch_dim(&self) -> i64 {
        if self.options.batch_first { 0 } else { 1 }
    }

    /// An input with a batch, and whether it had one.
    fn batched(&self, name: &str, input: &Tensor) -> Result<(Tensor, bool)> {
        check_value!(
            matches!(input.dim(), 2 | 3),
            "{name}: Expected input to be 2D or 3D, got {}D instead",
            input.dim()
        );
        let features = input.size(-1)?;
        check!(
            features == self.input_size,
            "input.size(-1) must be equal to input_size. Expected {}, got {features}",
            self.input_size
        );
        let batched = input.dim() == 3;
        Ok((if batched { input.clone() } else { ops::unsqueeze(input, self.batch_dim())? }, batched))
    }

    /// A state (layers x directions, batch, hidden_size): the given one, or zeros.
    fn state(&self, name: &str, input: &Tensor, given: Option<&Tensor>, batched: bool) -> Result<Tensor> {
        let directions = if self.options.bidirectional { 2 } else { 1 };
        let shape = [self.options.num_layers * directions, input.size(self.batch_dim())?, self.hidden_size];
        let Some(state) = given else {
            return ops::zeros(&shape, Some(input.dtype()), None, Some(input.device()), None);
        };
        let state = if batched { state.clone() } else { ops::unsqueeze(state, 1)? };
        check!(
            state.sizes() == shape,
            "Expected {name} size {}, got {}",
            python::tuple(&shape),
            tensor_core::strides::show(state.sizes())
        );
        Ok(state)
    }

    /// Takes the batch away from an output that had none.
    fn unbatched(x: Tensor, dim: i64, batched: bool) -> Result<Tensor> {
        if batched { Ok(x) } else { ops::squeeze_dim(&x, dim) }
    }
}

/// The operators of layers with one state.
type Run = fn(&Tensor, &Tensor, &[&Tensor], bool, i64, f64, bool, bool, bool) -> Result<(Tensor, Tensor)>;

macro_rules! layers {
    ($($(#[$doc:meta])* $name:ident $gates:literal [$($extra:ident: $ty:ty)?] |$me:ident| $run:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Module, Clone)]
        #[module(crate = "tensor_nn", repr)]
        pub struct $name {
            layers: Layers,
            $(#[module(skip)] $extra: $ty,)?
        }

        impl $name {
            fn extra_repr(&self) -> String {
                self.layers.repr()
            }

            /// The outputs (steps, batch, directions x hidden_size) of an input (steps, batch, input_size), and the last
            /// state of each layer and direction. Without a batch dimension where the input has none.
            ///
            /// # Errors
            /// For other shapes.
            pub fn forward(&self, input: &Tensor, hx: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
                let $me = self;
                let run: Run = $run;
                let layers = &self.layers;
                let (input, batched) = layers.batched(stringify!($name), input)?;
                let hx = layers.state("hidden", &input, hx, batched)?;
                let RecurrentOptions { num_layers, bias, batch_first, dropout, bidirectional, .. } = layers.options;
                let weights = layers.weights.tensors();
                let train = layers.training.get();
                let (output, last) =
                    run(&input, &hx, &weights, bias, num_layers, dropout, train, bidirectional, batch_first)?;
                let output = Layers::unbatched(output, layers.batch_dim(), batched)?;
                Ok((output, Layers::unbatched(last, 1, batched)?))
            }
        }
    )* };
}
layers! {
    /// Layers of `h' = tanh(W x + b + V h + c)`, or relu of it (`torch.nn.RNN`).
    RNN 1 [relu: bool] |me| if me.relu { ops::rnn_relu_input } else { ops::rnn_tanh_input };
    /// Layers of gated recurrent units (`torch.nn.GRU`).
    GRU 3 [] |_me| ops::gru_input;
}

impl RNN {
    /// One layer of tanh cells.
    ///
    /// # Errors
    /// When the sizes are not positive or too large.
    pub fn new(input_size: i64, hidden_size: i64) -> Result<Self> {
        Self::new_opt(input_size, hidden_size, RecurrentOptions::new())
    }

    /// Tanh cells with every setting.
    ///
    /// # Errors
    /// As [`RNN::new`].
    pub fn new_opt(input_size: i64, hidden_size: i64, options: RecurrentOptions) -> Result<Self> {
        Ok(Self { layers: Layers::new(input_size, hidden_size, 1, options)?, relu: false })
    }

    /// Relu cells with every setting.
    ///
    /// # Errors
    /// As [`RNN::new`].
    pub fn relu(input_size: i64, hidden_size: i64, options: RecurrentOptions) -> Result<Self> {
        Ok(Self { layers: Layers::new(input_size, hidden_size, 1, options)?, relu: true })
    }
}

impl GRU {
    /// One layer.
    ///
    /// # Errors
    /// When the sizes are not positive or too large.
    pub fn new(input_size: i64, hidden_size: i64) -> Result<Self> {
        Self::new_opt(input_size, hidden_size, RecurrentOptions::new())
    }

    /// With every setting.
    ///
    /// # Errors
    /// As [`GRU::new`].
    pub fn new_opt(input_size: i64, hidden_size: i64, options: RecurrentOptions) -> Result<Self> {
        Ok(Self { layers: Layers::new(input_size, hidden_size, 3, options)? })
    }
}

/// Layers of long short-term memory (`torch.nn.LSTM`).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct LSTM {
    layers: Layers,
}

impl LSTM {
    /// One layer.
    ///
    /// # Errors
    /// When the sizes are not positive or too large.
    pub fn new(input_size: i64, hidden_size: i64) -> Result<Self> {
        Self::new_opt(input_size, hidden_size, RecurrentOptions::new())
    }

    /// With every setting.
    ///
    /// # Errors
    /// As [`LSTM::new`].
    pub fn new_opt(input_size: i64, hidden_size: i64, options: RecurrentOptions) -> Result<Self> {
        Ok(Self { layers: Layers::new(input_size, hidden_size, 4, options)? })
    }

    fn extra_repr(&self) -> String {
        self.layers.repr()
    }

    /// The outputs (steps, batch, directions x hidden_size) of an input (steps, batch, input_size), and the last hidden and
    /// cell state of each layer and direction. `hx` are the first two; zeros if absent. Without a batch dimension where the
    /// input has none.
    ///
    /// # Errors
    /// For other shapes.
    pub fn forward(&self, input: &Tensor, hx: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, (Tensor, Tensor))> {
        let layers = &self.layers;
        let (input, batched) = layers.batched("LSTM", input)?;
        let hidden = layers.state("hidden[0]", &input, hx.map(|hx| hx.0), batched)?;
        let cell = layers.state("hidden[1]", &input, hx.map(|hx| hx.1), batched)?;
        let RecurrentOptions { num_layers, bias, batch_first, dropout, bidirectional, .. } = layers.options;
        let (output, hidden, cell) = ops::lstm_input(
            &input,
            &[&hidden, &cell],
            &layers.weights.tensors(),
            bias,
            num_layers,
            dropout,
            layers.training.get(),
            bidirectional,
            batch_first,
        )?;
        let output = Layers::unbatched(output, layers.batch_dim(), batched)?;
        Ok((output, (Layers::unbatched(hidden, 1, batched)?, Layers::unbatched(cell, 1, batched)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_backends_cpu as _;

    fn two() -> RecurrentOptions {
        RecurrentOptions::new().num_layers(2).bidirectional(true)
    }

    #[test]
    fn shapes_are_those_of_the_input() -> Result<()> {
        let x = Tensor::from_vec(vec![0.5f32; 5 * 2 * 4], &[5, 2, 4])?;
        let lstm = LSTM::new_opt(4, 3, two())?;
        let (y, (h, c)) = lstm.forward(&x, None)?;
        assert_eq!((y.sizes(), h.sizes(), c.sizes()), (&[5, 2, 6][..], &[4, 2, 3][..], &[4, 2, 3][..]));
        let one = ops::select_int(&x, 1, 0)?;
        let (y, h) = GRU::new_opt(4, 3, two().batch_first(true))?.forward(&one, None)?;
        assert_eq!((y.sizes(), h.sizes()), (&[5, 6][..], &[4, 3][..]));
        let (y, h) = RNN::relu(4, 3, RecurrentOptions::new())?
            .forward(&x, Some(&Tensor::from_vec(vec![0f32; 6], &[1, 2, 3])?))?;
        assert_eq!((y.sizes(), h.sizes()), (&[5, 2, 3][..], &[1, 2, 3][..]));
        assert!(lstm.forward(&one, Some((&h, &h))).is_err());
        Ok(())
    }

    #[test]
    fn names_and_texts_are_pytorchs() -> Result<()> {
        let lstm = LSTM::new_opt(4, 3, two().dropout(0.5))?;
        let names: Vec<String> = lstm.named_parameters().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names[..5], ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse"]);
        assert_eq!(lstm.repr(), "LSTM(4, 3, num_layers=2, dropout=0.5, bidirectional=True)");
        assert_eq!(GRU::new_opt(2, 3, RecurrentOptions::new().bias(false))?.repr(), "GRU(2, 3, bias=False)");
        Ok(())
    }
}
