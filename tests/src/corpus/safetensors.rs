//! A reader of safetensors files: an 8-byte header length, a JSON header, raw arrays. The arrays are borrowed.

use std::collections::HashMap;

use serde::Deserialize;
use tensor_core::DType;

use super::Result;

/// A parsed file, borrowing the arrays from its bytes.
pub struct SafeTensors<'a> {
    metadata: HashMap<String, String>,
    arrays: HashMap<String, Array<'a>>,
}

/// One array: its raw little-endian elements.
#[derive(Clone, Copy)]
pub struct Array<'a> {
    /// The elements' type; complex where the file has pairs of reals. None for types that the library does not build.
    pub dtype: Option<DType>,
    /// The elements.
    pub bytes: &'a [u8],
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (usize, usize),
}

impl<'a> SafeTensors<'a> {
    /// Reads the header and finds the arrays.
    ///
    /// # Errors
    /// When the file is cut off or its header is not what the format says.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or("no safetensors header")?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|e| e.to_string())?;
        let (header, data) = rest.split_at_checked(length).ok_or("the safetensors header is cut off")?;
        let header: HashMap<String, serde_json::Value> =
            serde_json::from_slice(header).map_err(|e| format!("safetensors header: {e}"))?;
        let mut file = Self { metadata: HashMap::new(), arrays: HashMap::with_capacity(header.len()) };
        for (key, value) in header {
            if key == "__metadata__" {
                file.metadata = serde_json::from_value(value).map_err(|e| format!("safetensors metadata: {e}"))?;
                continue;
            }
            let entry: Entry = serde_json::from_value(value).map_err(|e| format!("array {key}: {e}"))?;
            let (start, end) = entry.data_offsets;
            let bytes = data.get(start..end).ok_or_else(|| format!("array {key} lies beyond the file"))?;
            file.arrays.insert(key, Array { dtype: dtype(&entry.dtype, entry.shape.len() == 2), bytes });
        }
        Ok(file)
    }

    /// A string of the file's metadata.
    ///
    /// # Errors
    /// When the file has no such string.
    pub fn metadata(&self, key: &str) -> Result<&str> {
        self.metadata.get(key).map(String::as_str).ok_or_else(|| format!("no metadata '{key}'"))
    }

    /// An array by its key.
    ///
    /// # Errors
    /// When the file has no such array.
    pub fn array(&self, key: &str) -> Result<Array<'a>> {
        self.arrays.get(key).copied().ok_or_else(|| format!("no array '{key}'"))
    }
}

fn dtype(name: &str, pairs: bool) -> Option<DType> {
    Some(match (name, pairs) {
        ("F32", true) => DType::C64,
        ("F64", true) => DType::C128,
        ("F32", _) => DType::F32,
        ("F64", _) => DType::F64,
        ("F16", _) => DType::F16,
        ("BF16", _) => DType::BF16,
        ("I64", _) => DType::I64,
        ("I32", _) => DType::I32,
        ("I16", _) => DType::I16,
        ("I8", _) => DType::I8,
        ("U8", _) => DType::U8,
        ("BOOL", _) => DType::Bool,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn arrays_are_found_and_pairs_are_complex() {
        let header = r#"{"__metadata__":{"op":"aten::abs"},"0":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},
            "1":{"dtype":"I8","shape":[3],"data_offsets":[16,19]}}"#;
        let bytes = file(header, &[7; 19]);
        let file = SafeTensors::parse(&bytes).unwrap();
        assert_eq!(file.metadata("op").unwrap(), "aten::abs");
        assert_eq!(file.array("0").unwrap().dtype, Some(DType::C64));
        assert_eq!(file.array("1").unwrap().bytes, [7, 7, 7]);
        assert!(file.array("2").is_err());
    }

    #[test]
    fn damaged_files_are_errors() {
        assert!(SafeTensors::parse(&[1, 2]).is_err());
        assert!(SafeTensors::parse(&file("{}", &[])[..9]).is_err());
        let beyond = file(r#"{"0":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, &[0; 3]);
        assert!(SafeTensors::parse(&beyond).is_err());
    }
}
