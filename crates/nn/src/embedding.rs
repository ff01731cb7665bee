//! [`Embedding`], [`EmbeddingBag`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_autograd::no_grad;
use tensor_core::{Result, bail, check_not_implemented, check_value};

use crate::options::options;
use crate::parameter::empty;
use crate::{Forward, Module, Parameter, init};

options! {
    /// The settings of an [`Embedding`] that have defaults.
    EmbeddingOptions {
        /// a row that is zero and gets no gradient
        padding_idx: Option<i64> = None,
        /// whether a row's gradient is divided by how often the row was looked up
        scale_grad_by_freq: bool = false,
        /// dtype and device of the table
        tensor: TensorOptions = TensorOptions::new(),
    }
}

/// A row of `weight` for each index (`torch.nn.Embedding`): indices of any shape, output (.., embedding_dim).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct Embedding {
    /// (num_embeddings, embedding_dim)
    pub weight: Parameter,
    options: EmbeddingOptions,
}

impl Embedding {
    /// A table of normal numbers.
    ///
    /// # Errors
    /// When the sizes are negative or too large.
    pub fn new(num_embeddings: i64, embedding_dim: i64) -> Result<Self> {
        Self::new_opt(num_embeddings, embedding_dim, EmbeddingOptions::new())
    }

    /// A table with every setting.
    ///
    /// # Errors
    /// As [`Embedding::new`], and when `padding_idx` is no row.
    pub fn new_opt(num_embeddings: i64, embedding_dim: i64, mut options: EmbeddingOptions) -> Result<Self> {
        options.padding_idx = padding_row(options.padding_idx, num_embeddings)?;
        let weight = table([num_embeddings, embedding_dim], options.padding_idx, options.tensor)?;
        Ok(Self { weight, options })
    }

    fn extra_repr(&self) -> String {
        let (rows, columns) = (self.weight.extent(0), self.weight.extent(1));
        let padding = self.options.padding_idx.map_or(String::new(), |row| format!(", padding_idx={row}"));
        let scale = if self.options.scale_grad_by_freq { ", scale_grad_by_freq=True" } else { "" };
        format!("{rows}, {columns}{padding}{scale}")
    }
}

impl Forward for Embedding {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let padding = self.options.padding_idx.unwrap_or(-1);
        ops::embedding(&self.weight, input, padding, self.options.scale_grad_by_freq, false)
    }
}

/// A row for padding, counted from the first one.
fn padding_row(row: Option<i64>, num_embeddings: i64) -> Result<Option<i64>> {
    let Some(row) = row else { return Ok(None) };
    let rows = -num_embeddings..num_embeddings;
    check_value!(rows.contains(&row), "Padding_idx must be within num_embeddings");
    Ok(Some(if row < 0 { row + num_embeddings } else { row }))
}

/// Normal numbers, and zeros in the row for padding.
fn table(sizes: [i64; 2], padding_idx: Option<i64>, options: TensorOptions) -> Result<Parameter> {
    let weight = empty(&sizes, options)?;
    init::normal_(&weight, 0.0, 1.0)?;
    if let Some(row) = padding_idx {
        no_grad(|| ops::fill_scalar_(&ops::select_int(&weight, 0, row)?, 0).map(drop))?;
    }
    Ok(weight)
}

/// What becomes of the rows of a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagMode {
    /// their sum
    Sum,
    /// their mean
    Mean,
    /// their maximum, element by element
    Max,
}

impl BagMode {
    fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Max => "max",
        }
    }

    /// As operators have it.
    fn code(self) -> i64 {
        match self {
            Self::Sum => 0,
            Self::Mean => 1,
            Self::Max => 2,
        }
    }
}

options! {
    /// The settings of an [`EmbeddingBag`] that have defaults.
    EmbeddingBagOptions {
        /// what becomes of the rows of a bag
        mode: BagMode = BagMode::Mean,
        /// a row that is left out of bags, and gets no gradient
        padding_idx: Option<i64> = None => Some(i64),
        /// whether a row's gradient is divided by how often the row was looked up
        scale_grad_by_freq: bool = false,
        /// whether the last offset is the number of indices, as in compressed rows
        include_last_offset: bool = false,
        /// dtype and device of the table
        tensor: TensorOptions = TensorOptions::new(),
    }
}

/// Sums, means or maxima of rows of `weight`, a bag of indices each (`torch.nn.EmbeddingBag`).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct EmbeddingBag {
    /// (num_embeddings, embedding_dim)
    pub weight: Parameter,
    options: EmbeddingBagOptions,
}

impl EmbeddingBag {
    /// A table of normal numbers, of whose rows means are taken.
    ///
    /// # Errors
    /// When the sizes are negative or too large.
    pub fn new(num_embeddings: i64, embedding_dim: i64) -> Result<Self> {
        Self::new_opt(num_embeddings, embedding_dim, EmbeddingBagOptions::new())
    }

    /// A table with every setting.
    ///
    /// # Errors
    /// As [`EmbeddingBag::new`], and when `padding_idx` is no row.
    pub fn new_opt(num_embeddings: i64, embedding_dim: i64, mut options: EmbeddingBagOptions) -> Result<Self> {
        options.padding_idx = padding_row(options.padding_idx, num_embeddings)?;
        let weight = table([num_embeddings, embedding_dim], options.padding_idx, options.tensor)?;
        Ok(Self { weight, options })
    }

    /// A row (bags, embedding_dim) for each bag. Bags are the rows of indices (bags, length); or parts of indices (N) that
    /// begin at `offsets` (bags). `per_sample_weights`, of the indices' shape, scale the rows of a sum.
    ///
    /// # Errors
    /// For indices without offsets that are no matrix, a matrix with offsets, weights of another shape or mode, and indices
    /// that are no rows.
    pub fn forward(
        &self,
        input: &Tensor,
        offsets: Option<&Tensor>,
        per_sample_weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        let EmbeddingBagOptions { mode, padding_idx, scale_grad_by_freq, include_last_offset, .. } = self.options;
        let show = tensor_core::strides::show;
        if let Some(weights) = per_sample_weights {
            check_value!(
                weights.sizes() == input.sizes(),
                "embedding_bag: If per_sample_weights ({}) is not None, then it must have the same shape as the input ({})",
                show(weights.sizes()),
                show(input.sizes())
            );
        }
        let starts = match (input.dim(), offsets) {
            (2, Some(_)) => bail!(
                Value,
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. \
                 However, found offsets of type <class 'torch.Tensor'>"
            ),
            (2, None) => {
                let (end, step) = (input.numel(), input.size(1)?.max(1));
                ops::arange_start_step(0, end, step, Some(input.dtype()), None, Some(input.device()), None)?
            }
            (1, None) => bail!(Value, "offsets has to be a 1D Tensor but got None"),
            (1, Some(offsets)) => {
                check_value!(offsets.dim() == 1, "offsets has to be a 1D Tensor");
                offsets.clone()
            }
            (dim, _) => bail!(Value, "input has to be 1D or 2D Tensor, but got Tensor of dimension {dim}"),
        };
        check_not_implemented!(
            per_sample_weights.is_none() || mode == BagMode::Sum,
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got \
             mode='{}'). Please open a feature request on GitHub.",
            mode.name()
        );
        let weights = per_sample_weights.map(|weights| ops::reshape(weights, &[-1])).transpose()?;
        let (bags, ..) = ops::embedding_bag_padding_idx(
            &self.weight,
            &ops::reshape(input, &[-1])?,
            &starts,
            scale_grad_by_freq,
            mode.code(),
            false,
            weights.as_ref(),
            include_last_offset,
            padding_idx,
        )?;
        Ok(bags)
    }

    fn extra_repr(&self) -> String {
        let (rows, columns) = (self.weight.extent(0), self.weight.extent(1));
        let EmbeddingBagOptions { mode, padding_idx, scale_grad_by_freq, .. } = self.options;
        let scale = if scale_grad_by_freq { ", scale_grad_by_freq=True" } else { "" };
        let padding = padding_idx.map_or(String::new(), |row| format!(", padding_idx={row}"));
        format!("{rows}, {columns}{scale}, mode='{}'{padding}", mode.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_backends_cpu as _;

    #[test]
    fn bags_are_rows_or_begin_at_offsets() -> Result<()> {
        let bag = EmbeddingBag::new_opt(4, 2, EmbeddingBagOptions::new().mode(BagMode::Sum))?;
        init::constant_(&bag.weight, 1.0)?;
        let indices = Tensor::from_vec(vec![0i64, 1, 2, 3, 0, 1], &[2, 3])?;
        let rows = bag.forward(&indices, None, None)?;
        assert_eq!((rows.sizes(), rows.to_vec::<f32>()?), (&[2, 2][..], vec![3.0; 4]));
        let (flat, offsets) = (indices.reshape(&[-1])?, Tensor::from_vec(vec![0i64, 1], &[2])?);
        let scale = Tensor::from_vec(vec![2f32; 6], &[6])?;
        let bags = bag.forward(&flat, Some(&offsets), Some(&scale))?;
        assert_eq!(bags.to_vec::<f32>()?, [2.0, 2.0, 10.0, 10.0]);
        assert!(bag.forward(&flat, None, None).is_err());
        assert!(bag.forward(&indices, Some(&offsets), None).is_err());
        assert!(EmbeddingBag::new(4, 2)?.forward(&flat, Some(&offsets), Some(&scale)).is_err());
        assert_eq!(bag.repr(), "EmbeddingBag(4, 2, mode='sum')");
        Ok(())
    }
}
