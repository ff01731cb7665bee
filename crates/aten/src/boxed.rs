//! [`Args`]: what a generated boxed form reads its arguments from, with an error for each wrong kind or number.

use tensor_core::{DType, Device, Error, ErrorKind, Generator, Layout, MemoryFormat, Result, Scalar, bail};

use crate::{IValue, Stack, Tensor};

/// The arguments of one boxed call, taken off the stack.
pub struct Args {
    name: &'static str,
    values: Vec<IValue>,
}

// The getters are calls: thousands of boxed forms, which nobody waits for, would have them inlined.
impl Args {
    /// Calls `f` with the last `count` values of the stack, which it replaces by its results.
    ///
    /// # Errors
    /// When there are fewer, and those of `f`.
    pub fn call(
        stack: &mut Stack,
        count: usize,
        name: &'static str,
        f: fn(&Self, &mut Stack) -> Result<()>,
    ) -> Result<()> {
        let Some(start) = stack.len().checked_sub(count) else {
            bail!(Runtime, "{name}() Expected a value for {count} argument(s) but received {}.", stack.len());
        };
        f(&Self { name, values: stack.split_off(start) }, stack)
    }

    #[cold]
    fn wrong(&self, i: usize, expected: &str) -> Error {
        let found = self.values.get(i).map_or("nothing", IValue::kind);
        let name = self.name;
        Error::new(
            ErrorKind::Runtime,
            format!(
                "{name}() Expected a value of type '{expected}' for argument {i} but instead found type '{found}'."
            ),
        )
    }

    /// `Tensor`
    #[inline(never)]
    pub fn tensor(&self, i: usize) -> Result<&Tensor> {
        match &self.values[i] {
            IValue::Tensor(t) => Ok(t),
            _ => Err(self.wrong(i, "Tensor")),
        }
    }

    /// `Tensor?`
    #[inline(never)]
    pub fn opt_tensor(&self, i: usize) -> Result<Option<&Tensor>> {
        match &self.values[i] {
            IValue::None => Ok(None),
            IValue::Tensor(t) => Ok(Some(t)),
            _ => Err(self.wrong(i, "Optional[Tensor]")),
        }
    }

    /// `Tensor[]`
    #[inline(never)]
    pub fn tensor_list(&self, i: usize) -> Result<Vec<&Tensor>> {
        self.opt_tensor_list(i)?.into_iter().map(|t| t.ok_or_else(|| self.wrong(i, "List[Tensor]"))).collect()
    }

    /// `Tensor?[]`
    #[inline(never)]
    pub fn opt_tensor_list(&self, i: usize) -> Result<Vec<Option<&Tensor>>> {
        match &self.values[i] {
            IValue::TensorList(list) => Ok(list.iter().map(Option::as_ref).collect()),
            IValue::IntList(list) if list.is_empty() => Ok(Vec::new()),
            _ => Err(self.wrong(i, "List[Optional[Tensor]]")),
        }
    }

    /// `Scalar`
    #[inline(never)]
    pub fn scalar(&self, i: usize) -> Result<Scalar> {
        self.opt_scalar(i)?.ok_or_else(|| self.wrong(i, "number"))
    }

    /// `Scalar?`
    #[inline(never)]
    pub fn opt_scalar(&self, i: usize) -> Result<Option<Scalar>> {
        Ok(Some(match &self.values[i] {
            IValue::None => return Ok(None),
            IValue::Bool(b) => Scalar::Bool(*b),
            IValue::Int(v) => Scalar::Int(*v),
            IValue::Float(f) => Scalar::Float(*f),
            IValue::Complex(c) => Scalar::Complex(*c),
            _ => return Err(self.wrong(i, "number")),
        }))
    }

    /// `Scalar[]`
    #[inline(never)]
    pub fn scalar_list(&self, i: usize) -> Result<Vec<Scalar>> {
        Ok(match &self.values[i] {
            IValue::ScalarList(list) => list.clone(),
            IValue::IntList(list) => list.iter().map(|&v| Scalar::Int(v)).collect(),
            IValue::FloatList(list) => list.iter().map(|&v| Scalar::Float(v)).collect(),
            IValue::BoolList(list) => list.iter().map(|&v| Scalar::Bool(v)).collect(),
            _ => return Err(self.wrong(i, "List[number]")),
        })
    }

    /// `int`
    #[inline(never)]
    pub fn int(&self, i: usize) -> Result<i64> {
        self.opt_int(i)?.ok_or_else(|| self.wrong(i, "int"))
    }

    /// `int?`
    #[inline(never)]
    pub fn opt_int(&self, i: usize) -> Result<Option<i64>> {
        match &self.values[i] {
            IValue::None => Ok(None),
            IValue::Int(v) => Ok(Some(*v)),
            IValue::Bool(b) => Ok(Some(*b as i64)),
            _ => Err(self.wrong(i, "int")),
        }
    }

    /// `float`
    #[inline(never)]
    pub fn float(&self, i: usize) -> Result<f64> {
        self.opt_float(i)?.ok_or_else(|| self.wrong(i, "float"))
    }

    /// `float?`
    #[inline(never)]
    pub fn opt_float(&self, i: usize) -> Result<Option<f64>> {
        match &self.values[i] {
            IValue::None => Ok(None),
            IValue::Float(f) => Ok(Some(*f)),
            IValue::Int(v) => Ok(Some(*v as f64)),
            _ => Err(self.wrong(i, "float")),
        }
    }

    /// `bool`
    #[inline(never)]
    pub fn bool(&self, i: usize) -> Result<bool> {
        self.opt_bool(i)?.ok_or_else(|| self.wrong(i, "bool"))
    }

    /// `bool?`
    #[inline(never)]
    pub fn opt_bool(&self, i: usize) -> Result<Option<bool>> {
        match &self.values[i] {
            IValue::None => Ok(None),
            IValue::Bool(b) => Ok(Some(*b)),
            IValue::Int(v) => Ok(Some(*v != 0)),
            _ => Err(self.wrong(i, "bool")),
        }
    }

    /// `str`
    #[inline(never)]
    pub fn str(&self, i: usize) -> Result<&str> {
        self.opt_str(i)?.ok_or_else(|| self.wrong(i, "str"))
    }

    /// `str?`
    #[inline(never)]
    pub fn opt_str(&self, i: usize) -> Result<Option<&str>> {
        match &self.values[i] {
            IValue::None => Ok(None),
            IValue::Str(s) => Ok(Some(s)),
            _ => Err(self.wrong(i, "str")),
        }
    }

    /// `int[]`; for `int[N]` one number stands for N equal ones.
    #[inline(never)]
    pub fn int_list(&self, i: usize, fixed: usize) -> Result<Vec<i64>> {
        self.opt_int_list(i, fixed)?.ok_or_else(|| self.wrong(i, "List[int]"))
    }

    /// `int[]?`
    #[inline(never)]
    pub fn opt_int_list(&self, i: usize, fixed: usize) -> Result<Option<Vec<i64>>> {
        Ok(Some(match &self.values[i] {
            IValue::None => return Ok(None),
            IValue::IntList(list) => list.clone(),
            IValue::Int(v) => vec![*v; fixed.max(1)],
            IValue::TensorList(list) if list.is_empty() => Vec::new(),
            _ => return Err(self.wrong(i, "List[int]")),
        }))
    }

    /// `float[]`
    #[inline(never)]
    pub fn float_list(&self, i: usize) -> Result<Vec<f64>> {
        self.opt_float_list(i)?.ok_or_else(|| self.wrong(i, "List[float]"))
    }

    /// `float[]?`
    #[inline(never)]
    pub fn opt_float_list(&self, i: usize) -> Result<Option<Vec<f64>>> {
        Ok(Some(match &self.values[i] {
            IValue::None => return Ok(None),
            IValue::FloatList(list) => list.clone(),
            IValue::IntList(list) => list.iter().map(|&v| v as f64).collect(),
            _ => return Err(self.wrong(i, "List[float]")),
        }))
    }

    /// `bool[]`
    #[inline(never)]
    pub fn bool_list(&self, i: usize) -> Result<Vec<bool>> {
        match &self.values[i] {
            IValue::BoolList(list) => Ok(list.clone()),
            IValue::IntList(list) if list.is_empty() => Ok(Vec::new()),
            _ => Err(self.wrong(i, "List[bool]")),
        }
    }

    /// `bool[N]`
    pub fn bool_array<const N: usize>(&self, i: usize) -> Result<[bool; N]> {
        self.bool_list(i)?.try_into().map_err(|_| self.wrong(i, "List[bool] of fixed length"))
    }

    /// `ScalarType`
    #[inline(never)]
    pub fn dtype(&self, i: usize) -> Result<DType> {
        self.opt_dtype(i)?.ok_or_else(|| self.wrong(i, "dtype"))
    }

    /// `ScalarType?`
    #[inline(never)]
    pub fn opt_dtype(&self, i: usize) -> Result<Option<DType>> {
        match &self.values[i] {
            IValue::None => Ok(None),
            IValue::DType(v) => Ok(Some(*v)),
            _ => Err(self.wrong(i, "dtype")),
        }
    }

    /// `Layout?`
    #[inline(never)]
    pub fn opt_layout(&self, i: usize) -> Result<Option<Layout>> {
        match &self.values[i] {
            IValue::None => Ok(None),
            IValue::Layout(v) => Ok(Some(*v)),
            _ => Err(self.wrong(i, "layout")),
        }
    }

    /// `Layout`
    #[inline(never)]
    pub fn layout(&self, i: usize) -> Result<Layout> {
        self.opt_layout(i)?.ok_or_else(|| self.wrong(i, "layout"))
    }

    /// `Device?`
    #[inline(never)]
    pub fn opt_device(&self, i: usize) -> Result<Option<Device>> {
        match &self.values[i] {
            IValue::None => Ok(None),
            IValue::Device(v) => Ok(Some(*v)),
            _ => Err(self.wrong(i, "Device")),
        }
    }

    /// `Device`
    #[inline(never)]
    pub fn device(&self, i: usize) -> Result<Device> {
        self.opt_device(i)?.ok_or_else(|| self.wrong(i, "Device"))
    }

    /// `MemoryFormat?`
    #[inline(never)]
    pub fn opt_memory_format(&self, i: usize) -> Result<Option<MemoryFormat>> {
        match &self.values[i] {
            IValue::None => Ok(None),
            IValue::MemoryFormat(v) => Ok(Some(*v)),
            _ => Err(self.wrong(i, "memory_format")),
        }
    }

    /// `MemoryFormat`
    #[inline(never)]
    pub fn memory_format(&self, i: usize) -> Result<MemoryFormat> {
        self.opt_memory_format(i)?.ok_or_else(|| self.wrong(i, "memory_format"))
    }

    /// `Generator?`
    #[inline(never)]
    pub fn opt_generator(&self, i: usize) -> Result<Option<&Generator>> {
        match &self.values[i] {
            IValue::None => Ok(None),
            IValue::Generator(g) => Ok(Some(g)),
            _ => Err(self.wrong(i, "Generator")),
        }
    }
}
