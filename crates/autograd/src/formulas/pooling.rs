//! Second derivatives of pooling.

use tensor_aten::{Tensor, ops};
use tensor_core::Result;

/// The gradient of a maximum's gradient: what lies at the places of the largest elements, over `dims` dimensions.
pub fn max_pool_double_backward(grad: &Tensor, indices: &Tensor, dims: i64) -> Result<Tensor> {
    let flat = |x: &Tensor| ops::flatten_using_ints(x, -dims, -1);
    let taken = ops::gather(&flat(grad)?, -1, &flat(indices)?, false)?;
    ops::view(&taken, indices.sizes())
}
