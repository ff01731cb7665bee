//! [`StateDict`]: tensors by name, and how they come back into a module. As a file it is `tensor::serialize`.

use std::fmt::{self, Write as _};

use tensor_aten::{Tensor, ops};
use tensor_autograd::no_grad;
use tensor_core::strides::show;
use tensor_core::{Result, check};

/// Tensors by name, in order (`state_dict`). They share memory with the module that they came from.
#[derive(Clone, Default)]
pub struct StateDict(Vec<(String, Tensor)>);

impl StateDict {
    /// No tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a tensor by name; a known name keeps its place.
    pub fn insert(&mut self, name: impl Into<String>, tensor: Tensor) {
        let name = name.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = tensor,
            None => self.0.push((name, tensor)),
        }
    }

    /// Takes a tensor out.
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// A tensor by name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, tensor)| tensor)
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Names and tensors in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A copy that shares no memory with the module (`copy.deepcopy`).
    ///
    /// # Errors
    /// When it cannot be allocated.
    pub fn deep_clone(&self) -> Result<Self> {
        no_grad(|| self.0.iter().map(|(name, tensor)| Ok((name.clone(), ops::clone(tensor, None)?))).collect())
    }
}

impl FromIterator<(String, Tensor)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(iter: I) -> Self {
        let mut state = Self::new();
        for (name, tensor) in iter {
            state.insert(name, tensor);
        }
        state
    }
}

impl IntoIterator for StateDict {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<Self::Item>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Debug for StateDict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The names that a module and a state did not share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncompatibleKeys {
    /// names of the module that the state lacks
    pub missing: Vec<String>,
    /// names of the state that the module lacks
    pub unexpected: Vec<String>,
}

/// Copies a state into the tensors of a module, all of it or nothing.
pub(crate) fn load(module: &str, own: &StateDict, state: &StateDict, strict: bool) -> Result<IncompatibleKeys> {
    let lacking = |names: &StateDict, from: &StateDict| -> Vec<String> {
        names.names().filter(|name| from.get(name).is_none()).map(str::to_owned).collect()
    };
    let keys = IncompatibleKeys { missing: lacking(own, state), unexpected: lacking(state, own) };
    let mut problems = String::new();
    if strict {
        let quoted = |names: &[String]| names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        if !keys.missing.is_empty() {
            let _ = write!(problems, "\n\tMissing key(s) in state_dict: {}. ", quoted(&keys.missing));
        }
        if !keys.unexpected.is_empty() {
            let _ = write!(problems, "\n\tUnexpected key(s) in state_dict: {}. ", quoted(&keys.unexpected));
        }
    }
    let mut copies = Vec::new();
    for (name, target) in own.iter() {
        let Some(source) = state.get(name) else { continue };
        if source.sizes() != target.sizes() {
            let _ = write!(
                problems,
                "\n\tsize mismatch for {name}: copying a param with shape torch.Size({}) from checkpoint, the shape in \
                 current model is torch.Size({}).",
                show(source.sizes()),
                show(target.sizes())
            );
        }
        copies.push((target, source));
    }
    check!(problems.is_empty(), "Error(s) in loading state_dict for {module}:{problems}");
    no_grad(|| copies.into_iter().try_for_each(|(target, source)| ops::copy_(target, source, false).map(drop)))?;
    Ok(keys)
}
