//! Large products through a system BLAS, with the feature `blas`: what has a leading dimension that BLAS can name.

use std::ffi::{CStr, c_char};
use std::sync::Once;

use blas_src as _;
use cblas_sys::{CBLAS_LAYOUT, CBLAS_TRANSPOSE as Transpose};
use tensor_core::Complex;

use crate::loops::{MatMut, MatRef};

unsafe extern "C" {
    /// The processor that OpenBLAS takes this machine for.
    fn openblas_get_corename() -> *const c_char;
}

/// Says once, on standard error, when OpenBLAS does not know this processor: its generic kernels are several times slower.
fn warn_of_generic_kernels() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function takes nothing and gives a string constant of the library.
        let name = unsafe { CStr::from_ptr(openblas_get_corename()) }.to_string_lossy().into_owned();
        if ["prescott", "generic", "core2", "nehalem"].contains(&name.to_lowercase().as_str()) {
            eprintln!("warning: OpenBLAS uses its {name} kernels on this machine: matrix products are slow");
        }
    });
}

/// An element type that BLAS multiplies.
pub(super) trait Blas: Copy + Sized {
    /// `c = alpha * op(a) @ op(b) + beta * c`, `c` (m, n) row-major.
    ///
    /// # Safety
    /// The pointers and leading dimensions describe matrices of these shapes, and `c` is the caller's alone.
    #[allow(clippy::too_many_arguments)]
    unsafe fn call(
        ta: Transpose,
        tb: Transpose,
        shape: [i32; 3],
        alpha: Self,
        a: (*const Self, i32),
        b: (*const Self, i32),
        beta: Self,
        c: (*mut Self, i32),
    );
}

macro_rules! blas {
    ($($t:ty, $function:ident, $scalar:ident;)*) => { $(
        impl Blas for $t {
            unsafe fn call(
                ta: Transpose,
                tb: Transpose,
                [m, n, k]: [i32; 3],
                alpha: Self,
                a: (*const Self, i32),
                b: (*const Self, i32),
                beta: Self,
                c: (*mut Self, i32),
            ) {
                // SAFETY: forwarded from the caller.
                unsafe {
                    cblas_sys::$function(
                        CBLAS_LAYOUT::CblasRowMajor, ta, tb, m, n, k,
                        blas!(@$scalar alpha), a.0.cast(), a.1, b.0.cast(), b.1, blas!(@$scalar beta), c.0.cast(), c.1,
                    );
                }
            }
        }
    )* };
    (@value $x:ident) => { $x };
    (@pointer $x:ident) => { std::ptr::from_ref(&$x).cast() };
}
blas! {
    f32, cblas_sgemm, value;
    f64, cblas_dgemm, value;
    Complex<f32>, cblas_cgemm, pointer;
    Complex<f64>, cblas_zgemm, pointer;
}

/// How BLAS names a matrix: as it is or transposed, and its leading dimension. None where neither stride is 1.
fn named(rows: usize, cols: usize, row_stride: isize, col_stride: isize) -> Option<(Transpose, i32)> {
    let leading = |stride: isize, least: usize| i32::try_from(stride).ok().filter(|&s| s >= least.max(1) as i32);
    if col_stride == 1 || cols == 1 {
        leading(if rows == 1 { cols as isize } else { row_stride }, cols).map(|ld| (Transpose::CblasNoTrans, ld))
    } else if row_stride == 1 || rows == 1 {
        leading(col_stride, rows).map(|ld| (Transpose::CblasTrans, ld))
    } else {
        None
    }
}

/// `c = alpha * a @ b + beta * c`, if BLAS can name the three; false if it cannot, and nothing was done.
pub(super) fn gemm<T: Blas>(alpha: T, a: MatRef<'_, T>, b: MatRef<'_, T>, beta: T, c: &mut MatMut<'_, T>) -> bool {
    let (m, n, k) = (c.rows(), c.cols(), a.cols());
    let shape = [m, n, k].map(|size| i32::try_from(size).ok());
    let [Some(m32), Some(n32), Some(k32)] = shape else { return false };
    let Some((ta, lda)) = named(m, k, a.row_stride(), a.col_stride()) else { return false };
    let Some((tb, ldb)) = named(k, n, b.row_stride(), b.col_stride()) else { return false };
    let Some((Transpose::CblasNoTrans, ldc)) = named(m, n, c.row_stride(), c.col_stride()) else { return false };
    warn_of_generic_kernels();
    // SAFETY: three matrices of these shapes; `named` found the leading dimensions in their strides; `c` is ours alone.
    unsafe {
        T::call(ta, tb, [m32, n32, k32], alpha, (a.as_ptr(), lda), (b.as_ptr(), ldb), beta, (c.as_mut_ptr(), ldc));
    }
    true
}
