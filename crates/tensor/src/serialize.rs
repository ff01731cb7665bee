//! Tensors as files: safetensors, the format that PyTorch's models are shared in (`safetensors.torch.save_file`).
//!
//! ```
//! use tensor::prelude::*;
//! use tensor::serialize;
//!
//! # fn main() -> Result<()> {
//! let net = nn::sequential![nn::Linear::new(4, 2)?];
//! let bytes = serialize::save(&net.state_dict()?)?;
//! let other = nn::sequential![nn::Linear::new(4, 2)?];
//! other.load_state_dict(&serialize::load(&bytes)?)?;
//! # Ok(())
//! # }
//! ```

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use safetensors::{Dtype, SafeTensorError, SafeTensors, View};
use tensor_aten::{Tensor, ops};
use tensor_core::{DType, Device, Error, MemoryFormat, Result, Storage, bail, check, read, strides};
use tensor_nn::StateDict;

/// Writes tensors to a file, in place of what it held. Views are written as the elements that they show; shared tensors once
/// for each name. The file is put in place when it is whole.
///
/// # Errors
/// When a tensor has a dtype that the format lacks (complex128) or is on the meta device; when the file cannot be written.
pub fn save_file(state: &StateDict, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let bytes = save(state)?;
    // Beside the file, so that the renaming is one step and the file has the permissions of any other.
    let mut whole = path.as_os_str().to_owned();
    whole.push(format!(".{}.tmp", std::process::id()));
    let written = std::fs::write(&whole, bytes).and_then(|()| std::fs::rename(&whole, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&whole);
    }
    written.map_err(|error| failed(path, &error))
}

/// The bytes that [`save_file`] writes.
///
/// # Errors
/// As [`save_file`].
pub fn save(state: &StateDict) -> Result<Vec<u8>> {
    safetensors::serialize(entries(state)?, Some(metadata())).map_err(|error| invalid("serializing", &error))
}

/// Reads the tensors of a file, in the order in which they lie in it.
///
/// # Errors
/// When the file cannot be read, is no whole safetensors file, or holds a dtype that this library does not build.
pub fn load_file(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| failed(path, &error))?;
    load(&bytes).map_err(|error| Error::new(error.kind(), format!("{}: {}", path.display(), error.message())))
}

/// Reads the tensors of a file's bytes.
///
/// # Errors
/// As [`load_file`].
pub fn load(bytes: &[u8]) -> Result<StateDict> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| invalid("deserializing header", &error))?;
    let mut tensors = file.tensors();
    tensors.sort_by_key(|(_, view)| view.data().as_ptr() as usize);
    tensors
        .into_iter()
        .map(|(name, view)| {
            let Some((dtype, _)) = DTYPES.iter().find(|(_, written)| *written == view.dtype()) else {
                bail!(Runtime, "the tensor '{name}' has the dtype {}, which this library does not build", view.dtype());
            };
            let sizes = view.shape().iter().map(|&size| i64::try_from(size)).collect::<Result<Vec<_>, _>>();
            let Ok(sizes) = sizes else { bail!(Runtime, "the tensor '{name}' is too large") };
            let storage = Storage::from_bytes(view.data())?;
            let tensor = Tensor::from_storage(storage, *dtype, &sizes[..], &strides::contiguous(&sizes), 0)?;
            Ok((name, tensor))
        })
        .collect()
}

/// The dtypes that both sides know.
const DTYPES: [(DType, Dtype); 11] = [
    (DType::Bool, Dtype::BOOL),
    (DType::U8, Dtype::U8),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::C64, Dtype::C64),
];

/// A tensor as the format wants it: row-major bytes of the host.
struct Entry {
    dtype: Dtype,
    sizes: Vec<usize>,
    bytes: Vec<u8>,
}

fn entries(state: &StateDict) -> Result<Vec<(&str, Entry)>> {
    state.iter().map(|(name, tensor)| Ok((name, Entry::new(name, tensor)?))).collect()
}

impl Entry {
    fn new(name: &str, tensor: &Tensor) -> Result<Self> {
        let Some((_, dtype)) = DTYPES.iter().find(|(dtype, _)| *dtype == tensor.dtype()) else {
            bail!(Runtime, "the tensor '{name}' has the dtype {}, which safetensors lacks", tensor.dtype());
        };
        check!(!tensor.is_meta(), "the tensor '{name}' is on the meta device and has no elements to save");
        let mut tensor = tensor.detach()?;
        if !tensor.device().is_cpu() {
            tensor = ops::_to_copy(&tensor, None, None, Some(Device::CPU), None, false, None)?;
        }
        if tensor.dtype() == DType::Bool {
            // Bytes other than 0 and 1 are true here, and refused elsewhere.
            tensor = ops::ne_scalar(&tensor, false)?;
        }
        let tensor = ops::contiguous(&tensor, MemoryFormat::Contiguous)?;
        let m = tensor.as_impl().metadata();
        Ok(Self {
            dtype: *dtype,
            sizes: m.sizes.iter().map(|&size| size as usize).collect(),
            // A copy: what other threads write meanwhile waits for it alone, not for the file.
            bytes: read::bytes(m)?,
        })
    }
}

impl View for Entry {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.sizes
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// What says to other readers that the names are PyTorch's.
fn metadata() -> HashMap<String, String> {
    HashMap::from([("format".to_owned(), "pt".to_owned())])
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::runtime(format!("{}: {error}", path.display()))
}

fn invalid(what: &str, error: &SafeTensorError) -> Error {
    Error::runtime(format!("Error while {what}: {error}"))
}
