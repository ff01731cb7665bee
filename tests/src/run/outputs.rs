//! Checks what a call returned and what it did to its storages.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use tensor_aten::{IValue, Tensor};
use tensor_core::Scalar;

use super::call::{Built, Context, elements, show, storages_of};
use crate::bridge;
use crate::compare::{Tolerance, View, difference, invariant};
use crate::corpus::safetensors::Array;
use crate::corpus::value::SparseRef;
use crate::corpus::{Case, Result, TensorRef, Value};

/// Operators whose fresh outputs may have other strides than PyTorch's: matrix products, convolutions, decompositions,
/// transforms and recurrent layers, where the layout is the implementation's choice. Whole names or prefixes (`*`).
const FREE_STRIDES: [&str; 44] = [
    "mm",
    "bmm",
    "addmm*",
    "addmv*",
    "addbmm*",
    "addr*",
    "baddbmm*",
    "matmul*",
    "linear*",
    "mv",
    "dot",
    "einsum",
    "tensordot*",
    "bilinear",
    "_trilinear",
    "chain_matmul*",
    "kron*",
    "conv*",
    "_conv*",
    "slow_conv*",
    "_slow_conv*",
    "thnn_conv*",
    "linalg_*",
    "_linalg_*",
    "svd*",
    "qr*",
    "geqrf*",
    "orgqr*",
    "ormqr*",
    "lu_*",
    "_lu_*",
    "cholesky*",
    "triangular_solve*",
    "inverse*",
    "pinverse",
    "matrix_*",
    "fft_*",
    "_fft_*",
    "lstm*",
    "gru*",
    "rnn_*",
    "_scaled_dot_product*",
    "scaled_dot_product*",
    "_trilinear*",
];

fn strides_are_free(op: &str) -> bool {
    let name = op.strip_prefix("aten::").unwrap_or(op);
    let base = name.split('.').next().unwrap_or(name);
    FREE_STRIDES.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => base.starts_with(prefix),
        None => base == *pattern,
    })
}

/// What is compared of outputs beside their dtype and sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Strictness {
    /// Strides, offsets, shared storages.
    pub layout: bool,
    /// Elements, and the contents of the arguments' storages.
    pub values: bool,
}

/// How far the outputs agree with the recorded ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Agreement {
    /// Value by value.
    Whole,
    /// Up to sign, phase or order (tag `nonunique`): gradients through them differ too.
    UpToGauge,
}

struct Check<'a> {
    context: &'a Context<'a>,
    case: &'a Case,
    strict: Strictness,
    /// Set when an output agrees in what is invariant alone.
    gauge: Cell<bool>,
    /// The number of each storage that was seen, by the storage's identity.
    numbers: HashMap<usize, usize>,
    next: usize,
    free: bool,
    /// Input storages that an output with other strides lives in: only the output's elements are compared.
    relaxed: HashSet<usize>,
}

/// Checks the results of a call and the storages of its arguments.
pub(super) fn check(
    context: &Context<'_>,
    case: &Case,
    built: &Built,
    got: &[IValue],
    strict: Strictness,
) -> Result<Agreement> {
    let mut check = Check {
        context,
        case,
        strict,
        gauge: Cell::new(false),
        numbers: built.storages.iter().enumerate().map(|(i, s)| (s.id(), i)).collect(),
        next: case.inputs,
        free: strides_are_free(context.op),
        relaxed: HashSet::new(),
    };
    let want = case.outputs.as_deref().unwrap_or_default();
    if want.len() != got.len() {
        return Err(format!("{} outputs, want {}", got.len(), want.len()));
    }
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        check.value(got, want.as_ref()).map_err(|e| format!("output {k}: {e}"))?;
    }
    for (i, storage) in built.storages.iter().enumerate().filter(|_| strict.values) {
        let now = bridge::bytes(storage).map_err(show)?;
        check.storage(i, &now).map_err(|e| format!("storage {i}: {e}"))?;
    }
    Ok(if check.gauge.get() { Agreement::UpToGauge } else { Agreement::Whole })
}

impl Check<'_> {
    /// The recorded contents of a storage after the call; None where they are not specified.
    fn recorded(&self, number: usize) -> Result<Option<Array<'_>>> {
        let own = self.case.storages.get(number).ok_or_else(|| format!("no storage {number}"))?;
        let key = self.case.mutated.get(&number).unwrap_or(own);
        key.as_deref().map(|key| self.context.file.array(key)).transpose()
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance { rtol: self.case.rtol, atol: self.case.atol }
    }

    fn values(&self, got: &[Scalar], want: &[Scalar], size: &[i64]) -> Result<()> {
        let Some(found) = difference(got, want, size, self.tolerance())? else { return Ok(()) };
        if self.case.tagged("nonunique") {
            let (a, b) = (invariant(got), invariant(want));
            if difference(&a, &b, &[b.len() as i64], self.tolerance())?.is_none() {
                self.gauge.set(true);
                return Ok(());
            }
        }
        Err(found.to_string())
    }

    fn value(&mut self, got: &IValue, want: Option<&Value>) -> Result<()> {
        match (got, want) {
            (IValue::None, None) => Ok(()),
            (IValue::Tensor(got), Some(Value::Tensor(want))) => self.tensor(got, want),
            (IValue::Tensor(got), Some(Value::Sparse(want))) => self.sparse(got, want),
            (IValue::TensorList(got), Some(Value::TensorList(want))) => {
                if got.len() != want.len() {
                    return Err(format!("a list of {}, want {}", got.len(), want.len()));
                }
                for (k, pair) in got.iter().zip(want).enumerate() {
                    match pair {
                        (None, None) => Ok(()),
                        (Some(got), Some(want)) => self.tensor(got, want),
                        _ => Err("None against a tensor".to_owned()),
                    }
                    .map_err(|e| format!("[{k}]: {e}"))?;
                }
                Ok(())
            }
            (IValue::TensorList(got), Some(Value::List(want))) if got.is_empty() && want.is_empty() => Ok(()),
            (IValue::IntList(got), Some(Value::IntList(want))) if got == want => Ok(()),
            (IValue::IntList(got), Some(Value::List(want))) if got.is_empty() && want.is_empty() => Ok(()),
            (IValue::DType(got), Some(Value::DType(want))) if got.name() == want => Ok(()),
            // PyTorch's `result_type` gives the dtype's number.
            (IValue::DType(got), Some(Value::Int(want))) if i64::from(*got as u8) == *want => Ok(()),
            (IValue::Str(got), Some(Value::Str(want))) if got == want => Ok(()),
            (got, Some(want)) => {
                let (Some(a), Some(b)) = (scalar(got), want.scalar()) else {
                    return Err(format!("{}, want {want:?}", got.kind()));
                };
                let tolerance = Tolerance { rtol: self.case.rtol.max(1e-12), atol: self.case.atol };
                if tolerance.close(a, b) { Ok(()) } else { Err(format!("{a:?}, want {b:?}")) }
            }
            (got, None) => Err(format!("{}, want None", got.kind())),
        }
    }

    fn tensor(&mut self, got: &Tensor, want: &TensorRef) -> Result<()> {
        let (dtype, stride) = (want.dtype()?, want.strides());
        if got.dtype() != dtype {
            return Err(format!("dtype {}, want {dtype}", got.dtype()));
        }
        if got.sizes() != want.size {
            return Err(format!("size {:?}, want {:?}", got.sizes(), want.size));
        }
        let meta = want.storage.is_none() || !self.strict.values;
        if got.device().is_meta() != meta {
            return Err(format!("a tensor on {}, want one on {}", got.device(), if meta { "meta" } else { "cpu" }));
        }
        let Some(number) = want.storage else { return self.layout(got, &stride, want.offset) };
        if self.strict.layout {
            self.aliasing(got, number)?;
            if let Err(e) = self.layout(got, &stride, want.offset) {
                let resized = self.case.mutated.contains_key(&number);
                if !self.free || (number < self.case.inputs && !resized) {
                    return Err(e);
                }
                self.relaxed.insert(number);
            }
            // Conjugation is computed here: a fresh result that PyTorch leaves to be conjugated is compared as it reads.
            let conj = want.conj && number < self.case.inputs;
            if (bridge::is_conj(got), bridge::is_neg(got)) != (conj, want.neg) {
                return Err("conj or neg bit".to_owned());
            }
        } else {
            self.relaxed.insert(number);
        }
        if !self.strict.values {
            return Ok(());
        }
        let Some(recorded) = self.recorded(number)? else { return Ok(()) };
        let recorded = View {
            bytes: recorded.bytes,
            dtype,
            size: &want.size,
            stride: &stride,
            offset: want.offset,
            conj: want.conj,
            neg: want.neg,
        };
        self.values(&elements(got)?, &recorded.elements()?, &want.size)
    }

    fn aliasing(&mut self, got: &Tensor, number: usize) -> Result<()> {
        let seen = *self.numbers.entry(got.storage().id()).or_insert(self.next);
        if seen == self.next {
            self.next += 1;
        }
        if seen != number {
            let name = |n: usize| if n < self.case.inputs { format!("input storage {n}") } else { "fresh".to_owned() };
            return Err(format!("aliasing: in storage {seen} ({}), want {number} ({})", name(seen), name(number)));
        }
        Ok(())
    }

    fn layout(&self, got: &Tensor, stride: &[i64], offset: i64) -> Result<()> {
        if got.strides() != stride {
            return Err(format!("stride {:?}, want {stride:?}", got.strides()));
        }
        if got.storage_offset() != offset {
            return Err(format!("offset {}, want {offset}", got.storage_offset()));
        }
        Ok(())
    }

    fn sparse(&mut self, got: &Tensor, want: &SparseRef) -> Result<()> {
        if got.layout() != bridge::layout(&want.layout).map_err(show)? {
            return Err(format!("layout {}, want {}", got.layout(), want.layout));
        }
        if got.sizes() != want.size {
            return Err(format!("size {:?}, want {:?}", got.sizes(), want.size));
        }
        if let Some(coalesced) = want.coalesced {
            match bridge::call("aten::is_coalesced", vec![got.into()]).map_err(show)?.as_slice() {
                [IValue::Bool(b)] if *b == coalesced => {}
                _ => return Err(format!("want is_coalesced() to be {coalesced}")),
            }
        }
        let parts = bridge::sparse_parts(got, &want.layout).map_err(show)?;
        for (k, (got, want)) in parts.iter().zip(&want.parts).enumerate() {
            self.tensor(got, want).map_err(|e| format!("part {k}: {e}"))?;
        }
        Ok(())
    }

    /// The storages of the arguments that the schema says are written.
    fn written(&self) -> impl Iterator<Item = usize> {
        let arguments = self.case.args.iter().zip(self.context.arguments).filter(|(_, a)| a.writes);
        arguments.flat_map(|(value, _)| storages_of(value.as_ref()))
    }

    /// An input storage after the call: bit for bit what it was, or what the call was to write.
    fn storage(&self, number: usize, now: &[u8]) -> Result<()> {
        let Some(want) = self.recorded(number)? else { return Ok(()) };
        if self.relaxed.contains(&number) {
            return Ok(());
        }
        if now.len() != want.bytes.len() {
            return Err(format!("{} bytes, want {}", now.len(), want.bytes.len()));
        }
        if now == want.bytes {
            return Ok(());
        }
        // What the call wrote may be what was there before: then the case does not list it.
        let written = self.case.mutated.contains_key(&number) || self.written().any(|n| n == number);
        let (true, Some(dtype)) = (written, want.dtype) else {
            return Err("written, though the call must leave it as it is".to_owned());
        };
        let count = [(now.len() / dtype.itemsize()) as i64];
        self.values(
            &View::row(now, dtype, &count).elements()?,
            &View::row(want.bytes, dtype, &count).elements()?,
            &count,
        )
    }
}

fn scalar(value: &IValue) -> Option<Scalar> {
    Some(match value {
        IValue::Bool(b) => Scalar::Bool(*b),
        IValue::Int(i) => Scalar::Int(*i),
        IValue::Float(f) => Scalar::Float(*f),
        IValue::Complex(c) => Scalar::Complex(*c),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_free_for_products_alone() {
        for op in ["aten::mm", "aten::addmm.out", "aten::conv2d", "aten::linalg_svd", "aten::lu_solve"] {
            assert!(strides_are_free(op), "{op}");
        }
        for op in ["aten::mul.Tensor", "aten::clone", "aten::t", "aten::mean.dim", "aten::max.dim", "aten::dot_product"]
        {
            assert!(!strides_are_free(op), "{op}");
        }
    }
}
