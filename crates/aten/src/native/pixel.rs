//! The patches of images as columns, and back: a copy of a strided view, and sums into one.

use tensor_core::{DType, MemoryFormat, Result, bail, check};

use super::convolution::list;
use super::padding::check_target;
use crate::out::{Out, resize_output};
use crate::{Tensor, ops};

/// The patches of an image over two dimensions.
struct Patches {
    kernel: [i64; 2],
    dilation: [i64; 2],
    padding: [i64; 2],
    stride: [i64; 2],
}

impl Patches {
    fn new(kernel: &[i64], dilation: &[i64], padding: &[i64], stride: &[i64]) -> Result<Self> {
        let new = Self {
            kernel: two("kernel_size", kernel)?,
            dilation: two("dilation", dilation)?,
            padding: two("padding", padding)?,
            stride: two("stride", stride)?,
        };
        for (what, name, [h, w]) in [
            ("kernel size", "kernel", new.kernel),
            ("dilation", "dilation", new.dilation),
            ("stride", "stride", new.stride),
        ] {
            check!(h > 0 && w > 0, "{what} should be greater than zero, but got {name}_height: {h} {name}_width: {w}");
        }
        let [h, w] = new.padding;
        check!(h >= 0 && w >= 0, "padding should be non-negative, but got pad_height: {h} pad_width: {w}");
        Ok(new)
    }

    /// How many patches there are along a dimension of `size`.
    fn count(&self, size: i64, d: usize) -> i64 {
        let span = self.dilation[d].saturating_mul(self.kernel[d] - 1).saturating_add(1);
        let room = size.saturating_add(self.padding[d].saturating_mul(2)).saturating_sub(span);
        room.div_euclid(self.stride[d]) + 1
    }

    /// A view (n, c, kh, kw, oh, ow) of the patches of a padded, contiguous (n, c, h, w).
    fn view(&self, padded: &Tensor, blocks: [i64; 2]) -> Result<Tensor> {
        let (sizes, strides) = (padded.sizes(), padded.strides());
        let sizes = [sizes[0], sizes[1], self.kernel[0], self.kernel[1], blocks[0], blocks[1]];
        let step = |d: usize, by: [i64; 2]| by[d].saturating_mul(strides[2 + d]);
        let strides = [
            strides[0],
            strides[1],
            step(0, self.dilation),
            step(1, self.dilation),
            step(0, self.stride),
            step(1, self.stride),
        ];
        padded.view_of_storage(&sizes, &strides, padded.storage_offset())
    }

    /// (before, after) of the last two dimensions, from the last one on.
    fn pads(&self) -> [i64; 4] {
        let [h, w] = self.padding;
        [w, w, h, h]
    }
}

fn two(name: &str, values: &[i64]) -> Result<[i64; 2]> {
    match values {
        &[h, w] => Ok([h, w]),
        _ => bail!(Runtime, "It is expected {name} equals to 2, but got size {}", values.len()),
    }
}

fn check_dtype(x: &Tensor, name: &str) -> Result<()> {
    if !(x.is_meta() || x.is_floating_point() || x.is_complex() || x.dtype() == DType::Bool) {
        bail!(NotImplemented, "\"{name}\" not implemented for '{}'", x.dtype().cpp_name());
    }
    Ok(())
}

/// A result that was computed apart, in its target if there is one.
fn ended(out: Out<'_>, result: Tensor) -> Result<Tensor> {
    let Some(target) = out.target(0) else { return Ok(result) };
    if target.sizes() != result.sizes() {
        resize_output(target, result.sizes(), result.strides())?;
    }
    ops::copy_(target, &result, false)?;
    Ok(target.clone())
}

fn pair(values: [i64; 2]) -> String {
    format!("({}, {})", values[0], values[1])
}

/// The patches of (n, c, h, w) or (c, h, w) as columns: (n, c kh kw, patches) or (c kh kw, patches).
pub fn im2col(
    out: Out<'_>,
    self_: &Tensor,
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    let patches = Patches::new(kernel_size, dilation, padding, stride)?;
    let (n, sizes) = (self_.dim(), self_.sizes());
    for d in [1, 2] {
        self_.size(d)?;
    }
    check!(
        (n == 3 && !sizes.contains(&0)) || (n == 4 && !sizes[1..].contains(&0)),
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: \
         {}",
        list(sizes)
    );
    let image = [sizes[n - 2], sizes[n - 1]];
    let blocks = [patches.count(image[0], 0), patches.count(image[1], 1)];
    check!(
        blocks[0] >= 1 && blocks[1] >= 1,
        "Given input with spatial size {}, kernel_size={}, dilation={}, padding={}, calculated shape of the array of sliding \
         blocks as {}, but its components must be at least one.",
        pair(image),
        pair(patches.kernel),
        pair(patches.dilation),
        pair(patches.padding),
        pair(blocks)
    );
    check_dtype(self_, "im2col_out_cpu")?;
    if !matches!(sizes, [0, _, _, _]) {
        check_target(&out, self_)?;
    }
    let batch = if n == 4 { self_.clone() } else { ops::unsqueeze(self_, 0)? };
    let padded = if patches.padding == [0, 0] { batch } else { ops::constant_pad_nd(&batch, &patches.pads(), 0)? };
    let padded = ops::contiguous(&padded, MemoryFormat::Contiguous)?;
    let columns = ops::clone(&patches.view(&padded, blocks)?, Some(MemoryFormat::Contiguous))?;
    let [kh, kw] = patches.kernel;
    let matrix = [sizes[n - 3] * kh * kw, blocks[0] * blocks[1]];
    ended(out, ops::view(&columns, &[&sizes[..n - 3], &matrix].concat())?)
}

/// The sum of columns at the places of their patches: the adjoint of [`im2col`] over images of `output_size`.
pub fn col2im(
    out: Out<'_>,
    self_: &Tensor,
    output_size: &[i64],
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    let image = two("output_size", output_size)?;
    let patches = Patches::new(kernel_size, dilation, padding, stride)?;
    let (n, sizes) = (self_.dim(), self_.sizes());
    check!(
        (n == 2 && !sizes.contains(&0)) || (n == 3 && !sizes[1..].contains(&0)),
        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but \
         got: {}",
        list(sizes)
    );
    let [kh, kw] = patches.kernel;
    let (rows, columns) = (sizes[n - 2], sizes[n - 1]);
    check!(
        rows % kh.saturating_mul(kw) == 0,
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={rows} \
         and kernel_size={}.",
        pair(patches.kernel)
    );
    let blocks = [patches.count(image[0], 0), patches.count(image[1], 1)];
    check!(
        columns == blocks[0].saturating_mul(blocks[1]),
        "Given output_size={}, kernel_size={}, dilation={}, padding={}, stride={}, expected size of input's dimension 2 to \
         match the calculated number of sliding blocks {} * {} = {}, but got input.size(2)={columns}.",
        pair(image),
        pair(patches.kernel),
        pair(patches.dilation),
        pair(patches.padding),
        pair(patches.stride),
        blocks[0],
        blocks[1],
        blocks[0].saturating_mul(blocks[1])
    );
    check!(
        blocks[0] >= 1 && blocks[1] >= 1,
        "Given output_size={}, kernel_size={}, dilation={}, padding={}, stride={}, calculated shape of the array of sliding \
         blocks as {}, which is too small (non-positive)",
        pair(image),
        pair(patches.kernel),
        pair(patches.dilation),
        pair(patches.padding),
        pair(patches.stride),
        pair(blocks)
    );
    check_dtype(self_, "col2im_out_cpu")?;
    if !matches!(sizes, [0, _, _]) {
        check_target(&out, self_)?;
    }
    let batch = if n == 3 { sizes[0] } else { 1 };
    let channels = rows / (kh * kw);
    let dense = ops::contiguous(self_, MemoryFormat::Contiguous)?;
    let dense = ops::view(&dense, &[batch, channels, kh, kw, blocks[0], blocks[1]])?;
    let grown = |d: usize| image[d].saturating_add(patches.padding[d].saturating_mul(2));
    let padded = ops::new_zeros(self_, &[batch, channels, grown(0), grown(1)], None, None, None, None)?;
    let places = patches.view(&padded, blocks)?;
    let at = |x: &Tensor, i: i64, j: i64| ops::select_int(&ops::select_int(x, 2, i)?, 2, j);
    for i in 0..kh {
        for j in 0..kw {
            ops::add_(&at(&places, i, j)?, &at(&dense, i, j)?, 1)?;
        }
    }
    let [h, w] = patches.padding;
    let result = ops::narrow(&ops::narrow(&padded, 2, h, image[0])?, 3, w, image[1])?;
    let result = ops::clone(&result, Some(MemoryFormat::Contiguous))?;
    ended(out, if n == 3 { result } else { ops::squeeze_dim(&result, 0)? })
}
