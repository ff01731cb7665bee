//! [`Embedding`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_autograd::no_grad;
use tensor_core::{Result, check_value};

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
        if let Some(row) = options.padding_idx {
            let rows = -num_embeddings..num_embeddings;
            check_value!(rows.contains(&row), "Padding_idx must be within num_embeddings");
            options.padding_idx = Some(if row < 0 { row + num_embeddings } else { row });
        }
        let weight = empty(&[num_embeddings, embedding_dim], options.tensor)?;
        init::normal_(&weight, 0.0, 1.0)?;
        if let Some(row) = options.padding_idx {
            no_grad(|| ops::fill_scalar_(&ops::select_int(&weight, 0, row)?, 0).map(drop))?;
        }
        Ok(Self { weight, options })
    }

    fn extra_repr(&self) -> String {
        let sizes = self.weight.sizes();
        let padding = self.options.padding_idx.map_or(String::new(), |row| format!(", padding_idx={row}"));
        let scale = if self.options.scale_grad_by_freq { ", scale_grad_by_freq=True" } else { "" };
        format!("{}, {}{padding}{scale}", sizes[0], sizes[1])
    }
}

impl Forward for Embedding {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let padding = self.options.padding_idx.unwrap_or(-1);
        ops::embedding(&self.weight, input, padding, self.options.scale_grad_by_freq, false)
    }
}
