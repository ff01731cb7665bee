//! Everything of the runner that touches the library: calls by name, tensors from and to bytes, autograd, printing.
//!
//! What is compared with what is decided elsewhere, from the plain values that come out of here.

use serde_json::{Map, Value as Json};
use tensor_aten::printing::PrintOptions;
use tensor_aten::{IValue, Tensor, dispatch};
use tensor_backends_cpu as _;
use tensor_core::{DType, Device, Layout, MemoryFormat, Result, Scalar, Storage, bail, generator, promotion, tls};

use crate::compare::View;

/// True if the library has the operator, `aten::add.Tensor`.
pub fn registered(op: &str) -> bool {
    dispatch::find(op).is_ok()
}

/// Calls an operator by name.
///
/// # Errors
/// The operator's own.
pub fn call(op: &str, args: Vec<IValue>) -> Result<Vec<IValue>> {
    dispatch::invoke(op, args)
}

/// Calls an operator that returns one tensor.
///
/// # Errors
/// The operator's own, or that it returned something else.
pub fn call_tensor(op: &str, args: Vec<IValue>) -> Result<Tensor> {
    match call(op, args)?.pop() {
        Some(IValue::Tensor(t)) => Ok(t),
        other => bail!(Runtime, "{op} returned {}, not a tensor", other.map_or("nothing", |v| v.kind())),
    }
}

/// A fresh storage with these bytes, which may grow.
///
/// # Errors
/// When there is not that much memory.
pub fn storage(bytes: &[u8]) -> Result<Storage> {
    Storage::from_bytes(bytes)
}

/// A storage of the meta device of so many bytes.
///
/// # Errors
/// When the size is absurd.
pub fn meta_storage(nbytes: usize) -> Result<Storage> {
    Storage::allocate(nbytes, Device::META)
}

/// A copy of a storage's bytes.
///
/// # Errors
/// When somebody writes them at the moment.
pub fn bytes(storage: &Storage) -> Result<Vec<u8>> {
    Ok(storage.borrow()?.bytes().to_vec())
}

/// A view of a storage, with the lazy bits set.
///
/// # Errors
/// When it does not lie within the storage, or the library lacks the operator that sets a bit.
pub fn view(storage: &Storage, like: &View<'_>) -> Result<Tensor> {
    let mut t = Tensor::from_storage(storage.clone(), like.dtype, like.size, like.stride, like.offset)?;
    if like.conj {
        t = call_tensor("aten::_conj", vec![t.into()])?;
    }
    if like.neg {
        t = call_tensor("aten::_neg_view", vec![t.into()])?;
    }
    Ok(t)
}

/// A contiguous tensor of its own.
///
/// # Errors
/// When the bytes are not those of the sizes.
pub fn dense(bytes: &[u8], dtype: DType, size: &[i64]) -> Result<Tensor> {
    Tensor::from_storage(storage(bytes)?, dtype, size, &tensor_core::strides::contiguous(size), 0)
}

/// A meta tensor.
///
/// # Errors
/// When its size overflows.
pub fn meta(dtype: DType, size: &[i64], stride: &[i64]) -> Result<Tensor> {
    Tensor::new_strided(size.into(), stride.into(), dtype, Device::META)
}

/// A Python number where the schema wants a tensor.
///
/// # Errors
/// When there is no memory.
pub fn number(value: Scalar) -> Result<Tensor> {
    Tensor::wrapped_number(value)
}

/// The component tensors of a sparse tensor by its layout's name, for `sparse` values of the corpus.
///
/// # Errors
/// When the library lacks the layout.
pub fn sparse_parts(t: &Tensor, layout: &str) -> Result<Vec<Tensor>> {
    let ops: &[&str] = match layout {
        "sparse_coo" => &["aten::_indices", "aten::_values"],
        "sparse_csr" | "sparse_bsr" => &["aten::crow_indices", "aten::col_indices", "aten::values"],
        _ => &["aten::ccol_indices", "aten::row_indices", "aten::values"],
    };
    ops.iter().map(|op| call_tensor(op, vec![t.into()])).collect()
}

/// A sparse tensor from its component tensors.
///
/// # Errors
/// When the library lacks the layout.
pub fn sparse(layout: &str, parts: Vec<Tensor>, size: &[i64], coalesced: Option<bool>) -> Result<Tensor> {
    let dtype = parts.last().map(Tensor::dtype);
    let op = if layout == "sparse_coo" {
        "aten::sparse_coo_tensor.indices_size"
    } else {
        "aten::sparse_compressed_tensor.comp_plain_value_size"
    };
    let mut args: Vec<IValue> = parts.into_iter().map(IValue::Tensor).collect();
    args.push(size.to_vec().into());
    args.extend([dtype.into(), self::layout(layout)?.into(), IValue::None, IValue::None]);
    if layout == "sparse_coo" {
        args.push(coalesced.into());
    }
    call_tensor(op, args)
}

/// True if the lazy conjugation bit is set.
pub fn is_conj(_t: &Tensor) -> bool {
    false
}

/// True if the lazy negation bit is set.
pub fn is_neg(_t: &Tensor) -> bool {
    false
}

/// A dense tensor of the same values.
///
/// # Errors
/// When the library lacks `to_dense`.
pub fn to_dense(t: &Tensor) -> Result<Tensor> {
    match t.layout() {
        Layout::Strided => Ok(t.clone()),
        _ => call_tensor("aten::to_dense", vec![t.into(), IValue::None, IValue::None]),
    }
}

/// A layout by its Python name.
///
/// # Errors
/// When the library has no such layout.
pub fn layout(name: &str) -> Result<Layout> {
    let known = [Layout::Strided, Layout::SparseCoo, Layout::SparseCsr, Layout::SparseCsc];
    match known.into_iter().find(|l| l.to_string().strip_prefix("torch.") == Some(name)) {
        Some(layout) => Ok(layout),
        None => bail!(NotImplemented, "layout torch.{name} is not supported yet"),
    }
}

/// A memory format by its Python name.
///
/// # Errors
/// When there is no such format.
pub fn memory_format(name: &str) -> Result<MemoryFormat> {
    let known =
        [MemoryFormat::Contiguous, MemoryFormat::Preserve, MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d];
    match known.into_iter().find(|m| m.to_string().strip_prefix("torch.") == Some(name)) {
        Some(format) => Ok(format),
        None => bail!(Type, "unknown memory format torch.{name}"),
    }
}

/// The schema of an operator of the library.
pub fn schema(op: &str) -> Option<&'static str> {
    dispatch::find(op).ok().map(|info| info.schema)
}

/// Switches the recording of the graph until the guard is dropped.
pub fn grad_mode(enabled: bool) -> tls::ModeGuard {
    tls::grad_mode(enabled)
}

/// Seeds the default generator of the host.
pub fn manual_seed(seed: u64) {
    generator::manual_seed(seed);
}

/// A leaf with the same storage view (`x.detach().requires_grad_()`).
///
/// # Errors
/// For dtypes without gradients.
pub fn leaf(t: &Tensor) -> Result<Tensor> {
    let detached = call_tensor("aten::detach", vec![t.into()])?;
    detached.requires_grad_(true)?;
    Ok(detached)
}

/// The name of the node that made a tensor.
///
/// # Errors
/// When a view's base was changed in a way that lost it.
pub fn grad_fn(t: &Tensor) -> Result<Option<String>> {
    Ok(t.grad_fn()?.map(|node| node.name()))
}

/// The names of the nodes behind a tensor's node, if it has one.
///
/// # Errors
/// As [`grad_fn`].
pub fn next_functions(t: &Tensor) -> Result<Option<Vec<Option<String>>>> {
    let node = t.grad_fn()?;
    Ok(node.map(|n| n.next_functions().into_iter().map(|edge| edge.map(|(node, _)| node.name())).collect()))
}

/// How a backward pass runs: the keyword arguments of `torch.autograd`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    /// Keep what the graph saved; None: as `create_graph`.
    pub retain_graph: Option<bool>,
    /// Record the backward pass itself.
    pub create_graph: bool,
    /// Inputs that no output depends on give None.
    pub allow_unused: bool,
}

fn borrowed(list: &[Option<Tensor>]) -> Vec<Option<&Tensor>> {
    list.iter().map(Option::as_ref).collect()
}

/// `torch.autograd.grad`.
///
/// # Errors
/// The engine's own.
pub fn grad(
    outputs: &[Tensor],
    inputs: &[Tensor],
    grad_outputs: Option<&[Option<Tensor>]>,
    mode: Mode,
) -> Result<Vec<Option<Tensor>>> {
    let (outputs, inputs): (Vec<_>, Vec<_>) = (outputs.iter().collect(), inputs.iter().collect());
    let vectors = grad_outputs.map(borrowed);
    tensor_autograd::grad(
        &outputs,
        &inputs,
        vectors.as_deref(),
        mode.retain_graph,
        mode.create_graph,
        mode.allow_unused,
    )
}

/// `torch.autograd.backward`.
///
/// # Errors
/// The engine's own.
pub fn backward(
    outputs: &[Tensor],
    grad_outputs: Option<&[Option<Tensor>]>,
    inputs: Option<&[Tensor]>,
    mode: Mode,
) -> Result<()> {
    let outputs: Vec<_> = outputs.iter().collect();
    let inputs: Option<Vec<_>> = inputs.map(|list| list.iter().collect());
    let vectors = grad_outputs.map(borrowed);
    tensor_autograd::backward(&outputs, vectors.as_deref(), mode.retain_graph, mode.create_graph, inputs.as_deref())
}

/// An operand of `torch.result_type`.
pub enum Operand {
    /// a tensor
    Tensor(Tensor),
    /// a Python number
    Number(Scalar),
}

/// `torch.promote_types`.
///
/// # Errors
/// Where PyTorch has no common dtype.
pub fn promote_types(a: DType, b: DType) -> Result<DType> {
    Ok(promotion::promote_types(a, b))
}

/// `torch.can_cast`.
///
/// # Errors
/// Never, so far.
pub fn can_cast(from: DType, to: DType) -> Result<bool> {
    Ok(promotion::can_cast(from, to))
}

/// `torch.result_type`.
///
/// # Errors
/// Never, so far.
pub fn result_type(a: &Operand, b: &Operand) -> Result<DType> {
    let count = |state: promotion::ResultType, operand: &Operand| match operand {
        Operand::Tensor(t) => state.tensor(t.as_impl()),
        Operand::Number(n) => state.scalar(*n),
    };
    Ok(count(count(promotion::ResultType::default(), a), b).finish())
}

/// `repr` of a tensor under arguments of `set_printoptions`.
///
/// # Errors
/// For options that the library does not know.
pub fn repr(t: &Tensor, options: &Map<String, Json>) -> Result<String> {
    let mut chosen = match options.get("profile").and_then(Json::as_str) {
        Some("short") => PrintOptions::SHORT,
        Some("full") => PrintOptions::FULL,
        _ => PrintOptions::DEFAULT,
    };
    for (name, value) in options {
        let number = value.as_u64().map(|n| n as usize);
        match (name.as_str(), number, value.as_bool()) {
            ("profile", ..) => {}
            ("precision", Some(n), _) => chosen.precision = n,
            ("threshold", Some(n), _) => chosen.threshold = n,
            ("edgeitems", Some(n), _) => chosen.edgeitems = n,
            ("linewidth", Some(n), _) => chosen.linewidth = n,
            ("sci_mode", _, mode) => chosen.sci_mode = mode,
            _ => bail!(Value, "set_printoptions: {name} = {value}"),
        }
    }
    Ok(t.display(chosen).to_string())
}
