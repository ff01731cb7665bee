//! [`BatchNorm1d`], [`BatchNorm2d`], [`BatchNorm3d`].

use tensor_aten::{Tensor, TensorOptions, ops};
use tensor_core::strides::show;
use tensor_core::{DType, Result, check_value};

use crate::options::options;
use crate::parameter::empty;
use crate::{Buffer, Forward, Module, Parameter, Training, init, python};

options! {
    /// The settings of a batch normalisation that have defaults.
    BatchNormOptions {
        /// added to the variance
        eps: f64 = 1e-5,
        /// the weight of a new batch in the running statistics; `None` for the plain average of all batches
        momentum: Option<f64> = Some(0.1),
        /// whether there are a weight and a bias
        affine: bool = true,
        /// whether there is a bias beside the weight
        bias: bool = true,
        /// whether running statistics are kept
        track_running_stats: bool = true,
        /// dtype and device of the parameters
        tensor: TensorOptions = TensorOptions::new(),
    }
}

macro_rules! batch_norms {
    ($($(#[$doc:meta])* $name:ident: $dims:pat, $expected:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// While training each channel is normalised by the batch's own mean and variance, which also move the running
        /// statistics; in evaluation by the running statistics.
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
                Self::new_opt(num_features, BatchNormOptions::new())
            }

            /// With every setting.
            ///
            /// # Errors
            /// As `new`.
            pub fn new_opt(num_features: i64, options: BatchNormOptions) -> Result<Self> {
                let size = [num_features];
                let weight = options.affine.then(|| empty(&size, options.tensor)).transpose()?;
                let bias = (options.affine && options.bias).then(|| empty(&size, options.tensor)).transpose()?;
                if let Some(weight) = &weight {
                    init::ones_(weight)?;
                }
                if let Some(bias) = &bias {
                    init::zeros_(bias)?;
                }
                let (mut running_mean, mut running_var, mut num_batches_tracked) = (None, None, None);
                if options.track_running_stats {
                    running_mean = Some(Buffer::new(Tensor::zeros(&size, options.tensor)?));
                    running_var = Some(Buffer::new(Tensor::ones(&size, options.tensor)?));
                    num_batches_tracked = Some(Buffer::new(Tensor::zeros(&[], options.tensor.dtype(DType::I64))?));
                }
                let training = Training::default();
                Ok(Self { weight, bias, running_mean, running_var, num_batches_tracked, options, num_features, training })
            }

            fn extra_repr(&self) -> String {
                let BatchNormOptions { eps, momentum, track_running_stats, .. } = self.options;
                format!(
                    "{}, eps={}, momentum={}, affine={}, bias={}, track_running_stats={}",
                    self.num_features,
                    python::float(eps),
                    momentum.map_or("None".to_owned(), python::float),
                    python::bool(self.weight.is_some()),
                    python::bool(self.bias.is_some()),
                    python::bool(track_running_stats)
                )
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                check_value!(matches!(input.dim(), $dims), concat!("expected ", $expected, " input (got {}D input)"), input.dim());
                let training = self.training.get();
                let mut momentum = self.options.momentum.unwrap_or(0.0);
                // Without running statistics the batch's own are used in evaluation too.
                let own = training || self.running_mean.is_none();
                if own {
                    check_value!(
                        input.numel() != input.sizes()[1],
                        "Expected more than 1 value per channel when training, got input size torch.Size({})",
                        show(input.sizes())
                    );
                }
                if let (true, Some(count)) = (training, &self.num_batches_tracked) {
                    ops::add_scalar_(count, 1, 1)?;
                    if self.options.momentum.is_none() {
                        momentum = 1.0 / ops::item(count)?.to_f64();
                    }
                }
                let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
                let (mean, var) = (self.running_mean.as_deref(), self.running_var.as_deref());
                ops::batch_norm(input, weight, bias, mean, var, own, momentum, self.options.eps, true)
            }
        }
    )* };
}

batch_norms! {
    /// Batch normalisation (`torch.nn.BatchNorm1d`): input (N, C) or (N, C, L).
    BatchNorm1d: 2 | 3, "2D or 3D";
    /// Batch normalisation (`torch.nn.BatchNorm2d`): input (N, C, H, W).
    BatchNorm2d: 4, "4D";
    /// Batch normalisation (`torch.nn.BatchNorm3d`): input (N, C, D, H, W).
    BatchNorm3d: 5, "5D";
}
