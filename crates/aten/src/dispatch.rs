//! The dispatcher: from an operator and a key set to a kernel.
//!
//! Each operator is a `static` [`Op`] with a typed table, one slot a runtime key, folded on its first call from what
//! crates registered through `inventory` (see the note "Registration" in `docs/ARCHITECTURE.md`). A call costs two table
//! loads: no hashing, no locks, no boxing.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use tensor_core::{DispatchKey, DispatchKeySet, Error, ErrorKind, Result, bail, tls};

use crate::{IValue, Stack, Tensor};

/// A kernel over a stack: its arguments in schema order, replaced by its results.
pub type Boxed = fn(&mut Stack) -> Result<()>;

/// What is known of an operator without its type.
pub struct OpInfo {
    /// `aten::add.Tensor`
    pub name: &'static str,
    /// the schema, as upstream writes it
    pub schema: &'static str,
    /// the call by stack
    pub boxed: Boxed,
    /// upstream's tags, `core` among them
    pub tags: &'static [&'static str],
}

/// An operator: its schema and the table of its kernels. `F` is the type of its function pointers.
pub struct Op<F: 'static> {
    info: OpInfo,
    table: OnceLock<Table<F>>,
}

struct Table<F> {
    slots: [Option<F>; DispatchKey::SLOTS],
    /// The functionalities that have a kernel: the others fall through.
    keep: DispatchKeySet,
}

impl<F: Copy + Send + Sync + 'static> Op<F> {
    /// An operator without kernels; they come from registrations.
    pub const fn new(info: OpInfo) -> Self {
        Self { info, table: OnceLock::new() }
    }

    /// The operator's name, schema and tags.
    pub const fn info(&self) -> &OpInfo {
        &self.info
    }

    /// The kernel that these keys choose.
    ///
    /// # Errors
    /// `NotImplemented`, with the backends that have one, when there is none; `Runtime` when a crate of kernels is missing
    /// from the program.
    #[inline]
    pub fn kernel(&self, keys: DispatchKeySet) -> Result<F> {
        let table = match self.table.get() {
            Some(table) => table,
            None => self.fold()?,
        };
        match table.slots[(keys & table.keep).slot()] {
            Some(kernel) => Ok(kernel),
            None => Err(missing(&self.info, keys & table.keep)),
        }
    }

    #[cold]
    fn fold(&self) -> Result<&Table<F>> {
        let folded = Folded::of(&self.info)?;
        let mut slots = [None; DispatchKey::SLOTS];
        for (slot, registration) in slots.iter_mut().zip(folded.slots) {
            if let Some(registration) = registration {
                let Some(kernel) = registration.kernel.downcast_ref::<F>() else {
                    return Err(mismatched(&self.info, registration));
                };
                *slot = Some(*kernel);
            }
        }
        Ok(self.table.get_or_init(|| Table { slots, keep: folded.keep }))
    }
}

/// A [`Table`] without its type.
struct Folded {
    slots: [Option<&'static Registration>; DispatchKey::SLOTS],
    keep: DispatchKeySet,
}

impl Folded {
    fn of(info: &OpInfo) -> Result<Self> {
        let entry = registry()?.entry(info.name)?;
        let mut slots = [None; DispatchKey::SLOTS];
        let mut keep = u64::MAX;
        for key in DispatchKey::RUNTIME {
            match entry.resolve(key) {
                Resolved::Kernel(registration, _) => slots[key as usize] = Some(registration),
                Resolved::Fallthrough if !key.is_backend() => keep &= !(DispatchKeySet::of(key).bits() & !0xffff),
                Resolved::Fallthrough | Resolved::Missing => {}
            }
        }
        // A functionality with a kernel for one backend has its slot; only those with none fall through.
        for key in DispatchKey::RUNTIME {
            if slots[key as usize].is_some() {
                keep |= DispatchKeySet::of(key).bits();
            }
        }
        Ok(Self { slots, keep: DispatchKeySet::from_bits(keep) })
    }
}

#[cold]
fn mismatched(info: &OpInfo, registration: &Registration) -> Error {
    Error::runtime(format!(
        "the kernel of '{}' for {} registered by {} has another signature than the operator",
        info.name, registration.key, registration.source
    ))
}

/// An operator without its type: what the registry lists.
pub trait AnyOp: Sync {
    /// The operator's name, schema and tags.
    fn any_info(&self) -> &OpInfo;
}

impl<F: Copy + Send + Sync + 'static> AnyOp for Op<F> {
    fn any_info(&self) -> &OpInfo {
        &self.info
    }
}

/// One kernel of one operator for one key.
pub struct Registration {
    op: &'static dyn AnyOp,
    key: DispatchKey,
    kernel: &'static (dyn Any + Send + Sync),
    source: &'static str,
}

impl Registration {
    /// A kernel for a key. The types say that it is the operator's own signature.
    pub const fn new<F: Copy + Send + Sync + 'static>(
        op: &'static Op<F>,
        key: DispatchKey,
        kernel: &'static F,
        source: &'static str,
    ) -> Self {
        Self { op, key, kernel, source }
    }
}

/// What a crate adds to the dispatcher, submitted through `inventory`: operators that it defines and kernels.
pub struct Registrations {
    /// the crate, `tensor-aten`
    pub krate: &'static str,
    /// operators that this crate defines
    pub ops: &'static [&'static dyn AnyOp],
    /// kernels of operators of any crate
    pub kernels: &'static [Registration],
}

inventory::collect!(Registrations);

/// How many kernels a crate of the library must have registered; submitted by the facade.
pub struct Expected {
    /// the crate
    pub krate: &'static str,
    /// the number that code generation counted
    pub kernels: usize,
}

inventory::collect!(Expected);

struct Entry {
    info: &'static OpInfo,
    kernels: Vec<&'static Registration>,
}

enum Resolved {
    Kernel(&'static Registration, &'static str),
    Fallthrough,
    Missing,
}

impl Entry {
    fn registered(&self, key: DispatchKey) -> Option<&'static Registration> {
        // The newest registration wins.
        self.kernels.iter().rev().find(|r| r.key == key).copied()
    }

    /// PyTorch's precedence (`OperatorEntry::computeDispatchTableEntryWithDebug`).
    fn resolve(&self, key: DispatchKey) -> Resolved {
        use DispatchKey as K;
        if let Some(kernel) = self.registered(key) {
            return Resolved::Kernel(kernel, "kernel");
        }
        let backend = key.is_backend() || key == K::Undefined;
        if backend && let Some(kernel) = self.registered(K::CompositeExplicitAutogradNonFunctional) {
            return Resolved::Kernel(kernel, "default backend kernel");
        }
        if backend && let Some(kernel) = self.registered(K::CompositeExplicitAutograd) {
            return Resolved::Kernel(kernel, "default backend kernel");
        }
        let explicit = self.registered(K::CompositeExplicitAutograd).is_some()
            || self.registered(K::CompositeExplicitAutogradNonFunctional).is_some();
        let backend_has_kernel = explicit || key.backends_below().any(|k| self.registered(k).is_some());
        if (backend || (key.is_autograd() && !backend_has_kernel))
            && let Some(kernel) = self.registered(K::CompositeImplicitAutograd)
        {
            return Resolved::Kernel(kernel, "math kernel");
        }
        if key.is_autograd()
            && let Some(kernel) = self.registered(K::Autograd)
        {
            return Resolved::Kernel(kernel, "autograd kernel");
        }
        if backend { Resolved::Missing } else { Resolved::Fallthrough }
    }
}

struct Registry {
    entries: BTreeMap<&'static str, Entry>,
}

impl Registry {
    fn build() -> Result<Self> {
        let mut entries: BTreeMap<&'static str, Entry> = BTreeMap::new();
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        for crate_ in inventory::iter::<Registrations> {
            for op in crate_.ops {
                let info = op.any_info();
                if entries.insert(info.name, Entry { info, kernels: Vec::new() }).is_some() {
                    bail!(Runtime, "the operator '{}' is defined twice, at last by {}", info.name, crate_.krate);
                }
            }
        }
        for crate_ in inventory::iter::<Registrations> {
            *counts.entry(crate_.krate).or_default() += crate_.kernels.len();
            for registration in crate_.kernels {
                let info = registration.op.any_info();
                match entries.get_mut(info.name) {
                    Some(entry) => entry.kernels.push(registration),
                    None => {
                        bail!(Runtime, "{} registers a kernel of '{}', which no crate defines", crate_.krate, info.name)
                    }
                }
            }
        }
        for expected in inventory::iter::<Expected> {
            let found = counts.get(expected.krate).copied().unwrap_or(0);
            if found < expected.kernels {
                bail!(
                    Runtime,
                    "the crate {} registered {found} of {} kernels: it is not linked whole into this program (name it with \
                     `use {} as _;`)",
                    expected.krate,
                    expected.kernels,
                    expected.krate.replace('-', "_")
                );
            }
        }
        Ok(Self { entries })
    }

    fn entry(&self, name: &str) -> Result<&Entry> {
        match self.entries.get(name) {
            Some(entry) => Ok(entry),
            None => bail!(Runtime, "Could not find schema for {name}."),
        }
    }
}

fn registry() -> Result<&'static Registry> {
    static REGISTRY: OnceLock<Result<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(Registry::build).as_ref().map_err(Clone::clone)
}

#[cold]
fn missing(info: &OpInfo, keys: DispatchKeySet) -> Error {
    let key = keys.highest();
    let name = info.name;
    let mut available = String::new();
    if let Ok(registry) = registry()
        && let Ok(entry) = registry.entry(name)
    {
        for key in DispatchKey::RUNTIME {
            if matches!(entry.resolve(key), Resolved::Kernel(..)) {
                let _ = write!(available, "{}{key}", if available.is_empty() { "" } else { ", " });
            }
        }
    }
    let message = if key == DispatchKey::Undefined {
        format!(
            "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), but no fallback \
             function is registered for schema {name}. This usually means that this function requires a non-empty list of \
             Tensors, or that you (the operator writer) forgot to register a fallback function. Available functions are \
             [{available}]."
        )
    } else {
        format!(
            "Could not run '{name}' with arguments from the '{key}' backend. This could be because the operator doesn't \
             exist for this backend. '{name}' is only available for these backends: [{available}]."
        )
    };
    Error::new(ErrorKind::NotImplemented, message)
}

/// What an argument brings to the key set of a call.
pub trait Keys {
    /// The union of the keys of its tensors.
    fn keys(&self) -> DispatchKeySet;
}
impl Keys for Tensor {
    #[inline]
    fn keys(&self) -> DispatchKeySet {
        self.key_set()
    }
}
impl<K: Keys + ?Sized> Keys for &K {
    #[inline]
    fn keys(&self) -> DispatchKeySet {
        (**self).keys()
    }
}
impl<K: Keys> Keys for Option<K> {
    #[inline]
    fn keys(&self) -> DispatchKeySet {
        self.as_ref().map_or(DispatchKeySet::EMPTY, Keys::keys)
    }
}
impl<K: Keys> Keys for [K] {
    #[inline]
    fn keys(&self) -> DispatchKeySet {
        self.iter().fold(DispatchKeySet::EMPTY, |all, k| all | k.keys())
    }
}
impl Keys for tensor_core::Device {
    /// Factories dispatch on their device argument.
    #[inline]
    fn keys(&self) -> DispatchKeySet {
        DispatchKeySet::of_tensor(self.kind(), true)
    }
}

/// The keys that a call dispatches on: those of its arguments, with the thread's inclusions and exclusions.
#[inline]
pub fn keys(args: &[&dyn Keys]) -> DispatchKeySet {
    tls::effective(args.iter().fold(DispatchKeySet::EMPTY, |all, k| all | k.keys()))
}

/// Every operator, by name.
///
/// # Errors
/// When a crate of kernels is missing from the program.
pub fn operators() -> Result<impl Iterator<Item = &'static OpInfo>> {
    Ok(registry()?.entries.values().map(|entry| entry.info))
}

/// An operator by name, `aten::add.Tensor`.
///
/// # Errors
/// When there is no such operator.
pub fn find(name: &str) -> Result<&'static OpInfo> {
    registry()?.entry(name).map(|entry| entry.info)
}

/// Calls an operator by name: its arguments lie on the stack in schema order and are replaced by its results.
///
/// # Errors
/// When there is no such operator, an argument is of the wrong kind, or the operator fails.
pub fn call(name: &str, stack: &mut Stack) -> Result<()> {
    (find(name)?.boxed)(stack)
}

/// Calls an operator by name with arguments, and returns its results.
///
/// # Errors
/// As [`call`].
pub fn invoke(name: &str, args: impl IntoIterator<Item = IValue>) -> Result<Vec<IValue>> {
    let mut stack = args.into_iter().collect();
    call(name, &mut stack)?;
    Ok(stack)
}

/// The kernels that were registered for an operator, a line each (`dumpState`).
///
/// # Errors
/// When there is no such operator.
pub fn dump_registered(name: &str) -> Result<String> {
    let entry = registry()?.entry(name)?;
    let mut text = format!("name: {name}\nschema: {}\n", entry.info.schema);
    let mut kernels = entry.kernels.clone();
    kernels.sort_by_key(|r| r.key);
    for registration in kernels {
        let _ = writeln!(text, "{}: registered at {}", registration.key, registration.source);
    }
    Ok(text)
}

/// What each key of an operator's table runs, a line each (`dumpComputedTable`).
///
/// # Errors
/// When there is no such operator.
pub fn dump_computed(name: &str) -> Result<String> {
    let entry = registry()?.entry(name)?;
    let mut text = String::new();
    for key in DispatchKey::RUNTIME {
        let _ = match entry.resolve(key) {
            Resolved::Kernel(r, kind) => writeln!(text, "{key}: registered at {} [{kind}]", r.source),
            Resolved::Fallthrough => writeln!(text, "{key}: fallthrough registered at tensor-aten [backend fallback]"),
            Resolved::Missing => continue,
        };
    }
    Ok(text)
}
