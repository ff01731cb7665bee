//! Which elements are shown, and how they stand in brackets and lines. How a number is written is in `number`.

use std::fmt::{self, Write};

use smallvec::SmallVec;
use tensor_core::tensor_impl::Metadata;
use tensor_core::{Element, Result, Scalar, dispatch, read};

use super::PrintOptions;
use super::number::Column;
use crate::Tensor;

/// A dimension: how many of its items are shown, and where items are left out.
#[derive(Clone, Copy)]
struct Axis {
    shown: usize,
    /// The shown items before this one are the front end, the others the back end.
    gap: Option<usize>,
    /// How far the first item of the back end lies behind the last one of the front end, less one.
    skipped: usize,
}

impl Axis {
    fn new(size: i64, summarize: bool, edge: usize) -> Self {
        let size = usize::try_from(size).unwrap_or(0);
        match edge.checked_mul(2) {
            Some(both) if summarize && size > both => Self { shown: both, gap: Some(edge), skipped: size - both },
            _ => Self { shown: size, gap: None, skipped: 0 },
        }
    }

    /// The index in the tensor of a shown item.
    fn index(self, item: usize) -> usize {
        if self.gap.is_some_and(|gap| item >= gap) { item + self.skipped } else { item }
    }
}

type Axes = SmallVec<[Axis; 5]>;

/// The elements of a tensor that are shown, as text, in row-major order.
pub(super) struct Sample {
    axes: Axes,
    first: Column,
    /// the imaginary parts
    second: Option<Column>,
}

impl Sample {
    /// Reads the elements that the options show of a tensor of the host.
    ///
    /// # Errors
    /// When a writer of the storage is out.
    pub fn read(tensor: &Tensor, options: &PrintOptions) -> Result<Self> {
        let metadata = tensor.as_impl().metadata();
        let summarize = metadata.numel as u64 > options.threshold as u64;
        let axes: Axes = metadata.sizes.iter().map(|&size| Axis::new(size, summarize, options.edgeitems)).collect();
        let values = dispatch!(metadata.dtype, T => shown::<T>(metadata, &axes))?;
        if metadata.dtype.is_complex() {
            let part = |f: fn(Scalar) -> f64| -> Vec<f64> { values.iter().map(|&v| f(v)).collect() };
            let first = Column::real(&part(|v| v.to_complex().re), options);
            let second = Column::real(&part(|v| v.to_complex().im), options);
            return Ok(Self { axes, first, second: Some(second) });
        }
        let first = if metadata.dtype.is_floating_point() {
            Column::real(&values.iter().map(|v| v.to_f64()).collect::<Vec<_>>(), options)
        } else {
            Column::exact(values.iter().map(|&v| exact(v)).collect())
        };
        Ok(Self { axes, first, second: None })
    }

    /// Writes the elements in brackets, at a column of the line.
    pub fn write(&self, out: &mut String, indent: usize, options: &PrintOptions) -> fmt::Result {
        let Some((row, outer)) = self.axes.split_last() else { return self.element(out, 0) };
        if self.axes.iter().any(|axis| axis.shown == 0) {
            return out.write_str("[...]");
        }
        let dim = self.axes.len();
        let mut items: SmallVec<[usize; 5]> = SmallVec::from_elem(0, outer.len());
        let mut start = 0;
        repeat(out, '[', outer.len());
        loop {
            self.row(out, *row, start, indent + outer.len(), options.linewidth)?;
            start += row.shown;
            // The innermost dimension with another item; those within it end here.
            let mut d = outer.len();
            loop {
                let Some(next) = d.checked_sub(1) else { return Ok(()) };
                d = next;
                items[d] += 1;
                if items[d] < outer[d].shown {
                    break;
                }
                items[d] = 0;
                out.push(']');
            }
            let new_line = |out: &mut String| {
                out.push(',');
                repeat(out, '\n', dim - d - 1);
                repeat(out, ' ', indent + d + 1);
            };
            new_line(out);
            if outer[d].gap == Some(items[d]) {
                out.push_str("...");
                new_line(out);
            }
            repeat(out, '[', outer.len() - d - 1);
        }
    }

    /// Writes a row of the last dimension, over as many lines as it needs.
    fn row(&self, out: &mut String, row: Axis, start: usize, indent: usize, linewidth: usize) -> fmt::Result {
        let width = self.first.width() + 2 + self.second.as_ref().map_or(0, |imaginary| imaginary.width() + 1);
        let per_line = (linewidth.saturating_sub(indent) / width).max(1);
        out.push('[');
        let mut written = 0;
        let mut separate = |out: &mut String| {
            if written > 0 && written % per_line == 0 {
                out.push_str(",\n");
                repeat(out, ' ', indent + 1);
            } else if written > 0 {
                out.push_str(", ");
            }
            written += 1;
        };
        for item in 0..row.shown {
            if row.gap == Some(item) {
                separate(out);
                out.push_str(" ...");
            }
            separate(out);
            self.element(out, start + item)?;
        }
        out.push(']');
        Ok(())
    }

    fn element(&self, out: &mut String, i: usize) -> fmt::Result {
        out.push_str(&self.first.padded(i));
        if let Some(imaginary) = &self.second {
            let text = imaginary.text(i);
            let sign = if text.starts_with('-') { "" } else { "+" };
            write!(out, "{sign}{text}j")?;
        }
        Ok(())
    }
}

fn repeat(out: &mut String, c: char, times: usize) {
    out.extend(std::iter::repeat_n(c, times));
}

fn exact(value: Scalar) -> String {
    match value {
        Scalar::Bool(true) => "True".to_owned(),
        Scalar::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    }
}

/// The elements at the shown items of each dimension.
fn shown<T: Element>(tensor: &Metadata, axes: &[Axis]) -> Result<Vec<Scalar>> {
    let mut places = Vec::new();
    if axes.iter().all(|axis| axis.shown > 0) {
        let mut items: SmallVec<[usize; 5]> = SmallVec::from_elem(0, axes.len());
        'all: loop {
            let offsets = items.iter().zip(axes).zip(&tensor.strides);
            let offsets = offsets.map(|((&item, axis), &stride)| axis.index(item) as i64 * stride);
            places.push(tensor.offset + offsets.sum::<i64>());
            let mut d = axes.len();
            loop {
                let Some(next) = d.checked_sub(1) else { break 'all };
                d = next;
                items[d] += 1;
                if items[d] < axes[d].shown {
                    break;
                }
                items[d] = 0;
            }
        }
    }
    Ok(read::elements_at::<T>(tensor, &places)?.into_iter().map(Element::to_scalar).collect())
}
