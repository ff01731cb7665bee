//! From a recorded call to live arguments, and the check of the exception that it must raise.

use tensor_aten::tensor::for_each_offset;
use tensor_aten::{IValue, Tensor};
use tensor_core::{Device, Error, Scalar, Storage};

use super::Variant;
use crate::bridge;
use crate::compare::{Tolerance, View, difference};
use crate::corpus::value::dtype;
use crate::corpus::{Case, Dense, Expected, Result, SafeTensors, TensorRef, Value};
use crate::schema::Argument;

/// An operator and the file that its cases lie in.
pub(super) struct Context<'a> {
    pub file: &'a SafeTensors<'a>,
    pub op: &'a str,
    pub arguments: &'a [Argument],
}

/// Live arguments for one run, with the storages that they view.
pub(super) struct Built {
    pub storages: Vec<Storage>,
    pub args: Vec<IValue>,
}

/// An error of the library as the text of a failure.
pub(super) fn show(error: Error) -> String {
    format!("{error:?}")
}

impl Context<'_> {
    /// Fresh arguments for a case.
    pub fn build(&self, case: &Case, variant: Variant) -> Result<Built> {
        let keys = case.storages.iter().take(case.inputs);
        let storages = keys
            .map(|key| {
                let key = key.as_deref().ok_or("an input storage without contents")?;
                let bytes = self.file.array(key)?.bytes;
                match variant {
                    Variant::Meta => bridge::meta_storage(bytes.len()),
                    _ => bridge::storage(bytes),
                }
                .map_err(show)
            })
            .collect::<Result<Vec<_>>>()?;
        let mut args = build_args(&case.args, self.arguments, &storages).map_err(|e| format!("arguments: {e}"))?;
        match variant {
            Variant::Recorded => {}
            Variant::Meta => {
                for value in &mut args {
                    if let IValue::Device(device) = value {
                        *device = Device::META;
                    }
                }
            }
            Variant::Relayout => {
                for ((value, recorded), argument) in args.iter_mut().zip(&case.args).zip(self.arguments) {
                    // Not every schema says what is written: `batch_norm` updates its running statistics.
                    let written = |n: usize| case.mutated.contains_key(&n);
                    if !argument.writes && !storages_of(recorded.as_ref()).into_iter().any(written) {
                        relay(value)?;
                    }
                }
            }
        }
        Ok(Built { storages, args })
    }
}

/// The storages that a recorded argument's tensors live in.
pub(super) fn storages_of(value: Option<&Value>) -> Vec<usize> {
    match value {
        Some(Value::Tensor(t)) => t.storage.into_iter().collect(),
        Some(Value::TensorList(list)) => list.iter().flatten().filter_map(|t| t.storage).collect(),
        _ => Vec::new(),
    }
}

/// Moves the tensors of an argument into storages of their own.
fn relay(value: &mut IValue) -> Result<()> {
    match value {
        IValue::Tensor(t) => *t = relaid(t)?,
        IValue::TensorList(list) => {
            for t in list.iter_mut().flatten() {
                *t = relaid(t)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The same values with the dimensions in reverse order in memory, a gap after each element, and an offset.
fn relaid(t: &Tensor) -> Result<Tensor> {
    const OFFSET: usize = 3;
    if t.device().is_meta() || t.is_wrapped_number() {
        return Ok(t.clone());
    }
    let (sizes, itemsize) = (t.sizes(), t.element_size());
    let mut strides = vec![0i64; sizes.len()];
    let mut next = 2i64;
    for (stride, size) in strides.iter_mut().zip(sizes) {
        *stride = next;
        next *= (*size).max(1);
    }
    let from = bridge::bytes(t.storage()).map_err(show)?;
    let mut to = vec![0u8; (OFFSET + next as usize) * itemsize];
    let (mut places, mut k) = (Vec::with_capacity(t.numel() as usize), 0);
    for_each_offset(sizes, t.strides(), t.storage_offset(), |at| places.push(at as usize * itemsize));
    for_each_offset(sizes, &strides, OFFSET as i64, |at| {
        let at = at as usize * itemsize;
        to[at..at + itemsize].copy_from_slice(&from[places[k]..places[k] + itemsize]);
        k += 1;
    });
    let like = View {
        bytes: &[],
        dtype: t.dtype(),
        size: sizes,
        stride: &strides,
        offset: OFFSET as i64,
        conj: bridge::is_conj(t),
        neg: bridge::is_neg(t),
    };
    bridge::view(&bridge::storage(&to).map_err(show)?, &like).map_err(show)
}

/// Arguments over storages. The schema says of which type an empty list is.
pub(super) fn build_args(args: &[Option<Value>], schema: &[Argument], storages: &[Storage]) -> Result<Vec<IValue>> {
    let live = |(i, value): (usize, &Option<Value>)| ivalue(value.as_ref(), schema.get(i), storages);
    args.iter().enumerate().map(live).collect()
}

fn tensor(t: &TensorRef, storages: &[Storage]) -> Result<Tensor> {
    let (dtype, stride) = (t.dtype()?, t.strides());
    let Some(number) = t.storage else { return bridge::meta(dtype, &t.size, &stride).map_err(show) };
    let storage = storages.get(number).ok_or_else(|| format!("no storage {number}"))?;
    let like = View { bytes: &[], dtype, size: &t.size, stride: &stride, offset: t.offset, conj: t.conj, neg: t.neg };
    bridge::view(storage, &like).map_err(show)
}

fn ivalue(value: Option<&Value>, argument: Option<&Argument>, storages: &[Storage]) -> Result<IValue> {
    let Some(value) = value else { return Ok(IValue::None) };
    let scalars = argument.is_some_and(Argument::is_scalar_list);
    Ok(match value {
        Value::Bool(b) => IValue::Bool(*b),
        Value::Int(i) => IValue::Int(*i),
        Value::Float(f) => IValue::Float(f.0),
        Value::Complex(..) => value.scalar().map_or(IValue::None, IValue::from),
        Value::Str(s) => IValue::Str(s.clone()),
        Value::DType(name) => IValue::DType(dtype(name)?),
        Value::Layout(name) => IValue::Layout(bridge::layout(name).map_err(show)?),
        Value::Device(name) => IValue::Device(name.parse().map_err(show)?),
        Value::MemoryFormat(name) => IValue::MemoryFormat(bridge::memory_format(name).map_err(show)?),
        Value::Number(inner) => {
            let number = inner.scalar().ok_or("a wrapped number that is none")?;
            IValue::Tensor(bridge::number(number).map_err(show)?)
        }
        Value::Tensor(t) => IValue::Tensor(tensor(t, storages)?),
        Value::Sparse(s) => {
            let parts = s.parts.iter().map(|p| tensor(p, storages)).collect::<Result<_>>()?;
            IValue::Tensor(bridge::sparse(&s.layout, parts, &s.size, s.coalesced).map_err(show)?)
        }
        Value::TensorList(list) => {
            let live = |t: &Option<TensorRef>| t.as_ref().map(|t| tensor(t, storages)).transpose();
            IValue::TensorList(list.iter().map(live).collect::<Result<_>>()?)
        }
        Value::IntList(v) if scalars => IValue::ScalarList(v.iter().map(|&i| Scalar::Int(i)).collect()),
        Value::FloatList(v) if scalars => IValue::ScalarList(v.iter().map(|f| Scalar::Float(f.0)).collect()),
        Value::BoolList(v) if scalars => IValue::ScalarList(v.iter().map(|&b| Scalar::Bool(b)).collect()),
        Value::IntList(v) => IValue::IntList(v.clone()),
        Value::FloatList(v) => IValue::FloatList(v.iter().map(|f| f.0).collect()),
        Value::BoolList(v) => IValue::BoolList(v.clone()),
        Value::List(v) if v.is_empty() => empty_list(argument.map_or("", |a| &a.ty)),
        Value::List(v) => {
            let numbers = v.iter().map(|x| x.as_ref().and_then(Value::scalar)).collect::<Option<_>>();
            IValue::ScalarList(numbers.ok_or_else(|| format!("a list that the runner cannot build: {v:?}"))?)
        }
        Value::Var(_) | Value::VarList(_) => return Err("a variable outside a program".to_owned()),
    })
}

fn empty_list(ty: &str) -> IValue {
    let known = [
        ("Tensor", IValue::TensorList(Vec::new())),
        ("float", IValue::FloatList(Vec::new())),
        ("bool", IValue::BoolList(Vec::new())),
        ("Scalar", IValue::ScalarList(Vec::new())),
    ];
    known.into_iter().find(|(name, _)| ty.starts_with(name)).map_or(IValue::IntList(Vec::new()), |(_, list)| list)
}

/// Checks that a call raised what it must: the class, then the text.
pub(super) fn check_error(got: tensor_core::Result<()>, want: &Expected) -> Result<()> {
    let Err(error) = got else { return Err(format!("no error, want {}: {}", want.kind, want.message)) };
    let kind = error.kind().exception();
    if kind != want.kind {
        return Err(format!("error class: got {kind}: {}; want {}: {}", error.message(), want.kind, want.message));
    }
    if error.message().trim() != want.message {
        return Err(format!("error text: got '{}', want '{}'", error.message(), want.message));
    }
    Ok(())
}

/// The dense tensors of a file.
pub(super) fn dense(file: &SafeTensors<'_>, d: &Dense) -> Result<Tensor> {
    bridge::dense(file.array(&d.key)?.bytes, dtype(&d.dtype)?, &d.size).map_err(show)
}

/// The elements of a live tensor, lazy bits applied.
pub(super) fn elements(t: &Tensor) -> Result<Vec<Scalar>> {
    let bytes = bridge::bytes(t.storage()).map_err(show)?;
    View {
        bytes: &bytes,
        dtype: t.dtype(),
        size: t.sizes(),
        stride: t.strides(),
        offset: t.storage_offset(),
        conj: bridge::is_conj(t),
        neg: bridge::is_neg(t),
    }
    .elements()
}

/// Checks a tensor against a dense one: dtype, sizes, values.
pub(super) fn check_dense(file: &SafeTensors<'_>, got: &Tensor, want: &Dense, tolerance: Tolerance) -> Result<()> {
    let got = bridge::to_dense(got).map_err(show)?;
    let want_dtype = dtype(&want.dtype)?;
    if got.dtype() != want_dtype {
        return Err(format!("dtype {}, want {want_dtype}", got.dtype()));
    }
    if got.sizes() != want.size {
        return Err(format!("size {:?}, want {:?}", got.sizes(), want.size));
    }
    let stride = tensor_core::strides::contiguous(&want.size);
    let recorded = View {
        bytes: file.array(&want.key)?.bytes,
        dtype: want_dtype,
        size: &want.size,
        stride: &stride,
        offset: 0,
        conj: false,
        neg: false,
    };
    match difference(&elements(&got)?, &recorded.elements()?, &want.size, tolerance)? {
        Some(difference) => Err(difference.to_string()),
        None => Ok(()),
    }
}

/// As [`check_dense`], where either may be None.
pub(super) fn check_optional(
    file: &SafeTensors<'_>,
    got: Option<&Tensor>,
    want: Option<&Dense>,
    tolerance: Tolerance,
) -> Result<()> {
    match (got, want) {
        (None, None) => Ok(()),
        (Some(got), Some(want)) => check_dense(file, got, want, tolerance),
        (None, Some(_)) => Err("None, want a tensor".to_owned()),
        (Some(_), None) => Err("a tensor, want None".to_owned()),
    }
}
