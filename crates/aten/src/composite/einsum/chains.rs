//! Products of chains of matrices, in the order that takes the fewest multiplications.

use tensor_core::strides::Dims;
use tensor_core::{MemoryFormat, Result, bail, check};

use crate::{Tensor, ops};

/// Where to split chains `i..=j` of matrices for the fewest multiplications, from their sizes.
fn splits(sizes: &[i64]) -> Vec<Vec<usize>> {
    let n = sizes.len() - 1;
    let mut cost = vec![vec![0i64; n]; n];
    let mut split = vec![vec![0; n]; n];
    for length in 1..n {
        for i in 0..n - length {
            let j = i + length;
            cost[i][j] = i64::MAX;
            for k in i..j {
                let product = sizes[i].saturating_mul(sizes[k + 1]).saturating_mul(sizes[j + 1]);
                let total = cost[i][k].saturating_add(cost[k + 1][j]).saturating_add(product);
                if total < cost[i][j] {
                    cost[i][j] = total;
                    split[i][j] = k;
                }
            }
        }
    }
    split
}

fn chain(tensors: &[Tensor], split: &[Vec<usize>], i: usize, j: usize) -> Result<Tensor> {
    if i == j {
        return Ok(tensors[i].clone());
    }
    let k = split[i][j];
    ops::mm(&chain(tensors, split, i, k)?, &chain(tensors, split, k + 1, j)?)
}

/// The product of two or more matrices in the order that takes the fewest multiplications; the first and the last may be
/// vectors.
pub fn linalg_multi_dot(tensors: &[&Tensor]) -> Result<Tensor> {
    let n = tensors.len();
    check!(n >= 2, "multi_dot(): expected at least 2 tensors but got {n}");
    let (first, last) = (tensors[0], tensors[n - 1]);
    for (i, end) in [(0, first), (n - 1, last)] {
        check!(
            end.dim() == 1 || end.dim() == 2,
            "multi_dot(): {} tensor must be 1D or 2D but got {}D",
            if i == 0 { "the first" } else { "the last" },
            end.dim()
        );
    }
    let mut matrices: Vec<Tensor> = tensors.iter().copied().cloned().collect();
    if first.dim() == 1 {
        matrices[0] = ops::unsqueeze(first, 0)?;
    }
    if last.dim() == 1 {
        matrices[n - 1] = ops::unsqueeze(last, -1)?;
    }
    for (i, x) in matrices.iter().enumerate() {
        check!(x.dim() == 2, "multi_dot(): tensor {i} must be 2D but got {}D", x.dim());
        check!(
            x.dtype() == first.dtype(),
            "multi_dot(): all tensors must have be the same dtype but tensor 0 is {} and tensor {i} {}",
            first.dtype().cpp_name(),
            x.dtype().cpp_name()
        );
        if i > 0 {
            let (a, b) = (&matrices[i - 1], x);
            check!(
                a.sizes()[1] == b.sizes()[0],
                "multi_dot(): tensors {} and {i} with shapes [{}, {}] and [{}, {}] cannot be multiplied",
                i - 1,
                a.sizes()[0],
                a.sizes()[1],
                b.sizes()[0],
                b.sizes()[1]
            );
        }
    }
    let sizes: Vec<i64> = matrices.iter().map(|x| x.sizes()[0]).chain(matrices.last().map(|x| x.sizes()[1])).collect();
    let product = chain(&matrices, &splits(&sizes), 0, n - 1)?;
    let shape: Dims = [(first, 0), (last, 1)]
        .into_iter()
        .filter(|(end, _)| end.dim() == 2)
        .map(|(_, d)| product.sizes()[d])
        .collect();
    ops::view(&ops::contiguous(&product, MemoryFormat::Contiguous)?, &shape)
}

/// `linalg_multi_dot` under its older name, for matrices alone; of one, that one.
pub fn chain_matmul(matrices: &[&Tensor]) -> Result<Tensor> {
    for (i, x) in matrices.iter().enumerate() {
        check!(
            x.dim() == 2,
            "Tensor {} has {} dimensions, but chain_matmul expects matrices (2 dimensions)",
            i,
            x.dim()
        );
    }
    match matrices {
        [] => bail!(Runtime, "chain_matmul(): Expected one or more matrices"),
        [one] => Ok(Tensor::clone(one)),
        _ => ops::linalg_multi_dot(matrices),
    }
}
