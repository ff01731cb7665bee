//! What a tensor is: a shape and strides over a shared storage. Views share it, `view` refuses where `reshape` copies.

use tensor::prelude::*;

pub(crate) fn main() -> Result<()> {
    let x = tensor!([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    println!("{x}");
    println!("shape {:?}, stride {:?}, dtype {}, device {}", x.sizes(), x.strides(), x.dtype(), x.device());
    assert_eq!((x.sizes(), x.strides()), (&[2, 3][..], &[3, 1][..]));
    assert_eq!((x.dtype(), x.device()), (DType::F32, Device::CPU));

    let t = x.t()?;
    println!("t(): shape {:?}, stride {:?}, the same memory: {}", t.sizes(), t.strides(), t.data_ptr() == x.data_ptr());
    assert_eq!((t.sizes(), t.strides()), (&[3, 2][..], &[1, 3][..]));
    assert!(t.data_ptr() == x.data_ptr() && t.storage().ptr_eq(x.storage()));

    t.i((0, 1))?.fill_scalar_(40.0)?;
    println!("after a write through the transpose:\n{x}");
    assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 40.0, 5.0, 6.0]);

    let error = t.view(&[6]).map(drop).unwrap_err();
    println!("t.view([6]): {error}");
    assert_eq!(
        error.message(),
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two \
         contiguous subspaces). Use .reshape(...) instead."
    );
    let copy = t.reshape(&[6])?;
    println!("t.reshape([6]): {copy}, the same memory: {}", copy.storage().ptr_eq(t.storage()));
    assert_eq!(copy.to_vec::<f32>()?, [1.0, 40.0, 2.0, 5.0, 3.0, 6.0]);
    assert!(!copy.storage().ptr_eq(t.storage()));
    Ok(())
}
