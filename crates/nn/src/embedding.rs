//! [`Embedding`].

use tensor_aten::tensor_options::TensorOptions;
use tensor_aten::{Tensor, ops};
use tensor_autograd::no_grad;
use tensor_core::{Result, check};

use crate::linear::empty;
use crate::{Forward, Module, Parameter, init};

/// A row of `weight` for each index (`torch.nn.Embedding`): indices of any shape, output (.., embedding_dim).
#[derive(Module, Clone)]
#[module(crate = "tensor_nn", repr)]
pub struct Embedding {
    /// (num_embeddings, embedding_dim)
    pub weight: Parameter,
    padding_idx: Option<i64>,
    scale_grad_by_freq: bool,
}

impl Embedding {
    /// A table of normal numbers.
    ///
    /// # Errors
    /// When the sizes are negative or too large.
    pub fn new(num_embeddings: i64, embedding_dim: i64) -> Result<Self> {
        Self::new_opt(num_embeddings, embedding_dim, None, false, TensorOptions::new())
    }

    /// A table with every setting. The row `padding_idx` is zero and gets no gradient.
    ///
    /// # Errors
    /// As [`Embedding::new`], and when `padding_idx` is no row.
    pub fn new_opt(
        num_embeddings: i64,
        embedding_dim: i64,
        padding_idx: Option<i64>,
        scale_grad_by_freq: bool,
        options: TensorOptions,
    ) -> Result<Self> {
        let padding_idx = match padding_idx {
            Some(row) => {
                check!(row < num_embeddings && row >= -num_embeddings, "Padding_idx must be within num_embeddings");
                Some(if row < 0 { row + num_embeddings } else { row })
            }
            None => None,
        };
        let weight = empty(&[num_embeddings, embedding_dim], options)?;
        init::normal_(&weight, 0.0, 1.0)?;
        if let Some(row) = padding_idx {
            let _no_grad = no_grad();
            ops::fill_scalar_(&ops::select_int(&weight, 0, row)?, 0)?;
        }
        Ok(Self { weight, padding_idx, scale_grad_by_freq })
    }

    fn extra_repr(&self) -> String {
        let sizes = self.weight.sizes();
        let padding = self.padding_idx.map_or(String::new(), |row| format!(", padding_idx={row}"));
        format!("{}, {}{padding}", sizes[0], sizes[1])
    }
}

impl Forward for Embedding {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::embedding(&self.weight, input, self.padding_idx.unwrap_or(-1), self.scale_grad_by_freq, false)
    }
}
