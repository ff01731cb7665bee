//! What is done to modules from outside (`torch.nn.utils`): clipping of gradients.

pub mod clip_grad;

pub use clip_grad::{clip_grad_norm_, clip_grad_norm_opt_, clip_grad_value_, get_total_norm};
