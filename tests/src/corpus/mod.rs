//! The conformance corpus: a folder or one compressed archive, read into memory whole.
//!
//! The format is PyTorch's calls as data: see `README.md` of this package. Running the cases is in [`crate::run`].

pub mod case;
pub mod safetensors;
pub mod tiers;
pub mod value;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use case::{Case, Dense, Expected};
pub use safetensors::SafeTensors;
pub use tiers::Tiers;
pub use value::{TensorRef, Value};

/// What reading a corpus or setting up a case gives: the text says what is wrong.
pub type Result<T> = std::result::Result<T, String>;

/// A corpus in memory: its files by their path inside the folder, `ops/add.Tensor.safetensors`.
pub struct Corpus {
    files: BTreeMap<String, Vec<u8>>,
}

impl Corpus {
    /// The archive that lies in this package.
    pub fn default_path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/corpus.tar.zst")
    }

    /// Reads a folder, or a `.tar.zst` archive.
    ///
    /// # Errors
    /// When a file cannot be read or the archive is damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        if path.is_dir() {
            read_folder(path, "", &mut files)?;
        } else {
            let packed = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
            read_archive(&packed, &mut files).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        if files.is_empty() {
            return Err(format!("{}: no corpus in it", path.display()));
        }
        Ok(Self { files })
    }

    /// One file's bytes.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    /// The case files of a folder (`ops`, `sparse`), in the order of their names.
    pub fn case_files<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.files.iter().filter_map(move |(name, bytes)| {
            let file = name.strip_prefix(folder)?.strip_prefix('/')?;
            (file.ends_with(".safetensors") && file != "programs.safetensors").then_some((name.as_str(), &**bytes))
        })
    }
}

fn wanted(name: &str) -> bool {
    name.ends_with(".safetensors") || name.ends_with(".json")
}

fn read_folder(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| e.to_string())?.path();
        let Some(file) = path.file_name().and_then(|n| n.to_str()) else { continue };
        let name = format!("{prefix}{file}");
        if path.is_dir() {
            read_folder(&path, &format!("{name}/"), files)?;
        } else if wanted(&name) {
            files.insert(name, fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?);
        }
    }
    Ok(())
}

fn read_archive(packed: &[u8], files: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    let unpacked = ruzstd::decoding::StreamingDecoder::new(packed).map_err(|e| e.to_string())?;
    let mut archive = tar::Archive::new(unpacked);
    for entry in archive.entries().map_err(|e| e.to_string())? {
        let mut entry = entry.map_err(|e| e.to_string())?;
        let path = entry.path().map_err(|e| e.to_string())?.to_string_lossy().into_owned();
        let name = path.strip_prefix("./").unwrap_or(&path).to_owned();
        if wanted(&name) {
            let mut bytes = Vec::with_capacity(entry.size() as usize);
            entry.read_to_end(&mut bytes).map_err(|e| format!("{name}: {e}"))?;
            files.insert(name, bytes);
        }
    }
    Ok(())
}

impl FromIterator<(String, Vec<u8>)> for Corpus {
    /// A corpus from files in memory.
    fn from_iter<I: IntoIterator<Item = (String, Vec<u8>)>>(files: I) -> Self {
        Self { files: files.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_archive_is_whole() {
        let corpus = Corpus::open(&Corpus::default_path()).unwrap();
        assert_eq!((corpus.case_files("ops").count(), corpus.case_files("sparse").count()), (1522, 46));
        for name in ["tiers.json", "programs.safetensors", "rng.safetensors", "printing.json", "promotion.json"] {
            assert!(corpus.file(name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_is_no_corpus_is_an_error() {
        assert!(Corpus::open(Path::new("nowhere")).is_err());
        assert!(Corpus::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path()).is_err());
    }
}
