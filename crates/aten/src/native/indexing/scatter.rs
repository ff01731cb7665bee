//! Elements chosen one by one along a dimension: `gather` reads them, the `scatter` operators write them.

use tensor_core::strides::{Dims, show, wrap_dim};
use tensor_core::{DType, MemoryFormat, Result, Scalar, bail, check, overlap};

use super::as_i64;
use super::dims::{out_of_bounds, plan_dim};
use super::plan::{Bounds, IndexPlan, flat};
use crate::kernels::{self, Columns, IndexingKernels, ScatterKernel};
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

fn check_dtype(name: &str, index: &Tensor) -> Result<()> {
    check!(
        index.numel() == 0 || matches!(index.dtype(), DType::I64 | DType::I32),
        "{name}(): Expected dtype int32/int64 for index"
    );
    Ok(())
}

/// Sizes with at least one dimension.
fn at_least_1d(sizes: &[i64]) -> &[i64] {
    if sizes.is_empty() { &[1] } else { sizes }
}

/// A tensor with at least one dimension.
fn as_at_least_1d(x: &Tensor) -> Result<Tensor> {
    if x.dim() == 0 { crate::composite::view::unsqueeze(x, 0) } else { Ok(Tensor::clone(x)) }
}

/// Indices as kernels read them: i64, row-major, at least one dimension.
fn dense_index(index: &Tensor) -> Result<Tensor> {
    let index = as_i64(index)?;
    let index = if index.is_contiguous() { index } else { ops::clone(&index, Some(MemoryFormat::Contiguous))? };
    as_at_least_1d(&index)
}

/// The indices along `d` if those of all places of the other dimensions are the same ones, expanded, and reach all of the
/// `sizes`: then whole slices are meant.
fn slice_index(sizes: &[i64], d: usize, index: &Tensor) -> Result<Option<Tensor>> {
    let shared = |k: usize| index.sizes()[k] == sizes[k] && (index.strides()[k] == 0 || sizes[k] == 1);
    if index.dim() < 2 || index.dim() != sizes.len() || !(0..sizes.len()).all(|k| k == d || shared(k)) {
        return Ok(None);
    }
    let one = |value: i64| Dims::from_slice(&[value]);
    let index = index.view_of_storage(&one(index.sizes()[d]), &one(index.strides()[d]), index.storage_offset())?;
    as_i64(&index).map(Some)
}

/// Plans the slices that [`slice_index`] means.
fn slice_plan(x: &Tensor, d: usize, index: &Tensor) -> Result<IndexPlan> {
    plan_dim(x, d, index, Bounds { wrap: false, refuse: out_of_bounds, first: d })
}

/// `out[i, j, k] = self[index[i, j, k], j, k]` for dimension 0.
pub fn gather(out: Out<'_>, self_: &Tensor, dim: i64, index: &Tensor, _sparse_grad: bool) -> Result<Tensor> {
    let (self_, index) = (&self_.pinned(), &index.pinned());
    let d = wrap_dim(dim, self_.dim())?;
    if let Some(target) = out.target(0) {
        overlap::assert_no_internal_overlap(target.as_impl())?;
        overlap::assert_no_overlap(target.as_impl(), self_.as_impl())?;
        overlap::assert_no_partial_overlap(target.as_impl(), index.as_impl())?;
    }
    check_dtype("gather", index)?;
    let (sizes, wanted) = (at_least_1d(self_.sizes()), at_least_1d(index.sizes()));
    if index.numel() > 0 {
        check!(sizes.len() == wanted.len(), "Index tensor must have the same number of dimensions as input tensor");
        for (i, (&size, &wanted)) in sizes.iter().zip(wanted).enumerate() {
            check!(
                i == d || wanted <= size,
                "Size does not match at dimension {i} expected index {} to be no larger than self {} apart from dimension {d}",
                show(index.sizes()),
                show(self_.sizes())
            );
        }
    }
    if !matches!(out, Out::Fresh) {
        // The kernel checks indices as it reads them.
        return super::finish(out, gather(Out::Fresh, self_, dim, index, _sparse_grad)?);
    }
    let slot = out.prepare(0, Spec::like(index.sizes(), self_), &[])?;
    if !slot.is_meta() && index.numel() > 0 {
        let table = kernels::indexing(self_.device())?;
        if let Some(slices) = slice_index(self_.sizes(), d, index)? {
            table.index.get(self_.dtype(), "gather_out_cpu")?(&slot.tensor, &slice_plan(self_, d, &slices)?)?;
            return slot.finish();
        }
        let kernel = table.gather.get(self_.dtype(), "gather_out_cpu")?;
        let strides = if self_.dim() == 0 { Dims::from_slice(&[1]) } else { Dims::from_slice(self_.strides()) };
        let result = as_at_least_1d(&slot.tensor)?;
        kernel(&result, &flat(self_)?, &dense_index(index)?, &strides, d, sizes[d])?;
    }
    slot.finish()
}

/// What a scatter does with an element that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduce {
    Assign,
    Add,
    Multiply,
    Mean,
    Largest,
    Smallest,
}

impl Reduce {
    /// The reductions of `scatter`.
    fn of_scatter(name: &str) -> Result<Self> {
        match name {
            "add" => Ok(Self::Add),
            "multiply" => Ok(Self::Multiply),
            _ => bail!(Runtime, "reduce argument must be either add or multiply."),
        }
    }

    /// The reductions of `scatter_reduce`.
    fn of_scatter_reduce(name: &str) -> Result<Self> {
        match name {
            "sum" => Ok(Self::Add),
            "prod" => Ok(Self::Multiply),
            "mean" => Ok(Self::Mean),
            "amax" | "max" => Ok(Self::Largest),
            "amin" | "min" => Ok(Self::Smallest),
            _ => bail!(Runtime, "reduce argument must be either sum, prod, mean, amax or amin, got {name}"),
        }
    }

    fn kernel(self, table: &IndexingKernels) -> (&Columns<ScatterKernel>, &'static str) {
        match self {
            Self::Assign => (&table.scatter, "scatter_gather_tensor_cpu"),
            Self::Add => (&table.scatter_add, "scatter_gather_tensor_cpu_reduce_add"),
            Self::Multiply => (&table.scatter_multiply, "scatter_gather_tensor_cpu_reduce_multiply"),
            Self::Mean => (&table.scatter_add, "scatter_gather_tensor_cpu_reduce_mean"),
            Self::Largest => (&table.scatter_amax, "scatter_gather_tensor_cpu_reduce_amax"),
            Self::Smallest => (&table.scatter_amin, "scatter_gather_tensor_cpu_reduce_amin"),
        }
    }

    /// The element that leaves others as they are.
    fn identity(self, dtype: DType) -> Scalar {
        let integral = |real: f64, lowest: bool| match dtype {
            DType::Bool => Scalar::Bool(!lowest),
            DType::U8 => Scalar::Int(if lowest { 0 } else { 255 }),
            DType::I8 => Scalar::Int(if lowest { i8::MIN.into() } else { i8::MAX.into() }),
            DType::I16 => Scalar::Int(if lowest { i16::MIN.into() } else { i16::MAX.into() }),
            DType::I32 => Scalar::Int(if lowest { i32::MIN.into() } else { i32::MAX.into() }),
            DType::I64 => Scalar::Int(if lowest { i64::MIN } else { i64::MAX }),
            _ => Scalar::Float(real),
        };
        match self {
            Self::Multiply => Scalar::Int(1),
            Self::Largest => integral(f64::NEG_INFINITY, true),
            Self::Smallest => integral(f64::INFINITY, false),
            _ => Scalar::Int(0),
        }
    }
}

/// What is scattered.
#[derive(Clone, Copy)]
enum Source<'a> {
    Tensor(&'a Tensor),
    Number(Scalar),
}

/// The checks that all scatters share; gives the dimension.
fn check_scatter(out: Out<'_>, self_: &Tensor, dim: i64, index: &Tensor, src: Option<&Tensor>) -> Result<usize> {
    let d = wrap_dim(dim, self_.dim())?;
    check_dtype("scatter", index)?;
    if let Some(src) = src {
        check!(self_.dtype() == src.dtype(), "scatter(): Expected self.dtype to be equal to src.dtype");
    }
    if index.numel() > 0 {
        let (sizes, wanted) = (at_least_1d(self_.sizes()), at_least_1d(index.sizes()));
        check!(sizes.len() == wanted.len(), "Index tensor must have the same number of dimensions as self tensor");
        let mut fits = sizes.iter().zip(wanted).enumerate().all(|(i, (size, wanted))| i == d || wanted <= size);
        if let Some(src) = src {
            let given = at_least_1d(src.sizes());
            check!(given.len() == wanted.len(), "Index tensor must have the same number of dimensions as src tensor");
            fits &= given.iter().zip(wanted).all(|(size, wanted)| wanted <= size);
            check!(
                fits,
                "Expected index {} to be no larger than self {} apart from dimension {d} and to be no larger size than src {}",
                show(index.sizes()),
                show(self_.sizes()),
                show(src.sizes())
            );
        }
        check!(
            fits,
            "Expected index {} to be no larger than self {} apart from dimension {d}",
            show(index.sizes()),
            show(self_.sizes())
        );
    }
    if let Some(target) = out.target(0) {
        overlap::assert_no_internal_overlap(target.as_impl())?;
        overlap::assert_no_overlap(target.as_impl(), index.as_impl())?;
        if let Some(src) = src {
            overlap::assert_no_overlap(target.as_impl(), src.as_impl())?;
        }
    }
    Ok(d)
}

/// A copy of `self` into which `run` scatters, by forms.
pub(super) fn into_copy(
    out: Out<'_>,
    self_: &Tensor,
    others: &[&Tensor],
    run: impl FnOnce(&Tensor) -> Result<()>,
) -> Result<Tensor> {
    let slot = out.prepare(0, Spec::like(self_.sizes(), self_), others)?;
    if !slot.is_meta() {
        // In place, `self` is the target.
        if !(slot.is_direct() && matches!(out, Out::InPlace(_))) {
            crate::composite::copy::copy_(&slot.tensor, self_, false)?;
        }
        run(&slot.tensor)?;
    }
    slot.finish()
}

/// Scatters into a row-major tensor.
fn write(result: &Tensor, d: usize, index: &Tensor, src: Source<'_>, reduce: Reduce) -> Result<()> {
    let table = kernels::indexing(result.device())?;
    let (columns, name) = reduce.kernel(table);
    let kernel = columns.get(result.dtype(), name)?;
    if index.numel() == 0 {
        return Ok(());
    }
    let number;
    let src = match src {
        Source::Tensor(src) => as_at_least_1d(src)?,
        Source::Number(value) => {
            value.check_fits(result.dtype())?;
            number = Tensor::scalar_tensor(value, result.dtype())?;
            number.view_of_storage(&[1; 1], &[0; 1], 0)?
        }
    };
    // As much of the source as the index speaks of.
    let index = as_at_least_1d(index)?;
    let strides =
        if src.dim() == index.dim() { Dims::from_slice(src.strides()) } else { Dims::from_elem(0, index.dim()) };
    let src = src.view_of_storage(index.sizes(), &strides, src.storage_offset())?;
    // Sums of halves are rounded once, which is not what slices are added by.
    let adds = reduce == Reduce::Add && result.dtype().opmath() == result.dtype();
    if (adds || reduce == Reduce::Assign)
        && let Some(slices) = slice_index(result.sizes(), d, &index)?
    {
        return table.index_put.get(result.dtype(), name)?(&slice_plan(result, d, &slices)?, &src, adds);
    }
    kernel(&as_at_least_1d(result)?, &dense_index(&index)?, &src, d)
}

fn scattered(
    out: Out<'_>,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: Source<'_>,
    reduce: Reduce,
) -> Result<Tensor> {
    let (self_, index) = (&self_.pinned(), &index.pinned());
    let pinned = match src {
        Source::Tensor(src) => Some(src.pinned()),
        Source::Number(_) => None,
    };
    let tensor = pinned.as_ref();
    let src = tensor.map_or(src, Source::Tensor);
    let d = check_scatter(out, self_, dim, index, tensor)?;
    let mut others = vec![index];
    others.extend(tensor);
    into_copy(out, self_, &others, |result| write(result, d, index, src, reduce))
}

/// `self` with `self[index[i, j, k], j, k] = src[i, j, k]` for dimension 0.
pub fn scatter_src(out: Out<'_>, self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scattered(out, self_, dim, index, Source::Tensor(src), Reduce::Assign)
}

/// [`scatter_src`] of a number.
pub fn scatter_value(out: Out<'_>, self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    scattered(out, self_, dim, index, Source::Number(value), Reduce::Assign)
}

/// [`scatter_src`] that adds or multiplies.
pub fn scatter_reduce(
    out: Out<'_>,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    scattered(out, self_, dim, index, Source::Tensor(src), Reduce::of_scatter(reduce)?)
}

/// [`scatter_value`] that adds or multiplies.
pub fn scatter_value_reduce(
    out: Out<'_>,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
    reduce: &str,
) -> Result<Tensor> {
    scattered(out, self_, dim, index, Source::Number(value), Reduce::of_scatter(reduce)?)
}

/// [`scatter_src`] that adds.
pub fn scatter_add(out: Out<'_>, self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scattered(out, self_, dim, index, Source::Tensor(src), Reduce::Add)
}

/// The elements of `src` that are scattered to one place, reduced; with those of `self` if `include_self`.
pub fn scatter_reduce_two(
    out: Out<'_>,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    let (self_, index, src) = (&self_.pinned(), &index.pinned(), &src.pinned());
    let d = check_scatter(out, self_, dim, index, Some(src))?;
    let op = Reduce::of_scatter_reduce(reduce)?;
    if op == Reduce::Mean && self_.dtype() == DType::Bool {
        bail!(NotImplemented, "\"scatter_gather_tensor_cpu_reduce_mean\" not implemented for 'Bool'");
    }
    into_copy(out, self_, &[index, src], |result| {
        if !include_self {
            write(result, d, index, Source::Number(op.identity(result.dtype())), Reduce::Assign)?;
        }
        write(result, d, index, Source::Tensor(src), op)?;
        if op == Reduce::Mean {
            divide_by_counts(result, d, index, include_self)?;
        }
        Ok(())
    })
}

/// Divides each element by how many were summed into it.
fn divide_by_counts(sums: &Tensor, d: usize, index: &Tensor, include_self: bool) -> Result<()> {
    let start = i64::from(include_self);
    let counts = ops::full(sums.sizes(), start, Some(sums.dtype()), None, Some(sums.device()), None)?;
    write(&counts, d, index, Source::Number(Scalar::Int(1)), Reduce::Add)?;
    ops::masked_fill_scalar_(&counts, &ops::eq_scalar(&counts, 0)?, 1)?;
    let rounding = if sums.dtype().is_differentiable() { None } else { Some("floor") };
    ops::div_tensor_mode_(sums, &counts, rounding)?;
    Ok(())
}
