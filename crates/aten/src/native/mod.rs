//! Native functions: checks, shapes and the call of a kernel, once for the functional, in-place and out forms.
//! A file a family, a function an overload.

pub mod attention;
pub mod batch_norm;
pub mod cdist;
pub mod convolution;
pub mod ctc_loss;
pub mod embedding;
pub mod embedding_bag;
pub mod fft;
pub mod flip;
pub mod fractional;
pub mod frexp;
pub mod grid_sampler;
pub mod histogram;
pub mod indexing;
pub mod joining;
pub mod lanes;
pub mod layer_norm;
pub mod loss;
pub mod margin_loss;
pub mod matmul;
pub mod optim;
pub mod padding;
pub mod pixel;
pub mod pointwise;
pub mod pooling;
pub mod reduce;
pub mod renorm;
pub mod scan;
pub mod searching;
pub mod softmax;
pub mod sorting;
pub mod taps;
pub mod triangular;
pub mod unique;
pub mod upsampling;
