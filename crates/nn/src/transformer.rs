//! [`TransformerEncoderLayer`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_core::Result;

use crate::options::options;
use crate::{
    AttentionArgs, Dropout, Forward, LayerNorm, LayerNormOptions, Linear, LinearOptions, Module, MultiheadAttention,
    MultiheadAttentionOptions,
};

/// What stands between the two linear layers of a [`TransformerEncoderLayer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransformerActivation {
    /// max(x, 0)
    ReLU,
    /// x times the normal distribution function of x
    GELU,
}

options! {
    /// The settings of a [`TransformerEncoderLayer`] that have defaults.
    TransformerEncoderLayerOptions {
        /// features between the two linear layers
        dim_feedforward: i64 = 2048,
        /// probability of the dropouts, in training
        dropout: f64 = 0.1,
        /// between the two linear layers
        activation: TransformerActivation = TransformerActivation::ReLU,
        /// added to the variance by the norms
        layer_norm_eps: f64 = 1e-5,
        /// (batch, steps, features) instead of (steps, batch, features)
        batch_first: bool = false,
        /// whether the norms come before attention and linear layers, not after them
        norm_first: bool = false,
        /// whether linear layers and norms have biases
        bias: bool = true,
        /// dtype and device of the parameters
        tensor: TensorOptions = TensorOptions::new(),
    }
}

/// Self-attention and two linear layers, each with a residual connection and a norm (`torch.nn.TransformerEncoderLayer`).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn")]
pub struct TransformerEncoderLayer {
    /// the attention of the steps to each other
    pub self_attn: MultiheadAttention,
    /// (d_model) to (dim_feedforward)
    pub linear1: Linear,
    dropout: Dropout,
    /// (dim_feedforward) to (d_model)
    pub linear2: Linear,
    /// of the attention
    pub norm1: LayerNorm,
    /// of the linear layers
    pub norm2: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    #[module(skip)]
    activation: TransformerActivation,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// A layer of `d_model` features, PyTorch's own numbers from the same seed.
    ///
    /// # Errors
    /// When the sizes are not positive, or the heads do not share the features evenly.
    pub fn new(d_model: i64, nhead: i64) -> Result<Self> {
        Self::new_opt(d_model, nhead, TransformerEncoderLayerOptions::new())
    }

    /// With every setting.
    ///
    /// # Errors
    /// As [`TransformerEncoderLayer::new`], and for a probability that is none.
    pub fn new_opt(d_model: i64, nhead: i64, options: TransformerEncoderLayerOptions) -> Result<Self> {
        let TransformerEncoderLayerOptions { dim_feedforward, dropout, batch_first, bias, tensor, .. } = options;
        let attention = MultiheadAttentionOptions::new().dropout(dropout).bias(bias);
        let attention = attention.batch_first(batch_first).tensor(tensor);
        let linear = || LinearOptions::new().bias(bias).tensor(tensor);
        let norm = || LayerNormOptions::new().eps(options.layer_norm_eps).bias(bias).tensor(tensor);
        Ok(Self {
            self_attn: MultiheadAttention::new_opt(d_model, nhead, attention)?,
            linear1: Linear::new_opt(d_model, dim_feedforward, linear())?,
            dropout: Dropout::new(dropout)?,
            linear2: Linear::new_opt(dim_feedforward, d_model, linear())?,
            norm1: LayerNorm::new_opt([d_model], norm())?,
            norm2: LayerNorm::new_opt([d_model], norm())?,
            dropout1: Dropout::new(dropout)?,
            dropout2: Dropout::new(dropout)?,
            activation: options.activation,
            norm_first: options.norm_first,
        })
    }

    /// The output for an input (steps, batch, d_model), with masks as [`AttentionArgs`] has them: of the attention, of the
    /// keys, and the hint that the first is causal.
    ///
    /// # Errors
    /// For inputs and masks that do not fit.
    pub fn forward_opt(
        &self,
        src: &Tensor,
        src_mask: Option<&Tensor>,
        src_key_padding_mask: Option<&Tensor>,
        is_causal: bool,
    ) -> Result<Tensor> {
        let args = AttentionArgs {
            key_padding_mask: src_key_padding_mask,
            need_weights: false,
            attn_mask: src_mask,
            is_causal,
            ..AttentionArgs::default()
        };
        let attend = |x: &Tensor| self.dropout1.forward(&self.self_attn.forward_opt(x, x, x, args)?.0);
        if self.norm_first {
            let x = ops::add(src, &attend(&self.norm1.forward(src)?)?, 1)?;
            return ops::add(&x, &self.feed_forward(&self.norm2.forward(&x)?)?, 1);
        }
        let x = self.norm1.forward(&ops::add(src, &attend(src)?, 1)?)?;
        self.norm2.forward(&ops::add(&x, &self.feed_forward(&x)?, 1)?)
    }

    fn feed_forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.linear1.forward(x)?;
        let x = match self.activation {
            TransformerActivation::ReLU => ops::relu(&x)?,
            TransformerActivation::GELU => ops::gelu(&x, "none")?,
        };
        self.dropout2.forward(&self.linear2.forward(&self.dropout.forward(&x)?)?)
    }
}

impl Forward for TransformerEncoderLayer {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.forward_opt(input, None, None, false)
    }
}
