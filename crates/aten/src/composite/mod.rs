//! Bodies that serve every backend: views, factories, copies, and operators made of other operators.
//!
//! Implicit composites call dispatched operators only, so that gradients follow. A file a family, a function an overload.

pub mod attention;
pub mod axes;
pub mod batch_norm;
pub mod cdist;
pub mod complex;
pub mod convolution;
pub mod copy;
pub mod ctc_loss;
pub mod diagonal;
pub mod distance;
pub mod dropout;
pub mod einsum;
pub mod embedding;
pub mod embedding_bag;
pub mod factory;
pub mod fft;
pub mod fill;
pub mod flip;
pub mod foreach;
pub mod grid_sampler;
pub mod indexing;
pub mod joining;
pub mod layer_norm;
pub mod loss;
pub mod margin_loss;
pub mod matmul;
pub mod padding;
pub mod pixel;
pub mod pointwise;
pub mod pooling;
pub mod random;
pub mod range;
pub mod reduce;
pub mod repeating;
pub mod reshaping;
pub mod softmax;
pub mod sorting;
pub mod splitting;
pub mod statistics;
pub mod stft;
pub mod upsampling;
pub mod view;
pub mod view_copy;
pub mod window;
