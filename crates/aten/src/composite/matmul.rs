//! Products that broadcast, and those that are written with other operators.

use tensor_core::strides::{self, Dims, show, wrap_dim};
use tensor_core::{Complex, DType, Result, Scalar, check, promotion};

use crate::out::check_unchanged;
use crate::{Tensor, ops};

/// True if the larger one of two tensors can be multiplied as one matrix, its leading dimensions folded into the rows.
fn folds(a: &Tensor, b: &Tensor) -> bool {
    let (m, n) = (a.as_impl().metadata(), b.as_impl().metadata());
    let a_larger = m.sizes.len() >= n.sizes.len();
    let (large, small) = if a_larger { (m, b) } else { (n, a) };
    if large.sizes.len() < 3 || m.sizes.len().min(n.sizes.len()) > 2 {
        return false;
    }
    // The gradient of the small one would be as large as the batch, before it is summed.
    if small.requires_grad() {
        return true;
    }
    if m.sizes.len() == 2 {
        return false;
    }
    if large.numel == 0 {
        return true;
    }
    let (mut sizes, mut strides) = (large.sizes.clone(), large.strides.clone());
    if !a_larger {
        let last = sizes.len() - 1;
        sizes.swap(last - 1, last);
        strides.swap(last - 1, last);
    }
    (0..sizes.len() - 2).all(|d| strides[d] == strides[d + 1] * sizes[d + 1])
}

/// The dimensions before the last one, and its size.
fn leading(sizes: &[i64]) -> Result<(&[i64], i64)> {
    match sizes {
        [lead @ .., last] => Ok((lead, *last)),
        [] => check_unchanged(false).map(|()| (sizes, 1)),
    }
}

/// The larger tensor's leading dimensions become rows of one product.
fn folded(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let swapped = b.dim() > a.dim();
    let large = if swapped { ops::transpose_int(b, -2, -1)? } else { a.clone() };
    let small = match (swapped, a.dim()) {
        (false, _) => b.clone(),
        (true, 2) => ops::t(a)?,
        (true, _) => a.clone(),
    };
    let (lead, last) = leading(large.sizes())?;
    let mut shape = Dims::from_slice(lead);
    let rows = ops::reshape(&large, &[lead.iter().product(), last])?;
    if small.dim() == 1 {
        return ops::_unsafe_view(&ops::mv(&rows, &small)?, &shape);
    }
    let product = ops::mm(&rows, &small)?;
    shape.push(product.size(1)?);
    let result = ops::_unsafe_view(&product, &shape)?;
    if swapped {
        ops::contiguous(&ops::transpose_int(&result, -2, -1)?, tensor_core::MemoryFormat::Contiguous)
    } else {
        Ok(result)
    }
}

/// Products of matrices whose batches broadcast.
fn batched(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (sizes_a, sizes_b) = (a.sizes(), b.sizes());
    let ((rest, inner), (_, last)) = (leading(sizes_a)?, leading(sizes_b)?);
    let lead = |sizes: &[i64]| Dims::from_slice(&sizes[..sizes.len().saturating_sub(2)]);
    let (lead_a, lead_b) = (lead(sizes_a), lead(sizes_b));
    if sizes_a.len() == 3 && sizes_b.len() == 3 && lead_a != lead_b {
        if lead_a[0] == 1 && a.requires_grad() {
            return matmul(&ops::squeeze_dim(a, 0)?, b);
        }
        if lead_b[0] == 1 && b.requires_grad() {
            return matmul(a, &ops::squeeze_dim(b, 0)?);
        }
    }
    let batch = strides::broadcast(&lead_a, &lead_b)?;
    let count: i64 = batch.iter().product();
    let flat = |x: &Tensor, matrix: &[i64]| -> Result<Tensor> {
        let shape: Dims = batch.iter().chain(matrix).copied().collect();
        let flat: Dims = [count].iter().chain(matrix).copied().collect();
        ops::reshape(&ops::expand(x, &shape, false)?, &flat)
    };
    let rows = rest.last().copied().unwrap_or(1);
    let flat_a = flat(a, &[rows, inner])?;
    let vector = sizes_b.len() == 1;
    let flat_b = if vector { ops::unsqueeze(&flat(b, sizes_b)?, 2)? } else { flat(b, &sizes_b[lead_b.len()..])? };
    let mut product = ops::bmm(&flat_a, &flat_b)?;
    let mut shape = batch.clone();
    if !rest.is_empty() {
        shape.push(rows);
    }
    if vector {
        product = ops::squeeze_dim(&product, -1)?;
    } else {
        shape.push(last);
    }
    ops::_unsafe_view(&product, &shape)
}

/// The product of vectors, matrices or batches of them.
pub fn matmul(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    check!(
        self_.dim() != 0 && other.dim() != 0,
        "both arguments to matmul need to be at least 1D, but they are {}D and {}D",
        self_.dim(),
        other.dim()
    );
    match (self_.dim(), other.dim()) {
        (1, 1) => ops::dot(self_, other),
        (2, 1) => ops::mv(self_, other),
        (1, 2) => {
            let row = ops::mm(&ops::unsqueeze(self_, 0)?, other)?;
            ops::squeeze_dim_(&row, 0)?;
            Ok(row)
        }
        (2, 2) => ops::mm(self_, other),
        _ if folds(self_, other) => folded(self_, other),
        _ => batched(self_, other),
    }
}

/// `matmul` under its name in `linalg`.
pub fn linalg_matmul(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::matmul(self_, other)
}

/// `input @ weight.t() + bias`.
pub fn linear(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    check!(
        input.dim() != 0 && weight.dim() != 0,
        "both arguments to linear need to be at least 1D, but they are {}D and {}D",
        input.dim(),
        weight.dim()
    );
    let transposed = ops::t(weight)?;
    let Some(bias) = bias else { return ops::matmul(input, &transposed) };
    if input.dim() == 2 {
        return ops::addmm(bias, input, &transposed, 1, 1);
    }
    let one_row = bias.is_contiguous() && (bias.dim() == 1 || (bias.dim() == 2 && bias.sizes()[0] == 1));
    if input.is_contiguous() && one_row {
        let (lead, last) = leading(input.sizes())?;
        let rows = ops::reshape(input, &[lead.iter().product(), last])?;
        let result = ops::addmm(bias, &rows, &transposed, 1, 1)?;
        let shape: Dims = lead.iter().copied().chain([result.size(1)?]).collect();
        return ops::_unsafe_view(&result, &shape);
    }
    let result = ops::matmul(input, &transposed)?;
    ops::add_(&result, bias, 1)?;
    Ok(result)
}

fn check_vector(op: &str, name: &str, x: &Tensor) -> Result<()> {
    check!(x.dim() == 1, "{op}: Expected 1-D argument {name}, but got {}-D", x.dim());
    Ok(())
}

/// The products of all pairs of elements of two vectors.
pub fn outer(self_: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    check_vector("outer", "self", self_)?;
    check_vector("outer", "vec2", vec2)?;
    ops::mul(&ops::reshape(self_, &[self_.numel(), 1])?, vec2)
}

/// `outer` under its older name.
pub fn ger(self_: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    ops::outer(self_, vec2)
}

/// Refuses factors that the result's dtype cannot hold.
fn check_outer_factor(name: &str, dtype: DType, factor: Scalar) -> Result<()> {
    check!(
        !matches!(factor, Scalar::Bool(_)) || dtype == DType::Bool,
        "Boolean {name} only supported for Boolean results."
    );
    check!(
        dtype.is_differentiable() || factor.is_integral(true),
        "For integral input tensors, argument {name} must not be a floating point number."
    );
    Ok(())
}

/// `beta * self + alpha * outer(vec1, vec2)`; old values do not matter where `beta` is 0.
pub fn addr(self_: &Tensor, vec1: &Tensor, vec2: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    check_vector("addr", "vec1", vec1)?;
    check_vector("addr", "vec2", vec2)?;
    let dtype = [vec1, vec2].iter().fold(self_.dtype(), |dtype, x| promotion::promote_types(dtype, x.dtype()));
    check_outer_factor("beta", dtype, beta)?;
    check_outer_factor("alpha", dtype, alpha)?;
    let shape = [vec1.numel(), vec2.numel()];
    let old = ops::expand(self_, &shape, false)?;
    let scaled = |x: &Tensor, factor: Scalar| match factor.to_complex() == Complex::new(1.0, 0.0) {
        true => Ok(x.clone()),
        false => ops::mul_scalar(x, factor),
    };
    let product = ops::mul(&scaled(&ops::reshape(vec1, &[shape[0], 1])?, alpha)?, vec2)?;
    let result = if beta.to_complex() == Complex::new(0.0, 0.0) {
        product
    } else {
        ops::add(&scaled(&old, beta)?, &product, 1)?
    };
    ops::to_dtype(&result, dtype, false, false, None)
}

/// `addr` in place.
pub fn addr_(self_: &Tensor, vec1: &Tensor, vec2: &Tensor, beta: Scalar, alpha: Scalar) -> Result<()> {
    check!(self_.dim() == 2, "2D tensor expected, got {}D tensor for input", self_.dim());
    let result = addr(self_, vec1, vec2, beta, alpha)?;
    check!(
        self_.sizes() == result.sizes(),
        "output with shape [{}] doesn't match the broadcast shape [{}]",
        join(self_.sizes()),
        join(result.sizes())
    );
    check!(
        promotion::can_cast(result.dtype(), self_.dtype()),
        "result type {} can't be cast to the desired output type {}",
        result.dtype().cpp_name(),
        self_.dtype().cpp_name()
    );
    ops::copy_(self_, &result, false)?;
    Ok(())
}

fn join(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

/// The sums of products over the last dimensions.
pub fn inner(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    if self_.dim() == 0 || other.dim() == 0 {
        return ops::mul(self_, other);
    }
    check!(
        self_.size(-1)? == other.size(-1)?,
        "inner() the last dimension must match on both input tensors but got shapes {} and {}",
        show(self_.sizes()),
        show(other.sizes())
    );
    ops::tensordot(self_, other, &[-1], &[-1])
}

/// The sums of products over pairs of dimensions.
pub fn tensordot(self_: &Tensor, other: &Tensor, dims_self: &[i64], dims_other: &[i64]) -> Result<Tensor> {
    check!(dims_self.len() == dims_other.len(), "both dimension lists should have same length");
    check!(
        self_.dtype() == other.dtype(),
        "both inputs should have same dtype, but got {} and {}",
        self_.dtype().cpp_name(),
        other.dtype().cpp_name()
    );
    let (mut a, mut b) = (self_.clone(), other.clone());
    let (mut taken_a, mut taken_b) = (Dims::new(), Dims::new());
    let mut contracted = 1;
    for (&da, &db) in dims_self.iter().zip(dims_other) {
        let (da, db) = (wrap_dim(da, a.dim())? as i64, wrap_dim(db, b.dim())? as i64);
        for (d, taken) in [(da, &taken_a), (db, &taken_b)] {
            check!(!taken.contains(&d), "dim {d} appears multiple times in the list of dims");
        }
        let (size_a, size_b) = (a.size(da)?, b.size(db)?);
        if size_b == 1 {
            a = ops::sum_dim_int_list(&a, Some(&[da]), true, Some(a.dtype()))?;
        } else if size_a == 1 {
            b = ops::sum_dim_int_list(&b, Some(&[db]), true, Some(b.dtype()))?;
        } else {
            check!(
                size_a == size_b,
                "contracted dimensions need to match, but first has size {size_a} in dim {da} and second has size \
                 {size_b} in dim {db}"
            );
            contracted *= size_a;
        }
        taken_a.push(da);
        taken_b.push(db);
    }
    let free = |x: &Tensor, taken: &Dims| -> Dims { (0..x.dim() as i64).filter(|d| !taken.contains(d)).collect() };
    let (free_a, free_b) = (free(&a, &taken_a), free(&b, &taken_b));
    // Of a shape that changed meanwhile the permutation says that it does not fit.
    let sizes_of = |x: &Tensor, dims: &Dims| -> Dims {
        let sizes = x.sizes();
        dims.iter().map(|&d| sizes.get(d as usize).copied().unwrap_or(0)).collect()
    };
    let (rows, columns) = (sizes_of(&a, &free_a), sizes_of(&b, &free_b));
    let order_a: Dims = free_a.iter().chain(&taken_a).copied().collect();
    let order_b: Dims = taken_b.iter().chain(&free_b).copied().collect();
    let a = ops::reshape(&ops::permute(&a, &order_a)?, &[rows.iter().product(), contracted])?;
    let b = ops::reshape(&ops::permute(&b, &order_b)?, &[contracted, columns.iter().product()])?;
    let shape: Dims = rows.iter().chain(&columns).copied().collect();
    ops::reshape(&ops::mm(&a, &b)?, &shape)
}

/// The Kronecker product.
pub fn kron(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let (a, b) = (self_.sizes(), other.sizes());
    let dims = a.len().max(b.len());
    let padded =
        |sizes: &[i64]| -> Dims { std::iter::repeat_n(1, dims - sizes.len()).chain(sizes.iter().copied()).collect() };
    let (a, b) = (padded(a), padded(b));
    let outer: Dims = a.iter().flat_map(|&n| [n, 1]).collect();
    let inner: Dims = b.iter().flat_map(|&n| [1, n]).collect();
    let shape: Dims = a.iter().zip(&b).map(|(a, b)| a * b).collect();
    let product = ops::mul(&ops::reshape(self_, &outer)?, &ops::reshape(other, &inner)?)?;
    // The product takes its layout from the operands.
    ops::_unsafe_view(&ops::contiguous(&product, tensor_core::MemoryFormat::Contiguous)?, &shape)
}
