//! The digits: reading the `.npy` files in `data/`, shuffling, and the parts to train on and to test.

use tensor::prelude::*;
use tensor::{bail, check};

/// How many of the digits are for training.
const TRAIN: i64 = 1437;
/// How many a step sees.
pub const BATCH: i64 = 32;

/// The images (n, 64), from 0 to 1, and their labels (n).
pub struct Digits {
    pub train_images: Tensor,
    pub train_labels: Tensor,
    pub test_images: Tensor,
    pub test_labels: Tensor,
}

impl Digits {
    /// Reads and shuffles the digits. The order is in a file, so that every program has the same parts.
    pub fn load() -> Result<Self> {
        let order = npy(include_bytes!("data/digits_perm.npy"))?;
        let images = npy(include_bytes!("data/digits_images.npy"))?.i(&order)?;
        let images = (images.to_dtype(DType::F32)? / 16)?.reshape(&[-1, 64])?;
        let labels = npy(include_bytes!("data/digits_labels.npy"))?.i(&order)?;
        Ok(Self {
            train_images: images.i(..TRAIN)?,
            train_labels: labels.i(..TRAIN)?,
            test_images: images.i(TRAIN..)?,
            test_labels: labels.i(TRAIN..)?,
        })
    }

    /// The steps of an epoch.
    pub fn batches(&self) -> usize {
        (self.train_labels.numel() as usize).div_ceil(BATCH as usize)
    }
}

/// Reads NumPy's format, version 1: a magic number, the length of a header in Python's syntax, the elements.
fn npy(file: &[u8]) -> Result<Tensor> {
    let Some(([0x93, b'N', b'U', b'M', b'P', b'Y', 1, 0, low, high], rest)) = file.split_first_chunk::<10>() else {
        bail!(Value, "this is no .npy file of version 1");
    };
    let length = usize::from(u16::from_le_bytes([*low, *high]));
    check!(rest.len() >= length, "the file ends within its header");
    let (header, elements) = rest.split_at(length);
    let header = String::from_utf8_lossy(header);
    check!(header.contains("'fortran_order': False"), "only row-major arrays are read");
    let between = |left, right| header.split_once(left).and_then(|(_, rest)| rest.split_once(right));
    let Some((sizes, _)) = between("'shape': (", ")") else { bail!(Value, "the header has no shape") };
    let sizes: Vec<i64> = sizes.split(',').filter_map(|size| size.trim().parse().ok()).collect();
    if header.contains("'|u1'") {
        Tensor::from_slice(elements, &sizes)
    } else if header.contains("'<i8'") {
        let (numbers, _) = elements.as_chunks::<8>();
        Tensor::from_vec(numbers.iter().map(|&bytes| i64::from_le_bytes(bytes)).collect(), &sizes)
    } else {
        bail!(Value, "only bytes and 64-bit integers are read: {header}")
    }
}
