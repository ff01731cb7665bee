//! Elements by index from plain Rust, over any strides. Guards count: a write while one reads is an error, not a race.

use tensor::prelude::*;

pub(crate) fn main() -> Result<()> {
    let x = tensor!([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    let t = x.t()?; // shape [3, 2], stride [1, 3]
    assert!(!t.is_contiguous());

    {
        let elements = t.accessor::<f32, 2>()?;
        let trace: f32 = (0..2).map(|i| elements[[i, i]]).sum();
        println!("trace {trace}, column {:?}", [elements[[0, 1]], elements[[1, 1]], elements[[2, 1]]]);
        assert_eq!((trace, elements[[2, 1]], elements.at(2).at(1)), (6.0, 6.0, Some(&6.0)));

        let error = x.add_scalar_(1.0).map(drop).unwrap_err();
        println!("a write meanwhile: {error}");
    }

    let mut elements = t.accessor_mut::<f32, 2>()?;
    elements[[2, 0]] = 30.0;
    elements.set([0, 0], 10.0)?;
    println!("out of range: {}", elements.set([3, 0], 0.0).unwrap_err());
    drop(elements);
    println!("{x}");
    assert_eq!(x.to_vec::<f32>()?, [10.0, 2.0, 30.0, 4.0, 5.0, 6.0]);
    Ok(())
}
