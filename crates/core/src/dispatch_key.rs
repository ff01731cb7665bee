//! Dispatch keys: which kernel of an operator a call runs, decided by its tensors and the thread's modes.
//!
//! A [`DispatchKeySet`] is a `u64`: low bits are backends, higher bits functionalities, ordered as PyTorch orders them.
//! The highest functionality, and for per-backend ones the highest backend, gives the slot of an operator's table.

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

use crate::DeviceType;

/// What a key stands for, from the lowest priority to the highest. `PER_BACKEND` ones have a slot a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Functionality {
    Dense = 16,
    Sparse,
    SparseCsr,
    BackendSelect,
    Functionalize,
    Conjugate,
    Negative,
    AdInplaceOrView,
    Autograd,
    Tracer,
    Autocast,
    Batched,
}

const FIRST: usize = Functionality::Dense as usize;
const BACKENDS: usize = DeviceType::ALL.len();
const BACKEND_BITS: u64 = (1 << BACKENDS) - 1;

/// For each functionality: the slot that its backend 0 follows, and whether backends have slots of their own.
const SLOTS: [(u8, bool); 12] = {
    let b = BACKENDS as u8;
    let single = 3 * b + 1;
    [
        (0, true),
        (b, true),
        (2 * b, true),
        (single, false),
        (single + 1, false),
        (single + 2, false),
        (single + 3, false),
        (single + 4, false),
        (single + 5, true), // AutogradOther, then one a backend
        (single + 6 + b, false),
        (single + 7 + b, false),
        (single + 8 + b, false),
    ]
};

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $bits:expr;)*) => {
        /// One slot of an operator's dispatch table, or an alias for several.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum DispatchKey {
            $($(#[$doc])* $name,)*
            /// Alias: every autograd key
            Autograd,
            /// Alias: a body made of other operators, differentiable through them
            CompositeImplicitAutograd,
            /// Alias: a body that serves every backend, with its own derivative
            CompositeExplicitAutograd,
            /// Alias: as `CompositeExplicitAutograd`, for bodies that call view or in-place operators
            CompositeExplicitAutogradNonFunctional,
        }

        impl DispatchKey {
            /// The keys that have a slot, in table order.
            pub const RUNTIME: [DispatchKey; [$(DispatchKey::$name),*].len()] = [$(DispatchKey::$name),*];

            const BITS: [u64; Self::RUNTIME.len()] = [$($bits),*];

            /// The name as PyTorch's table dumps print it.
            #[inline]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Autograd => "Autograd[alias]",
                    Self::CompositeImplicitAutograd => "CompositeImplicitAutograd[alias]",
                    Self::CompositeExplicitAutograd => "CompositeExplicitAutograd[alias]",
                    Self::CompositeExplicitAutogradNonFunctional => "CompositeExplicitAutogradNonFunctional[alias]",
                }
            }
        }
    };
}

#[inline]
const fn per_backend(functionality: Functionality, backend: DeviceType) -> u64 {
    1 << functionality as u8 | 1 << backend as u8
}
#[inline]
const fn single(functionality: Functionality) -> u64 {
    1 << functionality as u8
}

use DeviceType as B;
use Functionality as F;

keys! {
    /// no tensor at all: factories
    Undefined = "Undefined", 0;
    /// dense tensors on the host
    Cpu = "CPU", per_backend(F::Dense, B::Cpu);
    /// dense tensors on NVIDIA GPUs
    Cuda = "CUDA", per_backend(F::Dense, B::Cuda);
    /// dense tensors on AMD GPUs
    Hip = "HIP", per_backend(F::Dense, B::Hip);
    /// tensors without memory
    Meta = "Meta", per_backend(F::Dense, B::Meta);
    /// dense tensors of an outside backend
    PrivateUse1 = "PrivateUse1", per_backend(F::Dense, B::PrivateUse1);
    /// coordinate tensors on the host
    SparseCpu = "SparseCPU", per_backend(F::Sparse, B::Cpu);
    /// coordinate tensors on NVIDIA GPUs
    SparseCuda = "SparseCUDA", per_backend(F::Sparse, B::Cuda);
    /// coordinate tensors on AMD GPUs
    SparseHip = "SparseHIP", per_backend(F::Sparse, B::Hip);
    /// coordinate tensors without memory
    SparseMeta = "SparseMeta", per_backend(F::Sparse, B::Meta);
    /// coordinate tensors of an outside backend
    SparsePrivateUse1 = "SparsePrivateUse1", per_backend(F::Sparse, B::PrivateUse1);
    /// compressed tensors on the host
    SparseCsrCpu = "SparseCsrCPU", per_backend(F::SparseCsr, B::Cpu);
    /// compressed tensors on NVIDIA GPUs
    SparseCsrCuda = "SparseCsrCUDA", per_backend(F::SparseCsr, B::Cuda);
    /// compressed tensors on AMD GPUs
    SparseCsrHip = "SparseCsrHIP", per_backend(F::SparseCsr, B::Hip);
    /// compressed tensors without memory
    SparseCsrMeta = "SparseCsrMeta", per_backend(F::SparseCsr, B::Meta);
    /// compressed tensors of an outside backend
    SparseCsrPrivateUse1 = "SparseCsrPrivateUse1", per_backend(F::SparseCsr, B::PrivateUse1);
    /// factories choose their backend by the device argument
    BackendSelect = "BackendSelect", single(F::BackendSelect);
    /// reserved
    Functionalize = "Functionalize", single(F::Functionalize);
    /// lazy conjugation
    Conjugate = "Conjugate", single(F::Conjugate);
    /// lazy negation
    Negative = "Negative", single(F::Negative);
    /// version counters and view tracking
    AdInplaceOrView = "ADInplaceOrView", single(F::AdInplaceOrView);
    /// autograd of tensors without a backend
    AutogradOther = "AutogradOther", single(F::Autograd);
    /// autograd on the host
    AutogradCpu = "AutogradCPU", per_backend(F::Autograd, B::Cpu);
    /// autograd on NVIDIA GPUs
    AutogradCuda = "AutogradCUDA", per_backend(F::Autograd, B::Cuda);
    /// autograd on AMD GPUs
    AutogradHip = "AutogradHIP", per_backend(F::Autograd, B::Hip);
    /// autograd of tensors without memory
    AutogradMeta = "AutogradMeta", per_backend(F::Autograd, B::Meta);
    /// autograd of an outside backend
    AutogradPrivateUse1 = "AutogradPrivateUse1", per_backend(F::Autograd, B::PrivateUse1);
    /// graph capture
    Tracer = "Tracer", single(F::Tracer);
    /// automatic casts to lower precision
    Autocast = "Autocast", single(F::Autocast);
    /// vectorised maps
    Batched = "Batched", single(F::Batched);
}

impl DispatchKey {
    /// How many slots a table has.
    pub const SLOTS: usize = Self::RUNTIME.len();

    /// The slot of a key that has one.
    #[inline]
    pub const fn slot(self) -> Option<usize> {
        if (self as usize) < Self::SLOTS { Some(self as usize) } else { None }
    }

    /// True for keys that stand for several slots.
    #[inline]
    pub const fn is_alias(self) -> bool {
        self as usize >= Self::SLOTS
    }

    /// True for the autograd slots.
    #[inline]
    pub const fn is_autograd(self) -> bool {
        self as u8 >= Self::AutogradOther as u8 && self as u8 <= Self::AutogradPrivateUse1 as u8
    }

    /// True for slots that hold a backend's own kernels: dense, sparse and compressed ones.
    #[inline]
    pub const fn is_backend(self) -> bool {
        self as u8 >= Self::Cpu as u8 && self as u8 <= Self::SparseCsrPrivateUse1 as u8
    }

    /// For an autograd slot, the backend slots that it stands above.
    pub fn backends_below(self) -> impl Iterator<Item = DispatchKey> {
        let backend = Self::BITS[self as usize] & BACKEND_BITS;
        Self::RUNTIME.into_iter().filter(move |key| {
            key.is_backend() && self.is_autograd() && backend != 0 && Self::BITS[*key as usize] & backend != 0
        })
    }
}

impl fmt::Display for DispatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of dispatch keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DispatchKeySet(u64);

impl DispatchKeySet {
    /// No key.
    pub const EMPTY: Self = Self(0);

    /// Every autograd key's functionality, without a backend.
    pub const AUTOGRAD: Self = Self(single(F::Autograd));

    /// The functionality that tracks versions and views.
    pub const AD_INPLACE_OR_VIEW: Self = Self(single(F::AdInplaceOrView));

    /// What is left when autograd has run: every key below it.
    pub const AFTER_AUTOGRAD: Self = Self((1 << F::Autograd as u8) - 1);

    /// The keys of an ordinary tensor: its backend, autograd and view tracking.
    #[inline]
    pub const fn of_tensor(device: DeviceType, inference: bool) -> Self {
        let dense = per_backend(F::Dense, device);
        if inference { Self(dense) } else { Self(dense | single(F::Autograd) | single(F::AdInplaceOrView)) }
    }

    /// The set of one key.
    #[inline]
    pub const fn of(key: DispatchKey) -> Self {
        Self(DispatchKey::BITS[key as usize])
    }

    /// The raw bits.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A set from raw bits.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// True if every bit of `other` is in this set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The slot of the key with the highest priority.
    #[inline]
    pub const fn slot(self) -> usize {
        let highest = 63 - (self.0 | 1).leading_zeros() as usize;
        if highest < FIRST {
            return DispatchKey::Undefined as usize;
        }
        let (base, per_backend) = SLOTS[highest - FIRST];
        if per_backend {
            base as usize + (64 - (self.0 & BACKEND_BITS).leading_zeros() as usize)
        } else {
            base as usize
        }
    }

    /// The key with the highest priority.
    #[inline]
    pub const fn highest(self) -> DispatchKey {
        DispatchKey::RUNTIME[self.slot()]
    }
}

impl BitOr for DispatchKeySet {
    type Output = Self;
    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
impl BitAnd for DispatchKeySet {
    type Output = Self;
    #[inline]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}
/// Removes functionalities; backend bits stay, as in PyTorch.
impl Sub for DispatchKeySet {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !(other.0 & !BACKEND_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runtime_key_finds_its_own_slot() {
        for key in DispatchKey::RUNTIME {
            assert_eq!(DispatchKeySet::of(key).highest(), key);
        }
    }

    #[test]
    fn autograd_comes_before_the_backend_until_it_is_masked() {
        let keys = DispatchKeySet::of_tensor(DeviceType::Cuda, false);
        assert_eq!(keys.highest(), DispatchKey::AutogradCuda);
        assert_eq!((keys & DispatchKeySet::AFTER_AUTOGRAD).highest(), DispatchKey::AdInplaceOrView);
        assert_eq!((keys - DispatchKeySet::AUTOGRAD - DispatchKeySet::AD_INPLACE_OR_VIEW).highest(), DispatchKey::Cuda);
        assert_eq!(DispatchKeySet::EMPTY.highest(), DispatchKey::Undefined);
    }

    #[test]
    fn backends_below_an_autograd_key() {
        let below: Vec<_> = DispatchKey::AutogradHip.backends_below().collect();
        assert_eq!(below, [DispatchKey::Hip, DispatchKey::SparseHip, DispatchKey::SparseCsrHip]);
    }
}
