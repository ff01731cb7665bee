//! Devices do not mix. The meta device computes shapes and dtypes and has no elements.

use tensor::prelude::*;

pub(crate) fn main() -> Result<()> {
    let x = Tensor::ones(&[2, 3], ())?;
    let m = Tensor::empty(&[2, 3], Device::META)?;

    let error = (&x + &m).map(drop).unwrap_err();
    println!("{error}");
    assert_eq!(error.message(), "Tensor on device meta is not on the expected device cpu!");

    let product = m.matmul(m.t())?;
    println!("{product}");
    assert_eq!((product.sizes(), product.device()), (&[2, 2][..], Device::META));
    Ok(())
}
