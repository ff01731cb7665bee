//! [`MultiheadAttention`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_core::{DType, MemoryFormat, Result, bail, check, check_value};

use crate::options::options;
use crate::parameter::empty;
use crate::{Forward, Linear, LinearOptions, Module, Parameter, Training, init, python};

options! {
    /// The settings of a [`MultiheadAttention`] that have defaults.
    MultiheadAttentionOptions {
        /// probability of a dropout on the attention weights, in training
        dropout: f64 = 0.0,
        /// whether the projections have biases
        bias: bool = true,
        /// whether a learned key and value are appended
        add_bias_kv: bool = false,
        /// whether a key and a value of zeros are appended
        add_zero_attn: bool = false,
        /// features of the keys, if not `embed_dim`
        kdim: Option<i64> = None => Some(i64),
        /// features of the values, if not `embed_dim`
        vdim: Option<i64> = None => Some(i64),
        /// (batch, steps, features) instead of (steps, batch, features)
        batch_first: bool = false,
        /// dtype and device of the parameters
        tensor: TensorOptions = TensorOptions::new(),
    }
}

/// What a call of [`MultiheadAttention::forward_opt`] takes beside its inputs.
#[derive(Clone, Copy)]
pub struct AttentionArgs<'a> {
    /// (batch, source steps): keys that are left out where it is true, or what is added to their scores
    pub key_padding_mask: Option<&'a Tensor>,
    /// whether the weights are returned as well; without them attention is fused
    pub need_weights: bool,
    /// (target steps, source steps), or (batch x heads, ..): scores that are left out, or what is added to them
    pub attn_mask: Option<&'a Tensor>,
    /// whether the weights that are returned are the mean over the heads
    pub average_attn_weights: bool,
    /// a hint that `attn_mask` is the causal one
    pub is_causal: bool,
}

impl Default for AttentionArgs<'_> {
    fn default() -> Self {
        Self {
            key_padding_mask: None,
            need_weights: true,
            attn_mask: None,
            average_attn_weights: true,
            is_causal: false,
        }
    }
}

/// Attention of several heads, each over its part of the projected features (`torch.nn.MultiheadAttention`; "Attention Is
/// All You Need", 2017).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn")]
pub struct MultiheadAttention {
    /// (3 x embed_dim, embed_dim): of queries, keys and values, if all have `embed_dim` features
    pub in_proj_weight: Option<Parameter>,
    /// (embed_dim, embed_dim), if keys or values have other features
    pub q_proj_weight: Option<Parameter>,
    /// (embed_dim, kdim)
    pub k_proj_weight: Option<Parameter>,
    /// (embed_dim, vdim)
    pub v_proj_weight: Option<Parameter>,
    /// (3 x embed_dim)
    pub in_proj_bias: Option<Parameter>,
    /// the projection of the heads' outputs, side by side (PyTorch prints it as `NonDynamicallyQuantizableLinear`)
    pub out_proj: Linear,
    /// (1, 1, embed_dim)
    pub bias_k: Option<Parameter>,
    /// (1, 1, embed_dim)
    pub bias_v: Option<Parameter>,
    embed_dim: i64,
    num_heads: i64,
    options: MultiheadAttentionOptions,
    training: Training,
}

impl MultiheadAttention {
    /// Attention with biases. The weights are Glorot's uniform ones, PyTorch's own numbers from the same seed; biases are 0.
    ///
    /// # Errors
    /// When the sizes are not positive, or the heads do not share the features evenly.
    pub fn new(embed_dim: i64, num_heads: i64) -> Result<Self> {
        Self::new_opt(embed_dim, num_heads, MultiheadAttentionOptions::new())
    }

    /// With every setting.
    ///
    /// # Errors
    /// As [`MultiheadAttention::new`].
    pub fn new_opt(embed_dim: i64, num_heads: i64, options: MultiheadAttentionOptions) -> Result<Self> {
        check_value!(
            embed_dim > 0 && num_heads > 0,
            "embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
        );
        check!(embed_dim % num_heads == 0, "embed_dim must be divisible by num_heads");
        let (kdim, vdim) = (options.kdim.unwrap_or(embed_dim), options.vdim.unwrap_or(embed_dim));
        let same = kdim == embed_dim && vdim == embed_dim;
        let parameter = |wanted: bool, sizes: &[i64]| wanted.then(|| empty(sizes, options.tensor)).transpose();
        let linear = LinearOptions::new().bias(options.bias).tensor(options.tensor);
        let module = Self {
            in_proj_weight: parameter(same, &[3 * embed_dim, embed_dim])?,
            q_proj_weight: parameter(!same, &[embed_dim, embed_dim])?,
            k_proj_weight: parameter(!same, &[embed_dim, kdim])?,
            v_proj_weight: parameter(!same, &[embed_dim, vdim])?,
            in_proj_bias: parameter(options.bias, &[3 * embed_dim])?,
            out_proj: Linear::new_opt(embed_dim, embed_dim, linear)?,
            bias_k: parameter(options.add_bias_kv, &[1, 1, embed_dim])?,
            bias_v: parameter(options.add_bias_kv, &[1, 1, embed_dim])?,
            embed_dim,
            num_heads,
            options,
            training: Training::default(),
        };
        let weights = [&module.in_proj_weight, &module.q_proj_weight, &module.k_proj_weight, &module.v_proj_weight];
        weights.into_iter().flatten().try_for_each(|weight| init::xavier_uniform_(weight, 1.0))?;
        [&module.in_proj_bias, &module.out_proj.bias].into_iter().flatten().try_for_each(|bias| init::zeros_(bias))?;
        [&module.bias_k, &module.bias_v].into_iter().flatten().try_for_each(|bias| init::xavier_normal_(bias, 1.0))?;
        Ok(module)
    }

    /// The output (target steps, batch, embed_dim) of queries (target steps, batch, embed_dim), keys (source steps, batch,
    /// kdim) and values (source steps, batch, vdim), and the attention weights (batch, target steps, source steps), the mean
    /// over the heads. Without a batch dimension where the inputs have none.
    ///
    /// # Errors
    /// For other shapes.
    pub fn forward(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
        self.forward_opt(query, key, value, AttentionArgs::default())
    }

    /// [`MultiheadAttention::forward`] with every argument. The weights of single heads are (batch, heads, target steps,
    /// source steps).
    ///
    /// # Errors
    /// As there, for masks that do not fit, and for the causal hint without a mask.
    pub fn forward_opt(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        args: AttentionArgs<'_>,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let batched = check_shapes([query, key, value], &args)?;
        let [q, k, v] = self.projected([query, key, value], batched)?;
        let (steps, batch, sources) = (q.size(0)?, q.size(1)?, k.size(0)?);
        let masks = Masks::new(&args, q.dtype(), [batch, self.num_heads, steps, sources])?;
        let (k, v, masks) = self.appended(k, v, masks)?;
        let [q, k, v] = [self.by_head(&q)?, self.by_head(&k)?, self.by_head(&v)?];
        let (k, v, masks) = if self.options.add_zero_attn {
            (with_zeros(&k)?, with_zeros(&v)?, masks.padded()?)
        } else {
            (k, v, masks)
        };
        let (output, weights) = if args.need_weights {
            let (output, weights) = self.weighted(&q, &k, &v, masks.merged()?)?;
            (output, Some(if args.average_attn_weights { mean_of_heads(&weights)? } else { weights }))
        } else {
            let dropout = if self.training.get() { self.options.dropout } else { 0.0 };
            let mask = masks.merged()?;
            let output =
                ops::scaled_dot_product_attention(&q, &k, &v, mask.as_ref(), dropout, masks.causal, None, false)?;
            (output, None)
        };
        // (batch, heads, steps, features of a head) to (steps, batch, embed_dim)
        let output = ops::reshape(&ops::permute(&output, &[2, 0, 1, 3])?, &[steps, batch, self.embed_dim])?;
        let output = self.out_proj.forward(&output)?;
        if !batched {
            let weights = weights.map(|weights| ops::squeeze_dim(&weights, 0)).transpose()?;
            return Ok((ops::squeeze_dim(&output, 1)?, weights));
        }
        Ok((if self.options.batch_first { ops::transpose_int(&output, 1, 0)? } else { output }, weights))
    }

    /// The projected queries, keys and values: (steps, batch, embed_dim).
    fn projected(&self, inputs: [&Tensor; 3], batched: bool) -> Result<[Tensor; 3]> {
        let [query, key, value] = inputs;
        let features = query.size(-1)?;
        check!(
            features == self.embed_dim,
            "was expecting embedding dimension of {}, but got {features}",
            self.embed_dim
        );
        if self.in_proj_weight.is_some() {
            check!(
                key.sizes() == value.sizes(),
                "key shape {} does not match value shape {}",
                size(key.sizes()),
                size(value.sizes())
            );
        } else {
            let outer = |t: &Tensor| t.sizes()[..t.sizes().len() - 1].to_vec();
            check!(
                outer(key) == outer(value),
                "key's sequence and batch dims {} do not match value's {}",
                size(&outer(key)),
                size(&outer(value))
            );
        }
        let by_step = |input: &Tensor| {
            if !batched {
                return ops::unsqueeze(input, 1);
            }
            if self.options.batch_first { ops::transpose_int(input, 1, 0) } else { Ok(input.clone()) }
        };
        let biases = self.in_proj_bias.as_deref().map(|bias| self.thirds(bias, 0)).transpose()?;
        let weights = match &self.in_proj_weight {
            // One product for what attends to itself.
            Some(weight) if query.is_same(key) && key.is_same(value) => {
                let all = ops::linear(&by_step(query)?, weight, self.in_proj_bias.as_deref())?;
                return self.thirds(&all, -1);
            }
            Some(weight) => self.thirds(weight, 0)?,
            None => {
                let (Some(q), Some(k), Some(v)) = (&self.q_proj_weight, &self.k_proj_weight, &self.v_proj_weight)
                else {
                    bail!(
                        Runtime,
                        "use_separate_proj_weight is True but q_proj_weight, k_proj_weight or v_proj_weight is None"
                    );
                };
                [q, k, v].map(|weight| weight.tensor().clone())
            }
        };
        let bias = |i: usize| biases.as_ref().map(|biases| &biases[i]);
        let project = |i: usize| ops::linear(&by_step(inputs[i])?, &weights[i], bias(i));
        Ok([project(0)?, project(1)?, project(2)?])
    }

    /// What belongs to queries, keys and values, side by side in a dimension.
    fn thirds(&self, x: &Tensor, dim: i64) -> Result<[Tensor; 3]> {
        let third = |i: i64| ops::narrow(x, dim, i * self.embed_dim, self.embed_dim);
        Ok([third(0)?, third(1)?, third(2)?])
    }

    /// Keys and values with the learned ones after them.
    fn appended(&self, k: Tensor, v: Tensor, masks: Masks) -> Result<(Tensor, Tensor, Masks)> {
        let (Some(bias_k), Some(bias_v)) = (&self.bias_k, &self.bias_v) else { return Ok((k, v, masks)) };
        let with = |x: &Tensor, bias: &Tensor| ops::cat(&[x, &ops::repeat(bias, &[1, x.size(1)?, 1])?], 0);
        Ok((with(&k, bias_k)?, with(&v, bias_v)?, masks.padded()?))
    }

    /// (steps, batch, embed_dim) as (batch, heads, steps, features of a head).
    fn by_head(&self, x: &Tensor) -> Result<Tensor> {
        let shape = [x.size(0)?, x.size(1)?, self.num_heads, self.embed_dim / self.num_heads];
        ops::permute(&ops::reshape(x, &shape)?, &[1, 2, 0, 3])
    }

    /// Attention by its definition, and its weights.
    fn weighted(&self, q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<Tensor>) -> Result<(Tensor, Tensor)> {
        let scaled = ops::mul_scalar(q, (1.0 / q.size(-1)? as f64).sqrt())?;
        let scores = ops::matmul(&scaled, &ops::transpose_int(k, -2, -1)?)?;
        let scores = match &mask {
            Some(mask) => ops::add(&scores, mask, 1)?,
            None => scores,
        };
        let weights = ops::softmax_int(&scores, -1, None)?;
        let weights = if self.options.dropout > 0.0 {
            ops::dropout(&weights, self.options.dropout, self.training.get())?
        } else {
            weights
        };
        Ok((ops::matmul(&weights, v)?, weights))
    }
}

/// Sizes as Python prints them.
fn size(sizes: &[i64]) -> String {
    format!("torch.Size({})", tensor_core::strides::show(sizes))
}

fn mean_of_heads(weights: &Tensor) -> Result<Tensor> {
    ops::mean_dim(weights, Some(&[1]), false, None)
}

/// Keys or values with one of zeros after them.
fn with_zeros(x: &Tensor) -> Result<Tensor> {
    ops::constant_pad_nd(x, &[0, 0, 0, 1], 0)
}

/// True if the inputs have a batch dimension, which all of them or none must have.
fn check_shapes([query, key, value]: [&Tensor; 3], args: &AttentionArgs<'_>) -> Result<bool> {
    let dim = query.dim();
    check!(matches!(dim, 2 | 3), "query should be unbatched 2D or batched 3D tensor but received {dim}-D query tensor");
    let kind = if dim == 3 { "batched (3-D)" } else { "unbatched (2-D)" };
    check!(
        key.dim() == dim && value.dim() == dim,
        "For {kind} `query`, expected `key` and `value` to be {dim}-D but found {}-D and {}-D tensors respectively",
        key.dim(),
        value.dim()
    );
    if let Some(mask) = args.key_padding_mask {
        check!(
            mask.dim() == dim - 1,
            "For {kind} `query`, expected `key_padding_mask` to be `None` or {}-D but found {}-D tensor instead",
            dim - 1,
            mask.dim()
        );
    }
    if let Some(mask) = args.attn_mask {
        check!(
            matches!(mask.dim(), 2 | 3),
            "For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {}-D tensor instead",
            mask.dim()
        );
    }
    Ok(dim == 3)
}

/// What is added to the scores, each broadcastable to (batch, heads, target steps, source steps).
struct Masks {
    attention: Option<Tensor>,
    padding: Option<Tensor>,
    /// The fused kernel leaves out what is later; there is no mask then.
    causal: bool,
}

impl Masks {
    fn new(args: &AttentionArgs<'_>, dtype: DType, [batch, heads, steps, sources]: [i64; 4]) -> Result<Self> {
        check!(!args.is_causal || args.attn_mask.is_some(), "Need attn_mask if specifying the is_causal hint.");
        let padding = args.key_padding_mask.map(|mask| {
            let mask = added(mask, "key_padding_mask", dtype)?;
            let sizes = if let [length] = mask.sizes() { [1, *length] } else { [mask.size(0)?, mask.size(1)?] };
            for (dim, (size, expected)) in sizes.into_iter().zip([batch, sources]).enumerate() {
                check!(size == expected, "Expected key_padded_mask.shape[{dim}] to be {expected}, but got {size}");
            }
            ops::reshape(&mask, &[batch, 1, 1, sources])
        });
        let padding = padding.transpose()?;
        if args.is_causal && padding.is_none() && !args.need_weights {
            return Ok(Self { attention: None, padding, causal: true });
        }
        let attention = args.attn_mask.map(|mask| {
            let mask = added(mask, "attn_mask", dtype)?;
            let single = mask.dim() == 2;
            let shape = if single { vec![steps, sources] } else { vec![batch * heads, steps, sources] };
            check!(
                mask.sizes() == shape,
                "The shape of the {}D attn_mask is {}, but should be {}.",
                mask.dim(),
                size(mask.sizes()),
                python::tuple(&shape)
            );
            if single { Ok(mask) } else { ops::reshape(&mask, &[batch, heads, steps, sources]) }
        });
        Ok(Self { attention: attention.transpose()?, padding, causal: false })
    }

    /// The masks for one more key, which is not left out.
    fn padded(self) -> Result<Self> {
        let pad = |mask: Option<Tensor>| mask.map(|mask| ops::constant_pad_nd(&mask, &[0, 1], 0)).transpose();
        Ok(Self { attention: pad(self.attention)?, padding: pad(self.padding)?, causal: self.causal })
    }

    /// Their sum.
    fn merged(&self) -> Result<Option<Tensor>> {
        match (&self.attention, &self.padding) {
            (Some(attention), Some(padding)) => ops::add(attention, padding, 1).map(Some),
            (one, other) => Ok(one.as_ref().or(other.as_ref()).cloned()),
        }
    }
}

/// A mask as what is added: minus infinity where a boolean one is true.
fn added(mask: &Tensor, name: &str, dtype: DType) -> Result<Tensor> {
    if mask.dtype() != DType::Bool {
        check!(mask.is_floating_point(), "only bool and floating types of {name} are supported");
        return Ok(mask.clone());
    }
    let zeros = ops::zeros_like(mask, Some(dtype), None, None, None, Some(MemoryFormat::Preserve))?;
    ops::masked_fill_scalar(&zeros, mask, f64::NEG_INFINITY)
}
