//! Which of the three tiers an item counts in.
//!
//! An operator's tier is that of `tiers.json`, 3 where it names none. A program or random sequence counts in the highest
//! tier of its operators. Sparse cases need the sparse factories, which no tier names, and count in tier 3. Printing and
//! promotion count in tier 1.

use std::collections::HashMap;

use super::{Corpus, Result};

/// The tiers of a corpus.
#[derive(Default)]
pub struct Tiers {
    by_overload: HashMap<String, u8>,
}

/// The modules of the training runs of tier 1; others count in tier 2.
const TIER1_MODULES: [&str; 15] = [
    "Sequential",
    "Linear",
    "Conv2d",
    "MaxPool2d",
    "ReLU",
    "GELU",
    "Tanh",
    "Sigmoid",
    "Dropout",
    "Flatten",
    "BatchNorm",
    "LayerNorm",
    "Embedding",
    "MSELoss",
    "CrossEntropyLoss",
];

/// Initialisers that call an operator of tier 2 (`erfinv_`, `linalg_qr`); others count in tier 1.
const TIER2_INITS: [&str; 2] = ["trunc_normal_", "orthogonal_"];

impl Tiers {
    /// Reads `tiers.json`; without it every operator counts in tier 3.
    ///
    /// # Errors
    /// When the file is not what the format says.
    pub fn of(corpus: &Corpus) -> Result<Self> {
        let Some(bytes) = corpus.file("tiers.json") else { return Ok(Self::default()) };
        let lists: HashMap<String, Vec<String>> =
            serde_json::from_slice(bytes).map_err(|e| format!("tiers.json: {e}"))?;
        let mut by_overload = HashMap::new();
        for (tier, overloads) in lists {
            let tier = tier.trim_start_matches("tier").parse().map_err(|e| format!("tiers.json: {tier}: {e}"))?;
            by_overload.extend(overloads.into_iter().map(|name| (name, tier)));
        }
        Ok(Self { by_overload })
    }

    /// The tier of an operator, `aten::add.Tensor`.
    pub fn operator(&self, op: &str) -> u8 {
        let name = op.strip_prefix("aten::").unwrap_or(op);
        let full = if name.contains('.') { name.to_owned() } else { format!("{name}.default") };
        self.by_overload.get(&full).copied().unwrap_or(3)
    }

    /// The highest tier among operators; 1 where there are none.
    pub fn highest<'a>(&self, ops: impl IntoIterator<Item = &'a str>) -> u8 {
        ops.into_iter().map(|op| self.operator(op)).max().unwrap_or(1)
    }
}

/// The tier of a module by its class name. `BatchNorm` stands for its variants of any number of dimensions.
pub fn module(name: &str) -> u8 {
    let family = if name.starts_with("BatchNorm") { "BatchNorm" } else { name };
    if TIER1_MODULES.contains(&family) { 1 } else { 2 }
}

/// The tier of an initialiser of `torch.nn.init`.
pub fn init(name: &str) -> u8 {
    if TIER2_INITS.contains(&name) { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_tier_counts() {
        let by_overload = [("add.Tensor", 1), ("exp.default", 1), ("exp.out", 2)];
        let tiers = Tiers { by_overload: by_overload.map(|(n, t)| (n.to_owned(), t)).into() };
        assert_eq!(tiers.operator("aten::exp"), 1);
        assert_eq!(tiers.operator("aten::nowhere"), 3);
        assert_eq!(tiers.highest(["aten::add.Tensor", "aten::exp.out"]), 2);
        assert_eq!(tiers.highest([]), 1);
        assert_eq!((module("BatchNorm2d"), module("GroupNorm"), init("orthogonal_")), (1, 2, 2));
    }
}
