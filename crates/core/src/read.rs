//! Copies of a tensor's elements, made under the storage's lock: for `to_vec`, `item`, printing and files.
//!
//! They wait for a kernel that writes, where a slice or an accessor would be refused, and no other thread's operator is
//! refused because of them. No user code runs in here.

use crate::element::read_unaligned;
use crate::tensor_impl::Metadata;
use crate::{Element, Result, bail, check, strides::Dims};

/// The elements of a tensor of the host in row-major order.
///
/// # Errors
/// When `T` is not the dtype's type, the tensor is not on the host, or a writer of the storage is out.
pub fn elements<T: Element>(tensor: &Metadata) -> Result<Vec<T>> {
    let size = size_of::<T>();
    let numel = tensor.numel.max(0) as usize;
    locked::<T, _>(tensor, |bytes| {
        // An empty view may lie anywhere, beyond the storage too.
        if numel == 0 {
            return Ok(Vec::new());
        }
        if tensor.is_contiguous() {
            let start = tensor.offset as usize * size;
            let mut values = vec![T::zeroed(); numel];
            let Some(bytes) = bytes.get(start..start + numel * size) else { return outside() };
            bytemuck::cast_slice_mut(&mut values).copy_from_slice(bytes);
            return Ok(values);
        }
        let mut values = Vec::with_capacity(numel);
        for_each_offset(&tensor.sizes, &tensor.strides, tensor.offset, |place| {
            values.extend(element::<T>(bytes, place))
        });
        if values.len() == numel { Ok(values) } else { outside() }
    })
}

/// The bytes of a contiguous tensor of the host.
///
/// # Errors
/// When the tensor is not contiguous or not on the host, or a writer of the storage is out.
pub fn bytes(tensor: &Metadata) -> Result<Vec<u8>> {
    check!(tensor.is_contiguous(), "expected a contiguous tensor");
    let size = tensor.dtype.itemsize();
    let (start, len) = (tensor.offset as usize * size, tensor.numel.max(0) as usize * size);
    tensor.storage.locked_bytes(|bytes| {
        // An empty view may lie anywhere, beyond the storage too.
        if len == 0 {
            return Ok(Vec::new());
        }
        bytes.get(start..start + len).map_or_else(outside, |bytes| Ok(bytes.to_vec()))
    })
}

/// The elements at some places of a tensor's storage, counted in elements. The tensor is on the host.
///
/// # Errors
/// As [`elements`], and when a place lies outside of the storage.
pub fn elements_at<T: Element>(tensor: &Metadata, places: &[i64]) -> Result<Vec<T>> {
    locked::<T, _>(tensor, |bytes| {
        let values: Option<Vec<T>> = places.iter().map(|&place| element(bytes, place)).collect();
        values.map_or_else(outside, Ok)
    })
}

/// The element at one place of a tensor's storage: [`elements_at`] without a vector.
///
/// # Errors
/// As there.
pub fn element_at<T: Element>(tensor: &Metadata, place: i64) -> Result<T> {
    locked::<T, _>(tensor, |bytes| element(bytes, place).map_or_else(outside, Ok))
}

fn element<T: Element>(bytes: &[u8], place: i64) -> Option<T> {
    let start = usize::try_from(place).ok()?.checked_mul(size_of::<T>())?;
    bytes.get(start..start.checked_add(size_of::<T>())?).map(read_unaligned)
}

#[cold]
fn outside<R>() -> Result<R> {
    bail!(Runtime, "the elements lie outside of the storage")
}

/// Runs `f` on the bytes of a storage that no kernel writes meanwhile.
fn locked<T: Element, R>(tensor: &Metadata, f: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
    check!(
        T::DTYPE == tensor.dtype,
        "expected scalar type {} but found {}",
        T::DTYPE.cpp_name(),
        tensor.dtype.cpp_name()
    );
    tensor.storage.locked_bytes(f)
}

/// Calls `f` with the storage index of each element, in row-major order.
pub fn for_each_offset(sizes: &[i64], strides: &[i64], offset: i64, mut f: impl FnMut(i64)) {
    if sizes.contains(&0) {
        return;
    }
    let mut index = Dims::from_elem(0, sizes.len());
    let mut at = offset;
    loop {
        f(at);
        let mut d = sizes.len();
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            at += strides[d];
            if index[d] < sizes[d] {
                break;
            }
            at -= strides[d] * sizes[d];
            index[d] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Device, Storage, TensorImpl};

    #[test]
    fn elements_are_read_in_order_and_while_readers_are_out() {
        let storage = Storage::from_vec((0..6).map(f64::from).collect());
        let view = |sizes: &[i64], strides: &[i64], offset| {
            let (sizes, strides) = (Dims::from_slice(sizes), Dims::from_slice(strides));
            TensorImpl::new(storage.clone(), DType::F64, &sizes, &strides, offset).unwrap()
        };
        let reader = storage.borrow().unwrap();
        assert_eq!(elements::<f64>(view(&[2, 2], &[2, 1], 1).metadata()).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(elements::<f64>(view(&[2, 3], &[1, 2], 0).metadata()).unwrap(), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
        assert_eq!(elements::<f64>(view(&[3], &[0], 5).metadata()).unwrap(), [5.0; 3]);
        let x = view(&[], &[], 4);
        assert_eq!(elements::<f64>(x.metadata()).unwrap(), [4.0]);
        assert_eq!(elements_at::<f64>(x.metadata(), &[5, 0]).unwrap(), [5.0, 0.0]);
        assert_eq!(bytes(x.metadata()).unwrap(), 4f64.to_ne_bytes());
        assert!(bytes(view(&[2], &[2], 0).metadata()).is_err());
        assert_eq!(element_at::<f64>(x.metadata(), 3).unwrap(), 3.0);
        assert!(elements_at::<f64>(x.metadata(), &[6]).is_err() && elements_at::<f64>(x.metadata(), &[-1]).is_err());
        assert!(elements_at::<f64>(x.metadata(), &[i64::MAX]).is_err() && elements::<i64>(x.metadata()).is_err());
        drop(reader);
        let writer = storage.borrow_mut().unwrap();
        assert!(elements::<f64>(x.metadata()).is_err());
        drop(writer);
    }

    #[test]
    fn nothing_is_read_of_empty_tensors_and_other_devices() {
        let empty = |device| {
            let (sizes, strides) = (Dims::from_slice(&[2, 0]), Dims::from_slice(&[1, 1]));
            TensorImpl::empty(sizes, strides, DType::F32, device).unwrap()
        };
        assert!(elements::<f32>(empty(Device::CPU).metadata()).unwrap().is_empty());
        let (sizes, strides) = (Dims::from_slice(&[0]), Dims::from_slice(&[1]));
        let beyond = TensorImpl::new(Storage::from_vec(vec![1f32]), DType::F32, &sizes, &strides, 9).unwrap();
        assert!(elements::<f32>(beyond.metadata()).unwrap().is_empty());
        assert!(elements::<f32>(empty(Device::META).metadata()).is_err());
    }
}
