//! Matrix products: checks, shapes and the call of a GEMM. Products that broadcast are composites.

use smallvec::SmallVec;
use tensor_core::iter::IterConfig;
use tensor_core::strides;
use tensor_core::{DType, Result, Scalar, bail, check};

use crate::composite::view;
use crate::kernels::{self, MatmulKernels};
use crate::out::{Out, Spec, check_unchanged};
use crate::{Tensor, ops};

/// Rows and columns. Kernels check again that their matrices fit, under the lock.
fn matrix_sizes(op: &str, name: &str, x: &Tensor) -> Result<[i64; 2]> {
    match *x.sizes() {
        [rows, cols] => Ok([rows, cols]),
        ref sizes => bail!(Runtime, "{op}: {name} must be a matrix, got {}-D tensor", sizes.len()),
    }
}

/// Refuses a complex factor of a real product.
fn check_factors(dtype: DType, factors: [Scalar; 2]) -> Result<()> {
    check!(
        dtype.is_complex() || !factors.iter().any(|factor| factor.is_complex()),
        "value cannot be converted to type {} without overflow",
        dtype.c_name()
    );
    Ok(())
}

fn is_zero(number: Scalar) -> bool {
    number.to_complex() == tensor_core::Complex::new(0.0, 0.0)
}

/// A vector as a matrix of one column.
fn column(x: &Tensor) -> Result<Tensor> {
    let m = x.as_impl().metadata();
    check_unchanged(m.sizes.len() <= 1)?;
    let stride = m.strides.first().copied().unwrap_or(1);
    Tensor::view_of(m, &[m.numel, 1], &[stride, 1], m.offset)
}

/// A spec that leaves an out tensor of the right shape its strides: products are written through any.
fn spec(out: Out<'_>, sizes: &[i64], like: &Tensor) -> Spec {
    let mut spec = Spec::like(sizes, like);
    spec.strides = out.target(0).filter(|t| t.sizes() == sizes).map(|t| strides::dims(t.strides()));
    spec
}

/// A filled slot: `run(slot)` unless there is nothing to compute.
fn fill(
    out: Out<'_>,
    spec: Spec,
    inputs: &[&Tensor],
    run: impl FnOnce(&MatmulKernels, &Tensor) -> Result<()>,
) -> Result<Tensor> {
    let slot = out.prepare(0, spec, inputs)?;
    if !slot.is_meta() && slot.tensor.numel() > 0 {
        run(kernels::matmul(slot.tensor.device())?, &slot.tensor)?;
    }
    slot.finish()
}

/// Writes `src`, which has `out`'s shape, without counting a write.
pub(super) fn write(out: &Tensor, src: &Tensor) -> Result<()> {
    let iter = IterConfig::new()
        .output(Some(out.as_impl()))
        .input(src.as_impl())
        .resize_outputs(false)
        .check_all_same_dtype(false)
        .build()?;
    kernels::copy(out.device())?.copy.get(out.dtype(), "copy_")?(&iter)
}

/// `beta * old + alpha * product`: a slot of shape `sizes` for `run(kernels, slot, old)`, which adds to `old`, broadcast, or to the
/// slot's own elements where there is none.
fn accumulate(
    out: Out<'_>,
    sizes: &[i64],
    old: &Tensor,
    factors: &[&Tensor],
    beta: Scalar,
    run: impl FnOnce(&MatmulKernels, &Tensor, Option<&Tensor>) -> Result<()>,
) -> Result<Tensor> {
    let expanded = view::expand(old, sizes, false)?;
    let in_place = out.target(0).is_some_and(|target| target.is_same(old));
    let mut inputs: SmallVec<[&Tensor; 3]> = factors.iter().copied().collect();
    if !in_place {
        inputs.push(old);
    }
    fill(out, spec(out, sizes, old), &inputs, |kernels, slot| {
        // An in-place slot has the storage of what it replaces, or another one.
        let holds_old = in_place && slot.storage().ptr_eq(old.storage());
        run(kernels, slot, if is_zero(beta) || holds_old { None } else { Some(&expanded) })
    })
}

/// `self` (n, k) times `mat2` (k, m).
pub fn mm(out: Out<'_>, self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let ([n, k], [rows, m]) = (matrix_sizes("mm", "self", self_)?, matrix_sizes("mm", "mat2", mat2)?);
    check!(
        k == rows || !(self_.is_meta() || mat2.is_meta()),
        "a and b must have same reduction dim, but got [{n}, {k}] X [{rows}, {m}]."
    );
    check!(k == rows, "mm: mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {rows}x{m})");
    check!(
        self_.dtype() == mat2.dtype(),
        "expected m1 and m2 to have the same dtype, but got: {} != {}",
        self_.dtype().c_name(),
        mat2.dtype().c_name()
    );
    let like = if mat2.is_meta() { mat2 } else { self_ };
    if !like.is_meta() {
        kernels::matmul(like.device())?.gemm.get(like.dtype(), "addmm_impl_cpu_")?;
    }
    fill(out, spec(out, &[n, m], like), &[self_, mat2], |kernels, slot| {
        kernels.gemm.get(slot.dtype(), "addmm_impl_cpu_")?(slot, self_, mat2, None, 1.into(), 0.into())
    })
}

/// `beta * self + alpha * mat1 @ mat2`.
pub fn addmm(
    out: Out<'_>,
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    check!(
        self_.dtype() == mat2.dtype(),
        "self and mat2 must have the same dtype, but got {} and {}",
        self_.dtype().cpp_name(),
        mat2.dtype().cpp_name()
    );
    check!(
        mat1.dtype() == mat2.dtype(),
        "mat1 and mat2 must have the same dtype, but got {} and {}",
        mat1.dtype().cpp_name(),
        mat2.dtype().cpp_name()
    );
    let ([n, k], [rows, m]) = (matrix_sizes("addmm", "self", mat1)?, matrix_sizes("addmm", "mat2", mat2)?);
    check!(k == rows, "addmm: mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {rows}x{m})");
    let dtype = self_.dtype();
    check_factors(dtype, [beta, alpha])?;
    if !self_.is_meta() {
        kernels::matmul(self_.device())?.gemm.get(dtype, "addmm_impl_cpu_")?;
    }
    accumulate(out, &[n, m], self_, &[mat1, mat2], beta, |kernels, slot, old| {
        kernels.gemm.get(dtype, "addmm_impl_cpu_")?(slot, mat1, mat2, old, alpha, beta)
    })
}

/// The sizes of a batch's products.
fn batch_sizes(batch1: &Tensor, batch2: &Tensor) -> Result<[i64; 3]> {
    let (a, b) = (batch1.sizes(), batch2.sizes());
    check!(a.len() == 3, "batch1 must be a 3D tensor");
    check!(b.len() == 3, "batch2 must be a 3D tensor");
    check!(
        b[0] == a[0] && b[1] == a[2],
        "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
        a[0],
        a[2],
        b[0],
        b[1]
    );
    Ok([a[0], a[1], b[2]])
}

fn check_same_type(batch1: &Tensor, batch2: &Tensor) -> Result<()> {
    check!(
        batch1.dtype() == batch2.dtype(),
        "expected scalar type {} but found {}",
        batch1.dtype().cpp_name(),
        batch2.dtype().cpp_name()
    );
    Ok(())
}

/// `self` (b, n, k) times `mat2` (b, k, m), matrix by matrix.
pub fn bmm(out: Out<'_>, self_: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    let sizes = batch_sizes(self_, mat2)?;
    check_same_type(self_, mat2)?;
    if !self_.is_meta() {
        kernels::matmul(self_.device())?.batched_gemm.get(self_.dtype(), "bmm")?;
    }
    fill(out, spec(out, &sizes, self_), &[self_, mat2], |kernels, slot| {
        kernels.batched_gemm.get(slot.dtype(), "bmm")?(slot, self_, mat2, None, 1.into(), 0.into())
    })
}

/// `beta * self + alpha * batch1 @ batch2`, matrix by matrix.
pub fn baddbmm(
    out: Out<'_>,
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let wanted = [batch1.size(0)?, batch1.size(1)?, batch2.size(2)?];
    if !matches!(out, Out::InPlace(_)) {
        view::expand(self_, &wanted, false)?;
    }
    let sizes = batch_sizes(batch1, batch2)?;
    let dtype = self_.dtype();
    check!(
        dtype == batch1.dtype(),
        "Input dtypes must be the same, got: input {}, batch1: {}, batch2: {}",
        dtype.c_name(),
        batch1.dtype().c_name(),
        batch2.dtype().c_name()
    );
    check_same_type(batch1, batch2)?;
    check_factors(dtype, [beta, alpha])?;
    if !self_.is_meta() {
        kernels::matmul(self_.device())?.batched_gemm.get(dtype, "baddbmm")?;
    }
    accumulate(out, &sizes, self_, &[batch1, batch2], beta, |kernels, slot, old| {
        kernels.batched_gemm.get(dtype, "baddbmm")?(slot, batch1, batch2, old, alpha, beta)
    })
}

/// Matrix `i` of a batch.
fn matrix(x: &Tensor, i: i64) -> Result<Tensor> {
    let m = x.as_impl().metadata();
    check_unchanged(m.sizes.len() == 3 && (0..m.sizes[0]).contains(&i))?;
    let (sizes, strides) = (strides::dims(&m.sizes[1..]), strides::dims(&m.strides[1..]));
    Tensor::view_of(m, &sizes, &strides, m.offset + i * m.strides[0])
}

/// `beta * self + alpha * sum_i batch1[i] @ batch2[i]`: one product after the other.
pub fn addbmm(
    out: Out<'_>,
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    let [count, n, m] = batch_sizes(batch1, batch2)?;
    let dtype = out.target(0).unwrap_or(self_).dtype();
    for (name, x) in [("mat1", batch1), ("self", batch2)] {
        let other = if name == "self" { dtype } else { batch2.dtype() };
        check!(
            x.dtype() == other,
            "{name} and mat2 must have the same dtype, but got {} and {}",
            if name == "self" { dtype.cpp_name() } else { x.dtype().cpp_name() },
            batch2.dtype().cpp_name()
        );
    }
    check_factors(dtype, [beta, alpha])?;
    if let Out::InPlace(target) = out
        && target.sizes() != [n, m]
    {
        // Alone among its kind, this in-place form takes the shape of its result.
        let result = addbmm(Out::Fresh, self_, batch1, batch2, beta, alpha)?;
        crate::out::copy_into(target, &result)?;
        return Ok(target.clone());
    }
    if !self_.is_meta() {
        kernels::matmul(self_.device())?.gemm.get(dtype, "addmm_impl_cpu_")?;
    }
    accumulate(out, &[n, m], self_, &[batch1, batch2], beta, |kernels, slot, old| {
        let kernel = kernels.gemm.get(dtype, "addmm_impl_cpu_")?;
        if count == 0 {
            let nothing = |sizes: [i64; 2]| Tensor::new_dense(&sizes, dtype, slot.device());
            return kernel(slot, &nothing([n, 0])?, &nothing([0, m])?, old, alpha, beta);
        }
        for i in 0..count {
            let (old, beta) = if i == 0 { (old, beta) } else { (None, 1.into()) };
            kernel(slot, &matrix(batch1, i)?, &matrix(batch2, i)?, old, alpha, beta)?;
        }
        Ok(())
    })
}

/// Gives the number of rows.
fn check_matrix_vector(self_dim: usize, n: i64, one: bool, mat: &Tensor, vec: &Tensor) -> Result<i64> {
    let (&[rows, cols], &[len]) = (mat.sizes(), vec.sizes()) else {
        bail!(Runtime, "vector + matrix @ vector expected, got {self_dim}, {}, {}", mat.dim(), vec.dim());
    };
    check!(self_dim <= 1, "vector + matrix @ vector expected, got {self_dim}, 2, 1");
    check!(cols == len && (rows == n || one), "size mismatch, got input ({n}), mat ({rows}x{cols}), vec ({len})");
    Ok(rows)
}

fn check_vector_types(types: [DType; 3]) -> Result<()> {
    let [a, b, c] = types;
    check!(
        a == b && b == c,
        "addmv input tensors must have the same dtype, but got {}, {}, and {}",
        a.cpp_name(),
        b.cpp_name(),
        c.cpp_name()
    );
    Ok(())
}

/// `self` (n, k) times the vector `vec` (k).
pub fn mv(out: Out<'_>, self_: &Tensor, vec: &Tensor) -> Result<Tensor> {
    let rows = self_.sizes().first().copied().unwrap_or(1);
    check_matrix_vector(1, rows, false, self_, vec)?;
    check_vector_types([vec.dtype(), self_.dtype(), vec.dtype()])?;
    if !self_.is_meta() {
        kernels::matmul(self_.device())?.gemm.get(self_.dtype(), "addmv_impl_cpu")?;
    }
    fill(out, spec(out, &[rows], self_), &[self_, vec], |kernels, slot| {
        let kernel = kernels.gemm.get(slot.dtype(), "addmv_impl_cpu")?;
        kernel(&column(slot)?, self_, &column(vec)?, None, 1.into(), 0.into())
    })
}

/// `beta * self + alpha * mat @ vec`.
pub fn addmv(out: Out<'_>, self_: &Tensor, mat: &Tensor, vec: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    let old = self_.as_impl().metadata();
    let rows = check_matrix_vector(old.sizes.len(), old.numel, old.numel == 1, mat, vec)?;
    let dtype = self_.dtype();
    check_vector_types([dtype, mat.dtype(), vec.dtype()])?;
    check_factors(dtype, [beta, alpha])?;
    if !self_.is_meta() {
        kernels::matmul(self_.device())?.gemm.get(dtype, "addmv_impl_cpu")?;
    }
    accumulate(out, &[rows], self_, &[mat, vec], beta, |kernels, slot, old| {
        let kernel = kernels.gemm.get(dtype, "addmv_impl_cpu")?;
        let old = old.map(column).transpose()?;
        kernel(&column(slot)?, mat, &column(vec)?, old.as_ref(), alpha, beta)
    })
}

fn inner(out: Out<'_>, a: &Tensor, b: &Tensor, conjugate: bool) -> Result<Tensor> {
    let (a, b) = (&a.pinned(), &b.pinned());
    check!(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got {}D and {}D tensors", a.dim(), b.dim());
    check!(
        a.dtype() == b.dtype(),
        "dot : expected both vectors to have same dtype, but found {} and {}",
        a.dtype().cpp_name(),
        b.dtype().cpp_name()
    );
    let (n, m) = (a.numel(), b.numel());
    check!(
        n == m,
        "inconsistent tensor size, expected tensor [{n}] and src [{m}] to have the same number of elements, but got {n} \
         and {m} elements respectively"
    );
    check!(a.device() == b.device(), "Tensor on device {} is not on the expected device {}!", b.device(), a.device());
    if let Some(target) = out.target(0) {
        check!(
            target.dtype() == a.dtype(),
            "result dtype {} does not match input dtype {}",
            target.dtype().cpp_name(),
            a.dtype().cpp_name()
        );
    }
    if !a.is_meta() {
        kernels::matmul(a.device())?.dot.get(a.dtype(), "dot")?;
    }
    let conjugated = if conjugate && a.is_complex() { Some(ops::conj_physical(a)?) } else { None };
    fill(out, spec(out, &[], a), &[a, b], |kernels, slot| {
        kernels.dot.get(slot.dtype(), "dot")?(slot, conjugated.as_ref().unwrap_or(a), b)
    })
}

/// The sum of the products of two vectors.
pub fn dot(out: Out<'_>, self_: &Tensor, tensor: &Tensor) -> Result<Tensor> {
    inner(out, self_, tensor, false)
}

/// The sum of the products of a conjugated vector and another.
pub fn vdot(out: Out<'_>, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    inner(out, self_, other, true)
}
