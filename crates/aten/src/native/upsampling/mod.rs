//! Images of other sizes, (N, C, ..) over one, two and three dimensions, and the gradients: checks, memory formats, and the
//! call of a kernel that sums taps.

mod taps;

use tensor_core::strides::{self, Dims};
use tensor_core::{DType, MemoryFormat, Result, bail, check};

use super::convolution::list;
use super::taps::{Taps, format_of, resample};
use crate::kernels;
use crate::out::{Out, Spec};
use crate::{Tensor, ops};

use taps::{Kind, Line};

/// One of the operators.
struct Resampling<'a> {
    /// its name
    name: &'static str,
    kind: Kind,
    output: &'a [i64],
    align_corners: bool,
    scales: &'a [Option<f64>],
}

impl Resampling<'_> {
    fn dims(&self) -> usize {
        self.scales.len()
    }

    /// Checks sizes, and gives those of the result.
    fn result(&self, input: &[i64]) -> Result<Dims> {
        let (dims, output) = (self.dims(), self.output);
        check!(output.len() == dims, "It is expected output_size equals to {dims}, but got size {}", output.len());
        check!(
            input.len() == dims + 2,
            "It is expected input_size equals to {}, but got size {}",
            dims + 2,
            input.len()
        );
        let image = &input[2..];
        if !image.iter().chain(output).all(|&size| size > 0) {
            let names = &["D", "H", "W"][3 - dims..];
            let named = |sizes: &[i64]| {
                names.iter().zip(sizes).map(|(name, size)| format!("{name}: {size}")).collect::<Vec<_>>().join(", ")
            };
            bail!(
                Runtime,
                "Input and output sizes should be greater than 0, but got input ({}){} output ({})",
                named(image),
                if dims == 1 { " and" } else { "" },
                named(output)
            );
        }
        Ok(input[..2].iter().chain(output).copied().collect())
    }

    /// The taps of each dimension, over an image.
    fn taps(&self, image: &[i64], (wide, weights, by_sizes): (bool, DType, bool)) -> Vec<Taps> {
        let line = |d: usize| Line {
            input: image[d] as usize,
            output: self.output[d] as usize,
            scale: self.scales[d],
            align_corners: self.align_corners,
            wide,
            weights,
            by_sizes,
        };
        (0..self.dims()).map(|d| line(d).taps(self.kind)).collect()
    }

    fn is_antialiased(&self) -> bool {
        matches!(self.kind, Kind::LinearAa | Kind::CubicAa | Kind::LanczosAa)
    }

    fn is_nearest(&self) -> bool {
        matches!(self.kind, Kind::Nearest | Kind::NearestExact)
    }

    /// True where PyTorch works channel by channel, and names its errors so.
    fn by_channels(&self, x: &Tensor) -> bool {
        let many = x.sizes()[1] > 3;
        match (self.kind, self.dims()) {
            (Kind::Cubic, _) | (_, 1) => false,
            (_, 2) => {
                (many && x.is_contiguous_in(MemoryFormat::ChannelsLast))
                    || self.output[0].saturating_add(self.output[1]) <= 128
            }
            _ => many && x.is_contiguous_in(MemoryFormat::ChannelsLast3d),
        }
    }

    /// What errors call the kernel.
    fn kernel_name(&self, x: &Tensor) -> String {
        if self.is_antialiased() {
            return "compute_index_ranges_weights".to_owned();
        }
        if self.by_channels(x) {
            return match (self.is_nearest(), self.dims()) {
                (true, dims) => format!("upsample_nearest{dims}d_channels_last"),
                (false, _) => format!("{}_channels_last", self.name),
            };
        }
        let kind = match self.kind {
            Kind::Linear => "linear",
            Kind::Cubic => "cubic",
            _ => "nearest",
        };
        format!("compute_indices_weights_{kind}")
    }

    fn forward(&self, out: Out<'_>, x: &Tensor) -> Result<Tensor> {
        let sizes = self.result(x.sizes())?;
        check!(
            x.numel() != 0 || !x.sizes()[1..].contains(&0),
            "Non-empty {}D data tensor expected but got a tensor with sizes {}",
            self.dims() + 2,
            list(x.sizes())
        );
        // Where nothing changes a filter has nothing to do, in any dtype.
        let same = self.is_antialiased() && sizes.as_slice() == x.sizes();
        let kernel = if x.is_meta() || same { None } else { Some(self.kernel(x)?) };
        let format = format_of(x, self.dims());
        let strides = Some(strides::of_format(&sizes, format)?);
        let slot = out.prepare(0, Spec { strides, ..Spec::like(&sizes, x) }, &[x])?;
        if let Some(kernel) = kernel.filter(|_| slot.tensor.numel() > 0) {
            let (channels, dtype) = (self.by_channels(x), x.dtype());
            // Weights of bytes are rounded to integers later.
            let bytes = dtype == DType::U8 && !self.is_nearest();
            let wide = bytes || (dtype == DType::F64 && !(self.is_nearest() && channels));
            let weights = if channels { DType::F32 } else { dtype };
            let by_sizes = bytes || self.is_antialiased() || (self.is_nearest() && channels);
            resample(kernel, &slot.tensor, x, format, self.taps(&x.sizes()[2..], (wide, weights, by_sizes)))?;
        }
        if same && !slot.is_meta() {
            ops::copy_(&slot.tensor, x, false)?;
        }
        slot.finish()
    }

    fn kernel(&self, x: &Tensor) -> Result<kernels::ResampleKernel> {
        let table = kernels::upsampling(x.device())?;
        let dtype = x.dtype();
        let wanted = if self.is_nearest() {
            table.nearest.get(dtype, "")
        } else if dtype == DType::U8 && self.dims() == 2 {
            table.bytes.get(dtype, "")
        } else if self.is_antialiased() && !matches!(dtype, DType::F32 | DType::F64) {
            table.weighted.get(DType::Bool, "")
        } else {
            table.weighted.get(dtype, "")
        };
        wanted.or_else(|_| not_implemented(&self.kernel_name(x), dtype))
    }

    fn check_grad(&self, grad: &Tensor, sizes: &[i64]) -> Result<()> {
        let n = sizes.len();
        if n == 3 {
            for (d, &size) in sizes.iter().enumerate() {
                let got = grad.sizes().get(d).copied().unwrap_or(0);
                check!(
                    grad.dim() == n && got == size,
                    "Expected a tensor of dimension {n} and tensor.size[{d}] == {size} but got: dimension {} and \
                     tensor.size[{d}] = {got}",
                    grad.dim()
                );
            }
            return Ok(());
        }
        check!(
            grad.dim() == n,
            "Expected grad_output to be a tensor of dimension {n} but got: dimension {}",
            grad.dim()
        );
        for (d, (&size, &got)) in sizes.iter().zip(grad.sizes()).enumerate() {
            check!(
                got == size,
                "Expected grad_output to have the same shape as output; output.size({d}) = {size} but got \
                 grad_output.size({d}) = {got}"
            );
        }
        Ok(())
    }

    fn backward(&self, out: Out<'_>, grad: &Tensor, input: &[i64]) -> Result<Tensor> {
        let sizes = self.result(input)?;
        self.check_grad(grad, &sizes)?;
        let (dtype, dims) = (grad.dtype(), self.dims());
        let kernel = if grad.is_meta() {
            None
        } else {
            let table = kernels::upsampling(grad.device())?;
            let narrow = self.is_antialiased() && matches!(dtype, DType::F16 | DType::BF16);
            let kernel = table.weighted.get(if narrow { DType::Bool } else { dtype }, "");
            Some(kernel.or_else(|_| {
                let name = self.name.trim_start_matches(if self.is_antialiased() { "_" } else { "" });
                not_implemented(&format!("{name}_backward{}", if self.is_antialiased() { "_cpu" } else { "" }), dtype)
            })?)
        };
        let keeps =
            matches!((self.kind, dims), (Kind::Nearest | Kind::NearestExact, 2) | (Kind::Linear | Kind::LinearAa, _));
        let format = if keeps { format_of(grad, dims) } else { MemoryFormat::Contiguous };
        let strides = Some(strides::of_format(input, format)?);
        let slot = out.prepare(0, Spec { strides, ..Spec::like(input, grad) }, &[grad])?;
        if let Some(kernel) = kernel.filter(|_| slot.tensor.numel() > 0) {
            let wide = dtype == DType::F64 && !self.is_nearest();
            let taps = self.taps(&input[2..], (wide, DType::F32, self.is_nearest()));
            let taps = taps.iter().zip(&input[2..]).map(|(taps, &n)| taps.transposed(n as usize)).collect();
            resample(kernel, &slot.tensor, grad, format, taps)?;
        }
        slot.finish()
    }
}

#[cold]
fn not_implemented<R>(name: &str, dtype: DType) -> Result<R> {
    bail!(NotImplemented, "\"{name}\" not implemented for '{}'", dtype.cpp_name())
}

macro_rules! resamplings {
    ($($kind:ident $name:ident, $backward:ident ($($corners:ident)?; $($scale:ident),*);)*) => { $(
        #[doc = concat!("`", stringify!($name), "`: images of `output_size`.")]
        pub fn $name(
            out: Out<'_>,
            self_: &Tensor,
            output_size: &[i64],
            $($corners: bool,)?
            $($scale: Option<f64>),*
        ) -> Result<Tensor> {
            let scales = &[$($scale),*];
            let (name, output) = (stringify!($name), output_size);
            let align_corners = false $(|| $corners)?;
            Resampling { name, kind: Kind::$kind, output, align_corners, scales }.forward(out, self_)
        }

        #[doc = concat!("Gradient of [`", stringify!($name), "`] over images of `input_size`.")]
        pub fn $backward(
            out: Out<'_>,
            grad_output: &Tensor,
            output_size: &[i64],
            input_size: &[i64],
            $($corners: bool,)?
            $($scale: Option<f64>),*
        ) -> Result<Tensor> {
            let scales = &[$($scale),*];
            let (name, output) = (stringify!($name), output_size);
            let align_corners = false $(|| $corners)?;
            Resampling { name, kind: Kind::$kind, output, align_corners, scales }.backward(out, grad_output, input_size)
        }
    )* };
}

resamplings! {
    Nearest upsample_nearest1d, upsample_nearest1d_backward (; scales);
    Nearest upsample_nearest2d, upsample_nearest2d_backward (; scales_h, scales_w);
    Nearest upsample_nearest3d, upsample_nearest3d_backward (; scales_d, scales_h, scales_w);
    NearestExact _upsample_nearest_exact1d, _upsample_nearest_exact1d_backward (; scales);
    NearestExact _upsample_nearest_exact2d, _upsample_nearest_exact2d_backward (; scales_h, scales_w);
    NearestExact _upsample_nearest_exact3d, _upsample_nearest_exact3d_backward (; scales_d, scales_h, scales_w);
    Linear upsample_linear1d, upsample_linear1d_backward (align_corners; scales);
    Linear upsample_bilinear2d, upsample_bilinear2d_backward (align_corners; scales_h, scales_w);
    Linear upsample_trilinear3d, upsample_trilinear3d_backward (align_corners; scales_d, scales_h, scales_w);
    Cubic upsample_bicubic2d, upsample_bicubic2d_backward (align_corners; scales_h, scales_w);
    LinearAa _upsample_bilinear2d_aa, _upsample_bilinear2d_aa_backward (align_corners; scales_h, scales_w);
    CubicAa _upsample_bicubic2d_aa, _upsample_bicubic2d_aa_backward (align_corners; scales_h, scales_w);
    LanczosAa _upsample_lanczos2d_aa, _upsample_lanczos2d_aa_backward (align_corners; scales_h, scales_w);
}
