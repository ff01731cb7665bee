//! Upsampling by a size or by factors.

use tensor_core::{Result, check};

use crate::{Tensor, ops};

/// The size of the result: the one that was given, or the image's times the factors.
fn output_size(x: &Tensor, dims: usize, size: Option<&[i64]>, factors: Option<&[f64]>) -> Result<Vec<i64>> {
    let expected = |list: &str| {
        format!(
            "Expected static_cast<int64_t>({list}->size()) == spatial_dimensions to be true, but got false.  (Could this \
             error message be improved?  If so, please report an enhancement request to PyTorch.)"
        )
    };
    match (size, factors) {
        (Some(size), None) => {
            check!(size.len() == dims, "{}", expected("output_size"));
            Ok(size.to_vec())
        }
        (None, Some(factors)) => {
            check!(factors.len() == dims, "{}", expected("scale_factors"));
            let grown = |d: usize| Ok((x.size(d as i64 + 2)? as f64 * factors[d]) as i64);
            (0..dims).map(grown).collect()
        }
        _ => tensor_core::bail!(Runtime, "Must specify exactly one of output_size and scale_factors"),
    }
}

macro_rules! by_size_or_factors {
    ($($vec:ident: $name:ident $dims:literal ($($corners:ident)?) [$($d:literal),*];)*) => { $(
        #[doc = concat!("[`", stringify!($name), "`](ops::", stringify!($name), ") to a size or by factors.")]
        pub fn $vec(
            input: &Tensor,
            size: Option<&[i64]>,
            $($corners: bool,)?
            scale_factors: Option<&[f64]>,
        ) -> Result<Tensor> {
            let size = output_size(input, $dims, size, scale_factors)?;
            let scale = |d: usize| scale_factors.map(|factors| factors[d]);
            ops::$name(input, &size, $($corners,)? $(scale($d)),*)
        }
    )* };
}

/// [`upsample_nearest2d_vec`] into a tensor of its dtype.
pub fn upsample_nearest2d_vec_out(
    input: &Tensor,
    size: Option<&[i64]>,
    scale_factors: Option<&[f64]>,
    out: &Tensor,
) -> Result<()> {
    let size = output_size(input, 2, size, scale_factors)?;
    let scale = |d: usize| scale_factors.map(|factors| factors[d]);
    ops::upsample_nearest2d_out(input, &size, scale(0), scale(1), out).map(drop)
}

/// [`upsample_bilinear2d_vec`] into a tensor of its dtype.
pub fn upsample_bilinear2d_vec_out(
    input: &Tensor,
    size: Option<&[i64]>,
    align_corners: bool,
    scale_factors: Option<&[f64]>,
    out: &Tensor,
) -> Result<()> {
    let size = output_size(input, 2, size, scale_factors)?;
    let scale = |d: usize| scale_factors.map(|factors| factors[d]);
    ops::upsample_bilinear2d_out(input, &size, align_corners, scale(0), scale(1), out).map(drop)
}

by_size_or_factors! {
    upsample_nearest1d_vec: upsample_nearest1d 1 () [0];
    upsample_nearest2d_vec: upsample_nearest2d 2 () [0, 1];
    upsample_nearest3d_vec: upsample_nearest3d 3 () [0, 1, 2];
    _upsample_nearest_exact1d_vec: _upsample_nearest_exact1d 1 () [0];
    _upsample_nearest_exact2d_vec: _upsample_nearest_exact2d 2 () [0, 1];
    _upsample_nearest_exact3d_vec: _upsample_nearest_exact3d 3 () [0, 1, 2];
    upsample_linear1d_vec: upsample_linear1d 1 (align_corners) [0];
    upsample_bilinear2d_vec: upsample_bilinear2d 2 (align_corners) [0, 1];
    upsample_trilinear3d_vec: upsample_trilinear3d 3 (align_corners) [0, 1, 2];
    upsample_bicubic2d_vec: upsample_bicubic2d 2 (align_corners) [0, 1];
    _upsample_bilinear2d_aa_vec: _upsample_bilinear2d_aa 2 (align_corners) [0, 1];
    _upsample_bicubic2d_aa_vec: _upsample_bicubic2d_aa 2 (align_corners) [0, 1];
    _upsample_lanczos2d_aa_vec: _upsample_lanczos2d_aa 2 (align_corners) [0, 1];
}
