//! How tensors print: `Display` and `Debug` give the text of PyTorch's `repr`, and [`PrintOptions`] are its
//! `set_printoptions`. Laying out the elements is in `layout`; numbers as text are in `number`.
//!
//! Printing never fails and never panics: where the elements cannot be read, a note stands in their place.

mod layout;
mod number;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::sync::{PoisonError, RwLock};

use tensor_core::{DType, Layout, Result, promotion};

use crate::{IValue, Tensor};

/// How tensors are printed: the arguments of `torch.set_printoptions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// digits after the decimal point
    pub precision: usize,
    /// tensors of more elements than this show the ends of each dimension alone
    pub threshold: usize,
    /// how many elements such an end has
    pub edgeitems: usize,
    /// the columns that a line may take
    pub linewidth: usize,
    /// scientific notation: always, never, or where the values ask for it
    pub sci_mode: Option<bool>,
}

impl PrintOptions {
    /// PyTorch's defaults (`profile="default"`).
    pub const DEFAULT: Self = Self { precision: 4, threshold: 1000, edgeitems: 3, linewidth: 80, sci_mode: None };
    /// Fewer digits and shorter ends (`profile="short"`).
    pub const SHORT: Self = Self { precision: 2, edgeitems: 2, ..Self::DEFAULT };
    /// Every element (`profile="full"`).
    pub const FULL: Self = Self { threshold: usize::MAX, ..Self::DEFAULT };
}

impl Default for PrintOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

static OPTIONS: RwLock<PrintOptions> = RwLock::new(PrintOptions::DEFAULT);

/// The options that `Display` uses in this process.
pub fn print_options() -> PrintOptions {
    *OPTIONS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the options that `Display` uses in this process (`torch.set_printoptions`).
pub fn set_print_options(options: PrintOptions) {
    *OPTIONS.write().unwrap_or_else(PoisonError::into_inner) = options;
}

/// A tensor's text with options of its own; see [`Tensor::display`].
pub struct Display<'a> {
    tensor: &'a Tensor,
    options: PrintOptions,
}

impl Tensor {
    /// The tensor's text under given options, whatever those of the process are: `println!("{}", x.display(options))`.
    pub fn display(&self, options: PrintOptions) -> Display<'_> {
        Display { tensor: self, options }
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.display(print_options()).fmt(f)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Display<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&repr(self.tensor, &self.options, origin(self.tensor))?)
    }
}

const PREFIX: &str = "tensor(";

/// What is said of a tensor's place in the graph.
fn origin(tensor: &Tensor) -> Option<String> {
    match tensor.grad_fn() {
        Ok(Some(node)) => Some(format!("grad_fn=<{}>", node.name().rsplit("::").next().unwrap_or_default())),
        Ok(None) => tensor.requires_grad().then(|| "requires_grad=True".to_owned()),
        Err(_) => Some("grad_fn=<Invalid>".to_owned()),
    }
}

fn repr(tensor: &Tensor, options: &PrintOptions, origin: Option<String>) -> Result<String, fmt::Error> {
    let default = promotion::default_dtype();
    let mut suffixes: Vec<String> = Vec::new();
    if !tensor.device().is_cpu() {
        suffixes.push(format!("device='{}'", tensor.device()));
    }
    let mut text = String::from(PREFIX);
    if tensor.is_meta() || tensor.numel() == 0 {
        if tensor.is_meta() || tensor.dim() != 1 {
            suffixes.push(size(tensor));
        }
        if tensor.dtype() != default {
            suffixes.push(format!("dtype={}", tensor.dtype()));
        }
        text.push_str(if tensor.is_meta() { "..." } else { "[]" });
    } else {
        if options.edgeitems == 0 {
            suffixes.push(size(tensor));
        }
        if ![default, default.to_complex(), DType::I64, DType::Bool].contains(&tensor.dtype()) {
            suffixes.push(format!("dtype={}", tensor.dtype()));
        }
        match on_host(tensor).and_then(|host| layout::Sample::read(&host, options)) {
            Ok(sample) => sample.write(&mut text, PREFIX.len(), options)?,
            Err(error) => {
                write!(text, "<{error}>")?;
                if options.edgeitems > 0 {
                    suffixes.insert(0, size(tensor));
                }
            }
        }
    }
    if tensor.layout() != Layout::Strided {
        suffixes.push(format!("layout={}", tensor.layout()));
    }
    suffixes.extend(origin);
    append(&mut text, &suffixes, options.linewidth);
    Ok(text)
}

/// The tensor itself where its elements can be read, or a copy of it.
fn on_host(tensor: &Tensor) -> Result<Tensor> {
    if tensor.device().is_cpu() {
        return Ok(tensor.clone());
    }
    let _no_grad = tensor_core::tls::grad_mode(false);
    let args = [
        IValue::from(tensor),
        IValue::None,
        IValue::None,
        IValue::Device(tensor_core::Device::CPU),
        IValue::None,
        IValue::Bool(false),
        IValue::None,
    ];
    match crate::dispatch::invoke("aten::_to_copy", args)?.into_iter().next() {
        Some(IValue::Tensor(copy)) => Ok(copy),
        _ => tensor_core::bail!(Runtime, "aten::_to_copy returned no tensor"),
    }
}

/// `size=(2, 3)`, as Python writes a tuple.
fn size(tensor: &Tensor) -> String {
    match tensor.sizes() {
        [one] => format!("size=({one},)"),
        sizes => {
            let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
            format!("size=({})", sizes.join(", "))
        }
    }
}

/// Puts the suffixes and the closing parenthesis after the elements, on new lines where they do not fit.
fn append(text: &mut String, suffixes: &[String], linewidth: usize) {
    // The column that the last line has reached, counting the parenthesis and a comma that may follow.
    let mut column = text.len() - text.rfind('\n').map_or(0, |at| at + 1) + 2;
    for suffix in suffixes {
        if column + suffix.len() + 2 > linewidth {
            text.push_str(",\n");
            text.extend(std::iter::repeat_n(' ', PREFIX.len()));
            column = PREFIX.len() + suffix.len();
        } else {
            text.push_str(", ");
            column += suffix.len() + 2;
        }
        text.push_str(suffix);
    }
    text.push(')');
}
