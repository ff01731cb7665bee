//! Channels that become pixels and back, and shuffled channels.

use tensor_core::{MemoryFormat, Result, bail, check};

use crate::native::convolution::list;
use crate::{Tensor, ops};

/// `x` with its last dimensions split and reordered, under `sizes`, in the memory format of `like`.
fn rearranged(x: &Tensor, split: &[i64], order: &[i64], sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    let permuted = ops::permute(&ops::reshape(x, split)?, order)?;
    let dense = ops::view(&ops::clone(&permuted, Some(MemoryFormat::Contiguous))?, sizes)?;
    ops::contiguous(&dense, like.suggest_memory_format())
}

/// (.., c r r, h, w) -> (.., c, h r, w r)
pub fn pixel_shuffle(self_: &Tensor, upscale_factor: i64) -> Result<Tensor> {
    let (n, r) = (self_.dim(), upscale_factor);
    check!(n >= 3, "pixel_shuffle expects input to have at least 3 dimensions, but got input with {n} dimension(s)");
    check!(r > 0, "pixel_shuffle expects a positive upscale_factor, but got {r}");
    let (lead, image) = self_.sizes().split_at(n - 3);
    let Some(square) = r.checked_mul(r) else { bail!(Runtime, "upscale factor is too large, ({r})^2 overflowed") };
    check!(
        image[0] % square == 0,
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but \
         input.size(-3)={} is not divisible by {square}",
        image[0]
    );
    let (c, h, w) = (image[0] / square, image[1], image[2]);
    let split = [lead, &[c, r, r, h, w]].concat();
    let m = lead.len() as i64;
    let order: Vec<i64> = (0..m).chain([m, m + 3, m + 1, m + 4, m + 2]).collect();
    rearranged(self_, &split, &order, &[lead, &[c, h.saturating_mul(r), w.saturating_mul(r)]].concat(), self_)
}

/// (.., c, h r, w r) -> (.., c r r, h, w)
pub fn pixel_unshuffle(self_: &Tensor, downscale_factor: i64) -> Result<Tensor> {
    let (n, r) = (self_.dim(), downscale_factor);
    check!(n >= 3, "pixel_unshuffle expects input to have at least 3 dimensions, but got input with {n} dimension(s)");
    check!(r > 0, "pixel_unshuffle expects a positive downscale_factor, but got {r}");
    let (lead, image) = self_.sizes().split_at(n - 3);
    for (what, d) in [("height", 1), ("width", 2)] {
        check!(
            image[d] % r == 0,
            "pixel_unshuffle expects {what} to be divisible by downscale_factor, but input.size({})={} is not divisible by \
             {r}",
            d as i64 - 3,
            image[d]
        );
    }
    let (c, h, w) = (image[0], image[1] / r, image[2] / r);
    let split = [lead, &[c, h, r, w, r]].concat();
    let m = lead.len() as i64;
    let order: Vec<i64> = (0..m).chain([m, m + 2, m + 4, m + 1, m + 3]).collect();
    let channels = c.checked_mul(r).and_then(|c| c.checked_mul(r)).unwrap_or(0);
    rearranged(self_, &split, &order, &[lead, &[channels, h, w]].concat(), self_)
}

/// Channels (n, g k, ..) seen as (n, g, k, ..) and turned to (n, k, g, ..).
pub fn channel_shuffle(self_: &Tensor, groups: i64) -> Result<Tensor> {
    let n = self_.dim();
    check!(n > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes {}", list(self_.sizes()));
    check!(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:{groups}");
    let channels = self_.sizes()[1];
    check!(
        channels % groups == 0,
        "Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
    );
    let sizes = self_.sizes();
    let split = [&sizes[..1], &[groups, channels / groups], &sizes[2..]].concat();
    let order: Vec<i64> = [0, 2, 1].into_iter().chain(3..n as i64 + 1).collect();
    rearranged(self_, &split, &order, sizes, self_)
}

/// [`channel_shuffle`], differentiable through what it is made of.
pub fn native_channel_shuffle(self_: &Tensor, groups: i64) -> Result<Tensor> {
    ops::channel_shuffle(self_, groups)
}
