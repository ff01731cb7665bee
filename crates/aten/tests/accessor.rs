//! Accessors and slices read and write where they should, and never where somebody else does.

use tensor_aten::Tensor;
use tensor_core::{Bool, DType, Device, ErrorKind};

/// `[[0, 1, 2], [3, 4, 5]]`
fn matrix() -> Tensor {
    Tensor::from_vec((0..6).map(|i| i as f32).collect(), &[2, 3]).unwrap()
}

fn transposed(x: &Tensor) -> Tensor {
    x.view_of_storage(&[3, 2], &[1, 3], 0).unwrap()
}

#[test]
fn strides_and_offsets_are_followed() {
    let x = matrix();
    let acc = transposed(&x).accessor::<f32, 2>().unwrap();
    assert_eq!((acc[[2, 0]], acc[[0, 1]]), (2.0, 3.0));
    assert_eq!(acc.at(2).at(1), Some(&5.0));
    assert_eq!(acc.at(3).at(0), None);
    assert_eq!(acc.at(2).at(2), None);
    assert_eq!(acc.get([0, 2]), None);
    assert_eq!(acc.view()[[1, 1]], 4.0);
    let column = x.view_of_storage(&[2], &[3], 2).unwrap();
    assert_eq!(column.accessor::<f32, 1>().unwrap()[[1]], 5.0);
    let scalar = x.view_of_storage(&[], &[], 4).unwrap();
    assert_eq!(scalar.accessor::<f32, 0>().unwrap()[[]], 4.0);
}

#[test]
fn writes_are_seen_and_counted() {
    let x = matrix();
    let before = x.version().unwrap();
    {
        let mut acc = transposed(&x).accessor_mut::<f32, 2>().unwrap();
        acc[[2, 1]] = 50.0;
        acc.set([0, 0], -1.0).unwrap();
        let error = acc.set([0, 7], 1.0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Index);
        assert_eq!(error.message(), "index 7 is out of bounds for dimension 1 with size 2");
        assert_eq!(acc[[2, 1]], 50.0);
    }
    assert!(x.version().unwrap() > before);
    assert_eq!(x.to_vec::<f32>().unwrap(), [-1.0, 1.0, 2.0, 3.0, 4.0, 50.0]);
    x.with_mut_slice::<f32, _>(|all| all.fill(2.0)).unwrap();
    assert_eq!(x.with_slice::<f32, _>(|all| all.iter().sum::<f32>()).unwrap(), 12.0);
}

#[test]
#[should_panic(expected = "index 2 is out of bounds for dimension 0 with size 2")]
fn brackets_panic_as_those_of_slices() {
    let acc = matrix().accessor::<f32, 2>().unwrap();
    let _ = acc[[2, 0]];
}

#[test]
fn one_writer_or_many_readers() {
    let x = matrix();
    let reader = x.accessor::<f32, 2>().unwrap();
    let slice = x.as_slice::<f32>().unwrap();
    assert!(x.as_mut_slice::<f32>().unwrap_err_text().starts_with("storage is borrowed"));
    drop(reader);
    assert!(x.accessor_mut::<f32, 2>().is_err());
    drop(slice);
    let writer = x.accessor_mut::<f32, 2>().unwrap();
    assert!(x.accessor::<f32, 2>().is_err());
    assert!(x.to_vec::<f32>().is_err());
    drop(writer);
    assert!(x.accessor::<f32, 2>().is_ok());
}

#[test]
fn wrong_types_ranks_and_places_are_errors() {
    let x = matrix();
    assert_eq!(x.accessor::<f64, 2>().unwrap_err_text(), "expected scalar type Double but found Float");
    assert_eq!(x.accessor::<f32, 3>().unwrap_err_text(), "TensorAccessor expected 3 dims but tensor has 2");
    assert!(transposed(&x).as_slice::<f32>().is_err());
    assert!(Tensor::new_dense(&[2], DType::F32, Device::META).unwrap().as_slice::<f32>().is_err());
    let empty = Tensor::new_dense(&[0, 3], DType::F64, Device::CPU).unwrap();
    assert_eq!(empty.accessor::<f64, 2>().unwrap().get([0, 0]), None);
    assert!(empty.as_slice::<f64>().unwrap().is_empty());
}

#[test]
fn bools_are_bytes() {
    let x = Tensor::from_vec(vec![Bool::new(true), Bool::new(false)], &[2]).unwrap();
    let acc = x.accessor::<Bool, 1>().unwrap();
    assert!(acc[[0]].get() && !acc[[1]].get());
    assert_eq!(acc.at(2), None);
}

/// The message of an error, for results whose values do not print.
trait ErrText {
    fn unwrap_err_text(self) -> String;
}

impl<T> ErrText for tensor_core::Result<T> {
    fn unwrap_err_text(self) -> String {
        self.err().unwrap().message().to_owned()
    }
}
