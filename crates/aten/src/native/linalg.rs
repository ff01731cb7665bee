//! Factorisations, solves and spectra of matrices: checks, shapes and the call of a kernel. What is made of them is in
//! `composite/linalg/`.

use smallvec::SmallVec;
use tensor_core::strides::{self, Dims, show};
use tensor_core::{DType, Result, bail, check, check_not_implemented};

use crate::composite::linalg::checks::{check_errors, check_float, check_matrix, check_solver, check_square};
use crate::composite::view;
use crate::generated::kernels::LinalgKernels;
use crate::kernels::{self, Columns, LinalgKernel};
use crate::out::{Out, Slot, Spec};
use crate::{Tensor, ops};

/// A result whose matrices lie column by column, as LAPACK leaves them.
fn columns(sizes: &[i64], like: &Tensor) -> Spec {
    let mut strides = strides::contiguous(sizes);
    if let [.., rows, _] = *sizes {
        let n = sizes.len();
        strides[n - 2] = 1;
        strides[n - 1] = rows.max(1);
    }
    Spec { strides: Some(strides), ..Spec::like(sizes, like) }
}

/// All but the last `n` sizes.
fn without(sizes: &[i64], n: usize) -> &[i64] {
    &sizes[..sizes.len().saturating_sub(n)]
}

/// Sizes with others behind them.
fn with(batch: &[i64], rest: &[i64]) -> Dims {
    batch.iter().chain(rest).copied().collect()
}

/// The rows and columns of a tensor that was checked to have matrices.
fn shape(x: &Tensor) -> [i64; 2] {
    match *x.sizes() {
        [.., rows, cols] => [rows, cols],
        _ => [1, 1],
    }
}

/// A matrix's transpose as a view.
fn transposed(x: &Tensor) -> Result<Tensor> {
    view::transpose_int(x, -2, -1)
}

/// A call of a kernel: which one, by its column and what upstream calls it.
struct Call {
    column: fn(&LinalgKernels) -> &Columns<LinalgKernel>,
    name: &'static str,
    flags: [bool; 2],
}

impl Call {
    fn kernel(&self, x: &Tensor) -> Result<LinalgKernel> {
        (self.column)(kernels::linalg(x.device())?).get(x.dtype(), self.name)
    }

    /// Results of these shapes from `inputs`, the first of which names the dtype; results beyond the out tensors' are fresh.
    fn run(&self, out: Out<'_>, specs: impl IntoIterator<Item = Spec>, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let Some(first) = inputs.first() else { bail!(Runtime, "{}: no input", self.name) };
        let kernel = if first.is_meta() { None } else { Some(self.kernel(first)?) };
        let slots = specs.into_iter().enumerate().map(|(i, spec)| out.prepare(i, spec, inputs));
        let slots = slots.collect::<Result<Vec<Slot>>>()?;
        if let Some(kernel) = kernel {
            let outputs: SmallVec<[&Tensor; 4]> = slots.iter().map(|slot| &slot.tensor).collect();
            kernel(&outputs, inputs, self.flags)?;
        }
        slots.into_iter().map(Slot::finish).collect()
    }
}

/// As many results as an operator has.
fn results<const N: usize>(list: Vec<Tensor>) -> Result<[Tensor; N]> {
    match list.try_into() {
        Ok(results) => Ok(results),
        Err(_) => bail!(Runtime, "a kernel gave another number of results"),
    }
}

fn ints(sizes: &[i64], like: &Tensor) -> Spec {
    Spec::dense(sizes, DType::I32, like.device())
}

/// The Cholesky factor, and which leading minor is not positive.
pub fn linalg_cholesky_ex(out: Out<'_>, self_: &Tensor, upper: bool, check_errors_: bool) -> Result<(Tensor, Tensor)> {
    let x = &self_.pinned();
    check_square(x, "linalg.cholesky", "A")?;
    check_float(x, "linalg.cholesky")?;
    let call = Call { column: |table| &table.cholesky, name: "cholesky_cpu", flags: [upper, false] };
    let batch = without(x.sizes(), 2);
    let [factor, info] = results(call.run(out, [columns(x.sizes(), x), ints(batch, x)], &[x])?)?;
    if check_errors_ {
        check_errors(&info, "linalg.cholesky_ex", x.dim() == 2)?;
    }
    Ok((factor, info))
}

/// `P A = L U`: both triangles, pivots, and where U is zero.
pub fn linalg_lu_factor_ex(
    out: Out<'_>,
    a: &Tensor,
    pivot: bool,
    check_errors_: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let x = &a.pinned();
    check!(
        x.dim() >= 2,
        "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {} instead",
        show(x.sizes())
    );
    check!(pivot || x.is_meta(), "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
    let call = Call { column: |table| &table.lu_factor, name: "lu_cpu", flags: [false; 2] };
    let ([m, n], batch) = (shape(x), without(x.sizes(), 2));
    let specs = [columns(x.sizes(), x), ints(&with(batch, &[m.min(n)]), x), ints(batch, x)];
    let [lu, pivots, info] = results(call.run(out, specs, &[x])?)?;
    if check_errors_ {
        check_errors(&info, "torch.linalg.lu_factor_ex", x.dim() == 2)?;
    }
    Ok((lu, pivots, info))
}

/// The solution of a triangular system.
pub fn linalg_solve_triangular(
    out: Out<'_>,
    self_: &Tensor,
    b: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    let (a, b) = (&self_.pinned(), &b.pinned());
    check_solver(a, b, left, "linalg.solve_triangular")?;
    let batch = strides::broadcast(without(a.sizes(), 2), without(b.sizes(), 2))?;
    let wide = |x: &Tensor| view::expand(x, &with(&batch, &shape(x)), false);
    let (a, b) = (wide(a)?, wide(b)?);
    let call = Call { column: |table| &table.solve_triangular, name: "triangular_solve_cpu", flags: [false; 2] };
    let kernel = if a.is_meta() { None } else { Some(call.kernel(&a)?) };
    let slot = out.prepare(0, columns(b.sizes(), &b), &[&a, &b])?;
    if let Some(kernel) = kernel {
        if left {
            kernel(&[&slot.tensor], &[&a, &b], [upper, unitriangular])?;
        } else {
            let (x, a, b) = (transposed(&slot.tensor)?, transposed(&a)?, transposed(&b)?);
            kernel(&[&x], &[&a, &b], [!upper, unitriangular])?;
        }
    }
    slot.finish()
}

/// R and reflections.
pub fn geqrf(out: Out<'_>, self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let x = &self_.pinned();
    check!(x.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
    let [m, n] = shape(x);
    let call = Call { column: |table| &table.geqrf, name: "geqrf_cpu", flags: [false; 2] };
    let tau = Spec::like(&with(without(x.sizes(), 2), &[m.min(n)]), x);
    let [a, tau] = results(call.run(out, [columns(x.sizes(), x), tau], &[x])?)?;
    Ok((a, tau))
}

/// What reflections and their scales must have in common.
fn check_reflections(x: &Tensor, tau: &Tensor, name: &str) -> Result<()> {
    check!(
        x.dim() == tau.dim() + 1,
        "torch.{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {} and input.ndim is \
         equal to {}",
        tau.dim(),
        x.dim()
    );
    check!(
        without(x.sizes(), 2) == without(tau.sizes(), 1),
        "torch.{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {}",
        show(without(tau.sizes(), 1))
    );
    Ok(())
}

/// The first columns of the product of reflections.
pub fn linalg_householder_product(out: Out<'_>, input: &Tensor, tau: &Tensor) -> Result<Tensor> {
    let (x, tau) = (&input.pinned(), &tau.pinned());
    let name = "linalg.householder_product";
    check!(x.dim() >= 2, "torch.{name}: input must have at least 2 dimensions.");
    let [m, n] = shape(x);
    check!(m >= n, "torch.{name}: input.shape[-2] must be greater than or equal to input.shape[-1]");
    let k = tau.sizes().last().copied().unwrap_or(0);
    check!(n >= k, "torch.{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]");
    check_reflections(x, tau, name)?;
    check!(
        x.dtype() == tau.dtype(),
        "torch.{name}: tau dtype {} does not match input dtype {}",
        tau.dtype().cpp_name(),
        x.dtype().cpp_name()
    );
    let call = Call { column: |table| &table.householder_product, name: "orgqr_cpu", flags: [false; 2] };
    let [q] = results(call.run(out, [columns(x.sizes(), x)], &[x, tau])?)?;
    Ok(q)
}

/// The product of reflections times a matrix.
pub fn ormqr(
    out: Out<'_>,
    self_: &Tensor,
    input2: &Tensor,
    input3: &Tensor,
    left: bool,
    transpose: bool,
) -> Result<Tensor> {
    let (x, tau, c) = (&self_.pinned(), &input2.pinned(), &input3.pinned());
    check!(x.dim() >= 2, "torch.ormqr: input must have at least 2 dimensions.");
    check!(c.dim() >= 2, "torch.ormqr: other must have at least 2 dimensions.");
    let ([m, n], side) = (shape(x), if left { -2 } else { -1 });
    let (inner, k) = (c.size(side)?, tau.sizes().last().copied().unwrap_or(0));
    check!(inner >= k, "torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]");
    check!(inner == m, "torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]");
    check!(k == inner.min(n), "torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])");
    check_reflections(x, tau, "ormqr")?;
    check!(
        x.dim() == c.dim(),
        "torch.ormqr: Expected other to have the same number of dimensions as input, but got other.ndim equal to {} and \
         input.ndim is equal to {}",
        c.dim(),
        x.dim()
    );
    check!(
        without(x.sizes(), 2) == without(c.sizes(), 2),
        "torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], but got {}",
        show(without(c.sizes(), 2))
    );
    for (name, other) in [("tau", tau), ("other", c)] {
        check!(
            x.dtype() == other.dtype(),
            "torch.ormqr: Expected input and {name} to have the same dtype, but input has dtype{} and {name} has dtype {}",
            x.dtype().cpp_name(),
            other.dtype().cpp_name()
        );
    }
    let call = Call { column: |table| &table.ormqr, name: "ormqr_cpu", flags: [!left, transpose] };
    let [result] = results(call.run(out, [columns(c.sizes(), c)], &[x, tau, c])?)?;
    Ok(result)
}

/// Eigenvalues and, where wanted, eigenvectors of Hermitian matrices.
pub fn _linalg_eigh(out: Out<'_>, a: &Tensor, uplo: &str, compute_v: bool) -> Result<(Tensor, Tensor)> {
    let x = &a.pinned();
    check_square(x, "linalg.eigh", "A")?;
    let upper = match uplo {
        "L" | "l" => false,
        "U" | "u" => true,
        _ => bail!(Runtime, "Expected UPLO argument to be 'L' or 'U', but got {uplo}"),
    };
    check_float(x, "linalg.eigh")?;
    let call = Call { column: |table| &table.eigh, name: "linalg_eigh_cpu", flags: [upper, compute_v] };
    let values = Spec::dense(without(x.sizes(), 1), x.dtype().to_real(), x.device());
    let vectors = if compute_v { columns(x.sizes(), x) } else { Spec::like(&[0], x) };
    let info = ints(without(x.sizes(), 2), x);
    let [values, vectors, info] = results(call.run(out, [values, vectors, info], &[x])?)?;
    check_errors(&info, "linalg.eigh", x.dim() == 2)?;
    Ok((values, vectors))
}

/// Complex eigenvalues and, where wanted, eigenvectors.
fn eigen(out: Out<'_>, x: &Tensor, name: &str, vectors: bool) -> Result<[Tensor; 2]> {
    check_square(x, name, "A")?;
    check_float(x, name)?;
    if !x.is_meta() {
        let finite = ops::all(&ops::isfinite(x)?)?;
        check!(ops::item(&finite)?.to_bool(), "torch.{name}: input tensor should not contain infs or NaNs.");
    }
    let call = Call { column: |table| &table.eig, name: "linalg_eig_out_cpu", flags: [vectors, false] };
    let complex = |spec: Spec| Spec { dtype: x.dtype().to_complex(), ..spec };
    let specs = [
        complex(Spec::like(without(x.sizes(), 1), x)),
        complex(if vectors { columns(x.sizes(), x) } else { Spec::like(&[0], x) }),
        ints(without(x.sizes(), 2), x),
    ];
    let [values, found, info] = results(call.run(out, specs, &[x])?)?;
    check_errors(&info, name, x.dim() == 2)?;
    Ok([values, found])
}

/// Eigenvalues and eigenvectors.
pub fn linalg_eig(out: Out<'_>, self_: &Tensor) -> Result<(Tensor, Tensor)> {
    let [values, vectors] = eigen(out, &self_.pinned(), "linalg.eig", true)?;
    Ok((values, vectors))
}

/// Eigenvalues alone.
pub fn _linalg_eigvals(out: Out<'_>, self_: &Tensor) -> Result<Tensor> {
    let [values, _] = eigen(out, &self_.pinned(), "linalg.eigvals", false)?;
    Ok(values)
}

/// Singular values and, where wanted, vectors.
pub fn _linalg_svd(
    out: Out<'_>,
    a: &Tensor,
    full_matrices: bool,
    compute_uv: bool,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let x = &a.pinned();
    check_matrix(x, "linalg.svd", "A")?;
    check_float(x, "linalg.svd")?;
    check!(
        driver.is_none() || x.is_meta(),
        "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
    );
    let ([m, n], batch) = (shape(x), without(x.sizes(), 2));
    let k = m.min(n);
    let call = Call { column: |table| &table.svd, name: "linalg_svd_cpu", flags: [full_matrices, compute_uv] };
    let (left, right) = if full_matrices { (m, n) } else { (k, k) };
    let matrix = |rows: i64, cols: i64| match compute_uv {
        true => columns(&with(batch, &[rows, cols]), x),
        false => Spec::like(&[0], x),
    };
    let values = Spec::dense(&with(batch, &[k]), x.dtype().to_real(), x.device());
    let specs = [matrix(m, left), values, matrix(right, n), ints(batch, x)];
    let [u, s, vh, info] = results(call.run(out, specs, &[x])?)?;
    check_errors(&info, "linalg.svd", x.dim() == 2)?;
    Ok((u, s, vh))
}

/// `A = L D L^T`.
pub fn linalg_ldl_factor_ex(
    out: Out<'_>,
    self_: &Tensor,
    hermitian: bool,
    check_errors_: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let x = &self_.pinned();
    check_square(x, "torch.linalg.ldl_factor_ex", "A")?;
    check_float(x, "torch.linalg.ldl_factor_ex")?;
    let call = Call { column: |table| &table.ldl_factor, name: "ldl_factor_kernel_cpu", flags: [hermitian, false] };
    let specs = [columns(x.sizes(), x), ints(without(x.sizes(), 1), x), ints(without(x.sizes(), 2), x)];
    let [ld, pivots, info] = results(call.run(out, specs, &[x])?)?;
    if check_errors_ {
        check_errors(&info, "torch.linalg.ldl_factor_ex", x.dim() == 2)?;
    }
    Ok((ld, pivots, info))
}

/// The solution of a system that is given by `linalg_ldl_factor`.
pub fn linalg_ldl_solve(out: Out<'_>, ld: &Tensor, pivots: &Tensor, b: &Tensor, hermitian: bool) -> Result<Tensor> {
    let (ld, pivots, b) = (&ld.pinned(), &pivots.pinned(), &b.pinned());
    let name = "torch.linalg.ldl_solve";
    check_square(ld, name, "A")?;
    check_float(ld, name)?;
    check!(
        b.dim() >= 2,
        "torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has {} dimensions instead",
        b.dim()
    );
    check_solver(ld, b, true, name)?;
    check!(
        pivots.sizes() == without(ld.sizes(), 1),
        "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {} \
         instead",
        show(pivots.sizes())
    );
    check!(
        pivots.dtype().is_integral(false),
        "torch.linalg.ldl_solve: Expected pivots to be integers. Got {}",
        pivots.dtype().cpp_name()
    );
    check_not_implemented!(
        pivots.dtype() == DType::I32,
        "torch.linalg.ldl_solve: Expected pivots of int32, got {}",
        pivots.dtype().cpp_name()
    );
    let batch = strides::broadcast(without(ld.sizes(), 2), without(b.sizes(), 2))?;
    let wide = |x: &Tensor, rest: &[i64]| view::expand(x, &with(&batch, rest), false);
    let (ld, pivots, b) = (wide(ld, &shape(ld))?, wide(pivots, &shape(ld)[..1])?, wide(b, &shape(b))?);
    let call = Call { column: |table| &table.ldl_solve, name: "ldl_solve_cpu", flags: [hermitian, false] };
    let [result] = results(call.run(out, [columns(b.sizes(), &b)], &[&ld, &pivots, &b])?)?;
    Ok(result)
}
