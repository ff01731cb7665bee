//! [`BatchNorm1d`], [`BatchNorm2d`], [`BatchNorm3d`].

use tensor_aten::tensor_options::TensorOptions;
use tensor_aten::{Tensor, ops};
use tensor_core::{DType, Result, check_value};

use crate::linear::empty;
use crate::{Buffer, Forward, Module, Parameter, Training, init};

/// The settings of a batch normalisation that have defaults.
#[derive(Clone, Copy, Debug)]
pub struct BatchNormOptions {
    /// added to the variance
    pub eps: f64,
    /// the weight of a new batch in the running statistics; `None` for the plain average of all batches
    pub momentum: Option<f64>,
    /// whether there are a weight and a bias
    pub affine: bool,
    /// whether running statistics are kept
    pub track_running_stats: bool,
    /// dtype and device of the parameters
    pub tensor: TensorOptions,
}

impl Default for BatchNormOptions {
    fn default() -> Self {
        Self { eps: 1e-5, momentum: Some(0.1), affine: true, track_running_stats: true, tensor: TensorOptions::new() }
    }
}

fn python_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

macro_rules! batch_norms {
    ($($(#[$doc:meta])* $name:ident: $dims:pat, $expected:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Module, Clone)]
        #[module(crate = "tensor_nn", repr)]
        pub struct $name {
            /// (num_features)
            pub weight: Option<Parameter>,
            /// (num_features)
            pub bias: Option<Parameter>,
            /// (num_features)
            pub running_mean: Option<Buffer>,
            /// (num_features)
            pub running_var: Option<Buffer>,
            /// how many batches the running statistics have seen
            pub num_batches_tracked: Option<Buffer>,
            #[module(skip)]
            options: BatchNormOptions,
            num_features: i64,
            training: Training,
        }

        impl $name {
            /// Over `num_features` channels, with default settings.
            ///
            /// # Errors
            /// When the number is negative or too large.
            pub fn new(num_features: i64) -> Result<Self> {
                Self::new_opt(num_features, BatchNormOptions::default())
            }

            /// With every setting.
            ///
            /// # Errors
            /// As `new`.
            pub fn new_opt(num_features: i64, options: BatchNormOptions) -> Result<Self> {
                let vector = || empty(&[num_features], options.tensor);
                let weight = options.affine.then(vector).transpose()?;
                let bias = options.affine.then(vector).transpose()?;
                if let (Some(weight), Some(bias)) = (&weight, &bias) {
                    init::ones_(weight)?;
                    init::zeros_(bias)?;
                }
                let (dtype, device) = (options.tensor.dtype, options.tensor.device);
                let track = options.track_running_stats;
                let running_mean =
                    track.then(|| ops::zeros(&[num_features], dtype, None, device, None)).transpose()?.map(Buffer::new);
                let running_var =
                    track.then(|| ops::ones(&[num_features], dtype, None, device, None)).transpose()?.map(Buffer::new);
                let num_batches_tracked =
                    track.then(|| ops::zeros(&[], Some(DType::I64), None, device, None)).transpose()?.map(Buffer::new);
                let training = Training::default();
                Ok(Self { weight, bias, running_mean, running_var, num_batches_tracked, options, num_features, training })
            }

            fn extra_repr(&self) -> String {
                let BatchNormOptions { eps, momentum, affine, track_running_stats, .. } = self.options;
                let momentum = momentum.map_or("None".to_owned(), |m| m.to_string());
                let eps = format!("{eps:e}").replace("e-5", "e-05");
                format!(
                    "{}, eps={eps}, momentum={momentum}, affine={}, track_running_stats={}",
                    self.num_features,
                    python_bool(affine),
                    python_bool(track_running_stats)
                )
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                check_value!(matches!(input.dim(), $dims), concat!("expected ", $expected, " input (got {}D input)"), input.dim());
                let training = self.training.get();
                let mut momentum = self.options.momentum.unwrap_or(0.0);
                if let (true, Some(count)) = (training, &self.num_batches_tracked) {
                    ops::add_scalar_(count, 1, 1)?;
                    if self.options.momentum.is_none() {
                        momentum = 1.0 / ops::item(count)?.to_f64();
                    }
                }
                // Without running statistics the batch's own are used in evaluation too.
                let batch = training || self.running_mean.is_none();
                ops::batch_norm(
                    input,
                    self.weight.as_deref(),
                    self.bias.as_deref(),
                    self.running_mean.as_deref(),
                    self.running_var.as_deref(),
                    batch,
                    momentum,
                    self.options.eps,
                    true,
                )
            }
        }
    )* };
}

batch_norms! {
    /// Normalises each channel over the batch (`torch.nn.BatchNorm1d`): input (N, C) or (N, C, L).
    BatchNorm1d: 2 | 3, "2D or 3D";
    /// Normalises each channel over the batch (`torch.nn.BatchNorm2d`): input (N, C, H, W).
    BatchNorm2d: 4, "4D";
    /// Normalises each channel over the batch (`torch.nn.BatchNorm3d`): input (N, C, D, H, W).
    BatchNorm3d: 5, "5D";
}
