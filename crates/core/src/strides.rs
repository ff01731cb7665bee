//! Arithmetic on sizes and strides: contiguity, views, broadcasting, bounds. No tensors here.

use std::cmp::Ordering;
use std::fmt;

use smallvec::SmallVec;

use crate::{MemoryFormat, Result, bail, check};

/// Sizes or strides: up to five dimensions without an allocation.
pub type Dims = SmallVec<[i64; 5]>;

/// The numbers of a slice, built where they are wanted rather than copied there: in small calls that counts.
#[inline]
pub fn dims(list: &[i64]) -> Dims {
    // No branches: what is merged from several of them is built in memory first.
    let at = |i: usize| if i < list.len() { list[i] } else { 0 };
    match list.len() {
        len @ 0..=5 => Dims::from_buf_and_len([at(0), at(1), at(2), at(3), at(4)], len),
        _ => many(list),
    }
}

/// `extern "C"`: nothing unwinds from it. A caller that had to drop what it has built so far would build it in memory first.
#[cold]
#[allow(improper_ctypes_definitions)]
extern "C" fn many(list: &[i64]) -> Dims {
    Dims::from_slice(list)
}

/// True if two lists are equal; of few numbers, as most are, without a call.
#[inline]
pub fn same(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

/// Writes a list of numbers as PyTorch's messages do: `[2, 3]`.
pub fn show<T: fmt::Display>(list: &[T]) -> impl fmt::Display + use<'_, T> {
    struct Show<'a, T>(&'a [T]);
    impl<T: fmt::Display> fmt::Display for Show<'_, T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("[")?;
            for (i, item) in self.0.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "{item}")?;
            }
            f.write_str("]")
        }
    }
    Show(list)
}

/// The product of the sizes.
///
/// # Errors
/// When a size is negative or the product overflows before a size of 0.
#[inline]
pub fn numel(sizes: &[i64]) -> Result<i64> {
    let mut product = Some(1i64);
    for &size in sizes {
        check!(size >= 0, "Trying to create tensor with negative dimension {size}: {}", show(sizes));
        product = product.and_then(|p| p.checked_mul(size));
    }
    match product {
        Some(product) => Ok(product),
        None => bail!(Runtime, "numel: integer multiplication overflow"),
    }
}

/// Row-major strides. Those of an empty tensor with huge sizes end at the largest number.
#[inline]
pub fn contiguous(sizes: &[i64]) -> Dims {
    let mut strides = dims(sizes);
    contiguous_into(sizes, &mut strides);
    strides
}

/// [`contiguous`] written to `out`, which is as long.
#[inline]
pub fn contiguous_into(sizes: &[i64], out: &mut [i64]) {
    let mut next = 1i64;
    for i in (0..sizes.len().min(out.len())).rev() {
        out[i] = next;
        next = next.saturating_mul(sizes[i].max(1));
    }
}

/// Strides of a memory format.
///
/// # Errors
/// When the format needs another number of dimensions.
pub fn of_format(sizes: &[i64], format: MemoryFormat) -> Result<Dims> {
    let order: &[usize] = match format {
        MemoryFormat::Contiguous | MemoryFormat::Preserve => return Ok(contiguous(sizes)),
        MemoryFormat::ChannelsLast => {
            check!(sizes.len() == 4, "required rank 4 tensor to use channels_last format");
            &[1, 3, 2, 0]
        }
        MemoryFormat::ChannelsLast3d => {
            check!(sizes.len() == 5, "required rank 5 tensor to use channels_last_3d format");
            &[1, 4, 3, 2, 0]
        }
    };
    let mut strides = Dims::from_elem(1, sizes.len());
    let mut next = 1i64;
    for &dim in order {
        strides[dim] = next;
        next = next.saturating_mul(sizes[dim]);
    }
    Ok(strides)
}

/// Row-major without gaps. Dimensions of size 1 do not count, and an empty tensor is.
#[inline]
pub fn is_contiguous(sizes: &[i64], strides: &[i64]) -> bool {
    let mut next = 1;
    for (&size, &stride) in sizes.iter().zip(strides).rev() {
        if size == 0 {
            return true;
        }
        if size != 1 {
            if stride != next {
                // A later (outer) dimension of size 0 would still make it contiguous.
                return sizes.contains(&0);
            }
            next = i64::wrapping_mul(next, size);
        }
    }
    true
}

/// True if the strides are row-major even along dimensions of size 1, where they do not matter.
#[inline]
pub(crate) fn is_row_major(sizes: &[i64], strides: &[i64]) -> bool {
    let mut next = 1i64;
    for i in (0..sizes.len().min(strides.len())).rev() {
        if strides[i] != next {
            return false;
        }
        next = next.saturating_mul(sizes[i].max(1));
    }
    true
}

/// The elements without gaps in NHWC (or NDHWC) order.
pub fn is_channels_last(sizes: &[i64], strides: &[i64], format: MemoryFormat) -> bool {
    let order: &[usize] = match (format, sizes.len()) {
        (MemoryFormat::ChannelsLast, 4) => &[1, 3, 2, 0],
        (MemoryFormat::ChannelsLast3d, 5) => &[1, 4, 3, 2, 0],
        _ => return false,
    };
    let mut next = 1;
    for &dim in order {
        if sizes[dim] != 1 {
            if strides[dim] != next {
                return false;
            }
            next = i64::wrapping_mul(next, sizes[dim]);
        }
    }
    true
}

/// Strides in NHWC (or NDHWC) order, gaps allowed: what makes an operator's output channels-last.
/// Ties and size-1 dimensions are decided as PyTorch's `is_channels_last_strides_2d_s4` does.
pub fn is_channels_last_like(sizes: &[i64], strides: &[i64], format: MemoryFormat) -> bool {
    let order: &[usize] = match (format, sizes.len()) {
        (MemoryFormat::ChannelsLast, 4) => &[1, 3, 2, 0],
        (MemoryFormat::ChannelsLast3d, 5) => &[1, 4, 3, 2, 0],
        _ => return false,
    };
    if strides[1] == 0 {
        return false;
    }
    let mut least = 0;
    for &dim in order {
        if sizes[dim] == 0 || strides[dim] < least {
            return false;
        }
        // N111 tensors whose strides do not tell the orders apart are row-major.
        if dim == 0 && least == strides[1] {
            return false;
        }
        least = strides[dim];
        if sizes[dim] > 1 {
            least = least.saturating_mul(sizes[dim]);
        }
    }
    true
}

/// Some permutation of the dimensions is contiguous: no gaps, no overlap.
pub fn is_non_overlapping_and_dense(sizes: &[i64], strides: &[i64]) -> bool {
    if is_contiguous(sizes, strides) {
        return true;
    }
    let mut dims: SmallVec<[usize; 5]> = (0..sizes.len()).filter(|&i| sizes[i] != 1).collect();
    dims.sort_by_key(|&i| strides[i]);
    let mut next = 1;
    for i in dims {
        if strides[i] != next {
            return false;
        }
        next = i64::wrapping_mul(next, sizes[i]);
    }
    true
}

/// Dimensions, innermost first, by an order with ties: `compare(a, b)` is `Greater` if `a` must lie outside of `b`, and
/// `Equal` if that cannot be told. Ties keep the row-major order. This is PyTorch's insertion sort: with an order that is not
/// transitive, the way it is sorted is part of the result.
pub fn order_dims(ndim: usize, compare: impl Fn(usize, usize) -> Ordering) -> SmallVec<[usize; 5]> {
    let mut order: SmallVec<[usize; 5]> = (0..ndim).rev().collect();
    for i in 1..ndim {
        let mut moving = i;
        for below in (0..i).rev() {
            match compare(order[below], order[moving]) {
                Ordering::Greater => {
                    order.swap(below, moving);
                    moving = below;
                }
                Ordering::Less => break,
                Ordering::Equal => {}
            }
        }
    }
    order
}

/// Dense strides in the dimension order of given strides (`infer_dense_strides`): what "preserve" makes of a tensor with
/// gaps. Those of a dense tensor are kept.
pub fn dense_like(sizes: &[i64], strides: &[i64]) -> Dims {
    if is_non_overlapping_and_dense(sizes, strides) {
        return Dims::from_slice(strides);
    }
    let order = order_dims(sizes.len(), |a, b| match (strides[a], strides[b]) {
        (0, _) | (_, 0) => Ordering::Equal,
        (x, y) if x == y && sizes[a] > sizes[b] => Ordering::Greater,
        (x, y) => x.cmp(&y),
    });
    let mut dense = Dims::from_elem(1, sizes.len());
    let mut next = 1i64;
    for dim in order {
        dense[dim] = next;
        next = next.saturating_mul(sizes[dim].max(1));
    }
    dense
}

/// The bytes that a view needs from the start of its storage.
///
/// # Errors
/// When that overflows.
#[inline]
pub fn storage_bytes(sizes: &[i64], strides: &[i64], itemsize: usize, offset: i64) -> Result<usize> {
    let (mut last, mut empty) = (Some(offset), false);
    for (&size, &stride) in sizes.iter().zip(strides) {
        empty |= size == 0;
        last = last.and_then(|last| last.checked_add(size.checked_sub(1)?.checked_mul(stride)?));
    }
    match last.and_then(|last| last.checked_add(1)?.checked_mul(itemsize as i64)) {
        _ if empty => Ok(0),
        Some(bytes) if bytes >= 0 => Ok(bytes as usize),
        _ => wide_storage_bytes(sizes, strides, itemsize, offset),
    }
}

/// [`storage_bytes`] where a step of it may not fit an i64.
#[cold]
fn wide_storage_bytes(sizes: &[i64], strides: &[i64], itemsize: usize, offset: i64) -> Result<usize> {
    let mut last = offset as i128;
    for (&size, &stride) in sizes.iter().zip(strides) {
        // Each product is below 2^126; sums of many, and the bytes, may go beyond an i128.
        last = last.saturating_add((size as i128 - 1) * stride as i128);
    }
    let bytes = last.saturating_add(1).saturating_mul(itemsize as i128);
    check!(
        bytes >= 0 && bytes <= i64::MAX as i128,
        "Storage size calculation overflowed with sizes={} and strides={}",
        show(sizes),
        show(strides)
    );
    Ok(bytes as usize)
}

/// A dimension counted from the end when negative.
///
/// # Errors
/// `IndexError` when it is out of range. A 0-dim tensor has dimensions -1 and 0.
#[inline]
pub fn wrap_dim(dim: i64, ndim: usize) -> Result<usize> {
    let n = ndim.max(1) as i64;
    if dim < -n || dim >= n {
        bail!(Index, "Dimension out of range (expected to be in range of [{}, {}], but got {dim})", -n, n - 1);
    }
    Ok(if dim < 0 { dim + n } else { dim } as usize)
}

/// The shape that both shapes broadcast to.
///
/// # Errors
/// When they do not.
pub fn broadcast(a: &[i64], b: &[i64]) -> Result<Dims> {
    let ndim = a.len().max(b.len());
    let mut shape = Dims::from_elem(1, ndim);
    for i in (0..ndim).rev() {
        let from_end = ndim - i;
        let size_a = if from_end <= a.len() { a[a.len() - from_end] } else { 1 };
        let size_b = if from_end <= b.len() { b[b.len() - from_end] } else { 1 };
        check!(
            size_a == size_b || size_a == 1 || size_b == 1,
            "The size of tensor a ({size_a}) must match the size of tensor b ({size_b}) at non-singleton dimension {i}"
        );
        shape[i] = if size_a == 1 { size_b } else { size_a };
    }
    Ok(shape)
}

/// A shape with its one -1 replaced by what makes `numel` elements.
///
/// # Errors
/// When there are two, or no number fits.
pub fn infer_size(shape: &[i64], numel: i64) -> Result<Dims> {
    let mut sizes = Dims::from_slice(shape);
    infer_size_in_place(&mut sizes, numel)?;
    Ok(sizes)
}

/// [`infer_size`] where the shape lies.
///
/// # Errors
/// As there; the shape stays as it was.
pub fn infer_size_in_place(shape: &mut [i64], numel: i64) -> Result<()> {
    let mut known: i64 = 1;
    let mut inferred = None;
    for (i, &size) in shape.iter().enumerate() {
        if size == -1 {
            check!(inferred.is_none(), "only one dimension can be inferred");
            inferred = Some(i);
        } else {
            check!(size >= 0, "invalid shape dimension {size} at index {i} of shape {}", show(shape));
            known = known.saturating_mul(size);
        }
    }
    if numel == known || (inferred.is_some() && known > 0 && numel % known == 0) {
        if let Some(i) = inferred {
            check!(
                known != 0,
                "cannot reshape tensor of 0 elements into shape {} because the unspecified dimension size -1 can be any \
                 value and is ambiguous",
                show(shape)
            );
            shape[i] = numel / known;
        }
        return Ok(());
    }
    bail!(Runtime, "shape '{}' is invalid for input of size {numel}", show(shape));
}

/// Strides that show the same elements in a new shape, if there are any (`computeStride`).
pub fn view(sizes: &[i64], strides: &[i64], new: &[i64]) -> Option<Dims> {
    let mut out = Dims::from_elem(0, new.len());
    view_into(sizes, strides, new, &mut out).then_some(out)
}

/// [`view`] written to `out`, which is as long as the new shape; false if there are none.
pub fn view_into(sizes: &[i64], strides: &[i64], new: &[i64], out: &mut [i64]) -> bool {
    if sizes.contains(&0) {
        if sizes == new {
            out.copy_from_slice(strides);
        } else {
            contiguous_into(new, out);
        }
        return new.contains(&0);
    }
    if is_row_major(sizes, strides) {
        contiguous_into(new, out);
        let numel = |sizes: &[i64]| sizes.iter().fold(1i64, |numel, &size| numel.wrapping_mul(size));
        return numel(sizes) == numel(new);
    }
    let mut view_d = new.len() as isize - 1;
    // Stride of the subspace that is being matched, its elements so far in the old and in the new shape.
    let Some(&(mut chunk_stride)) = strides.last() else { return false };
    let (mut old_numel, mut new_numel) = (1i64, 1i64);
    for d in (0..sizes.len()).rev() {
        old_numel = old_numel.wrapping_mul(sizes[d]);
        let ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != old_numel.wrapping_mul(chunk_stride));
        if ends {
            while view_d >= 0 && (new_numel < old_numel || new[view_d as usize] == 1) {
                out[view_d as usize] = new_numel.wrapping_mul(chunk_stride);
                new_numel = new_numel.wrapping_mul(new[view_d as usize]);
                view_d -= 1;
            }
            if new_numel != old_numel {
                return false;
            }
            if d > 0 {
                chunk_stride = strides[d - 1];
                (old_numel, new_numel) = (1, 1);
            }
        }
    }
    view_d == -1
}

/// Sizes and strides of an expanded view.
///
/// # Errors
/// With PyTorch's text when a size does not fit.
pub fn expand(sizes: &[i64], strides: &[i64], target: &[i64]) -> Result<(Dims, Dims)> {
    let (mut out_sizes, mut out_strides) = (dims(target), dims(target));
    expand_into(sizes, strides, target, &mut out_sizes, &mut out_strides)?;
    Ok((out_sizes, out_strides))
}

/// [`expand`] written to buffers that are as long as the target.
///
/// # Errors
/// As there.
pub fn expand_into(
    sizes: &[i64],
    strides: &[i64],
    target: &[i64],
    out_sizes: &mut [i64],
    out_strides: &mut [i64],
) -> Result<()> {
    check!(
        target.len() >= sizes.len(),
        "expand({}, size={}): the number of sizes provided ({}) must be greater or equal to the number of dimensions in \
         the tensor ({})",
        "tensor",
        show(target),
        target.len(),
        sizes.len()
    );
    let lead = target.len() - sizes.len();
    for i in (0..target.len()).rev() {
        let (mut size, mut stride) = match i.checked_sub(lead) {
            Some(d) => (sizes[d], strides[d]),
            None if sizes.is_empty() => (1, 0),
            None if i + 1 < target.len() => (1, i64::wrapping_mul(out_sizes[i + 1], out_strides[i + 1])),
            None => (1, 1),
        };
        let mut wanted = target[i];
        if wanted == -1 {
            check!(
                i >= lead,
                "The expanded size of the tensor ({wanted}) isn't allowed in a leading, non-existing dimension {i}"
            );
            wanted = size;
        }
        if wanted != size {
            check!(
                size == 1,
                "The expanded size of the tensor ({wanted}) must match the existing size ({size}) at non-singleton \
                 dimension {i}.  Target sizes: {}.  Tensor sizes: {}",
                show(target),
                show(sizes)
            );
            check!(wanted >= 0, "numel: integer multiplication overflow");
            (size, stride) = (wanted, 0);
        }
        (out_sizes[i], out_strides[i]) = (size, stride);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_one_dimensions_do_not_count() {
        assert!(is_contiguous(&[2, 1, 3], &[3, 99, 1]));
        assert!(!is_contiguous(&[2, 3], &[1, 2]));
        assert_eq!(contiguous(&[0, 3]).as_slice(), [3, 1]);
    }

    #[test]
    fn views_of_transposed_tensors_are_refused() {
        assert_eq!(view(&[2, 3], &[3, 1], &[6]).unwrap().as_slice(), [1]);
        assert!(view(&[2, 3], &[1, 2], &[6]).is_none());
        assert_eq!(view(&[2, 3], &[1, 2], &[2, 3, 1]).unwrap().as_slice(), [1, 2, 2]);
    }

    #[test]
    fn messages_are_pytorchs() {
        let text = |r: Result<Dims>| r.unwrap_err().message().to_owned();
        assert_eq!(text(infer_size(&[5], 6)), "shape '[5]' is invalid for input of size 6");
        assert_eq!(
            text(broadcast(&[2, 3], &[2, 4])),
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"
        );
    }
}
