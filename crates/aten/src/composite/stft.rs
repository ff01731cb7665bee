//! Short-time Fourier transforms: transforms of windows that slide over a signal, and the signal from them.

use std::fmt::Write as _;

use tensor_core::{Result, check, check_index, check_not_implemented, check_type};

use crate::{Tensor, ops};

/// The numbers of a call, with their defaults filled in.
struct Frames {
    n_fft: i64,
    hop: i64,
    win: i64,
}

impl Frames {
    fn new(n_fft: i64, hop_length: Option<i64>, win_length: Option<i64>) -> Self {
        Self { n_fft, hop: hop_length.unwrap_or(n_fft >> 2), win: win_length.unwrap_or(n_fft) }
    }

    /// The elements before and after a window in the middle of `n_fft` ones.
    fn margins(&self) -> (i64, i64) {
        let left = (self.n_fft - self.win) / 2;
        (left, self.n_fft - self.win - left)
    }

    /// A window of `n_fft` elements: ones, or `window`, with zeros on both sides; none where it would change nothing.
    fn window(&self, window: Option<&Tensor>, like: &Tensor) -> Result<Option<Tensor>> {
        if self.win == self.n_fft {
            return Ok(window.cloned());
        }
        let window = match window {
            Some(window) => window.clone(),
            None => ops::ones(&[self.win], Some(like.dtype()), None, Some(like.device()), None)?,
        };
        let (left, right) = self.margins();
        ops::constant_pad_nd(&window, &[left, right], 0).map(Some)
    }
}

/// How upstream's errors write an absent or a present value.
fn shown<T: Into<i64>>(value: Option<T>) -> String {
    value.map_or_else(|| "None".to_string(), |value| value.into().to_string())
}

/// How upstream's errors name the type of a tensor.
fn type_name(x: &Tensor) -> String {
    let name = x.dtype().cpp_name();
    if x.is_complex() { format!("CPU{name}Type") } else { format!("torch.{name}Tensor") }
}

/// What upstream's errors start with: the call up to its window.
fn call(name: &str, x: &Tensor, frames: &Frames, window: Option<&Tensor>) -> String {
    let Frames { n_fft, hop, win } = frames;
    let mut text = format!(
        "{name}({}{}, n_fft={n_fft}, hop_length={hop}, win_length={win}, window=",
        type_name(x),
        tensor_core::strides::show(x.sizes())
    );
    let _ = match window {
        Some(window) => write!(text, "{}{{{}}}", type_name(window), tensor_core::strides::show(window.sizes())),
        None => write!(text, "None"),
    };
    text
}

/// `stft.center` of a signal that was padded, or need not be.
#[allow(clippy::too_many_arguments)]
pub fn stft(
    self_: &Tensor,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    align_to_window: Option<bool>,
) -> Result<Tensor> {
    let frames = Frames::new(n_fft, hop_length, win_length);
    let Frames { hop, win, .. } = frames;
    let any_complex = self_.is_complex() || window.is_some_and(Tensor::is_complex);
    check!(
        return_complex.is_some() || any_complex,
        "stft requires the return_complex parameter be given for real inputs, and will further require that \
         return_complex=True in a future PyTorch release."
    );
    let at = || {
        format!(
            "{}, normalized={}, onesided={}, return_complex={}, align_to_window={}) :",
            call("stft", self_, &frames, window),
            i64::from(normalized),
            shown(onesided),
            shown(return_complex),
            shown(align_to_window)
        )
    };
    check_not_implemented!(
        self_.is_floating_point() || self_.is_complex(),
        "{} expected a tensor of floating point or complex values",
        at()
    );
    check!(matches!(self_.dim(), 1 | 2), "{} expected a 1D or 2D tensor", at());
    let is_row = self_.dim() == 1;
    let mut x = if is_row { ops::unsqueeze(self_, 0)? } else { self_.clone() };
    let length = x.size(1)?;
    check!(n_fft > 0 && n_fft <= length, "{} expected 0 < n_fft < {length}, but got n_fft={win}", at());
    check!(hop > 0, "{} expected hop_length > 0, but got hop_length={hop}", at());
    check!(win > 0 && win <= n_fft, "{} expected 0 < win_length <= n_fft, but got win_length={win}", at());
    if let Some(window) = window {
        check!(
            window.sizes() == [win],
            "{} expected a 1D window tensor of size equal to win_length={win}, but got window with size {}",
            at(),
            tensor_core::strides::show(window.sizes())
        );
    }
    let onesided = onesided.unwrap_or(!any_complex);
    check!(!(onesided && any_complex), "Cannot have onesided output if window or input is complex");
    if align_to_window == Some(true) && win < n_fft {
        let (left, _) = frames.margins();
        x = ops::constant_pad_nd(&x, &[left, left], 0)?;
    }
    let mut slices = ops::unfold(&x, 1, n_fft, hop)?;
    if let Some(window) = frames.window(window, self_)? {
        slices = ops::mul(&slices, &window)?;
    }
    let norm = i64::from(normalized);
    let spectra = if any_complex {
        ops::_fft_c2c(&slices, &[2], norm, true)?
    } else {
        ops::_fft_r2c(&slices, &[2], norm, onesided)?
    };
    ops::transpose_(&spectra, 1, 2)?;
    if is_row {
        ops::squeeze_dim_(&spectra, 0)?;
    }
    if return_complex.unwrap_or(true) { Ok(spectra) } else { ops::view_as_real(&spectra) }
}

/// The transforms (.., frequencies, frames) of windows of `n_fft` elements every `hop_length` ones of a signal or a batch.
#[allow(clippy::too_many_arguments)]
pub fn stft_center(
    self_: &Tensor,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    pad_mode: &str,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    align_to_window: Option<bool>,
) -> Result<Tensor> {
    let mut x = self_.clone();
    if center {
        check!(align_to_window != Some(true), "stft align_to_window should only be set when center = false.");
        if matches!(x.dim(), 1 | 2) {
            let mut sizes = vec![1; 3 - x.dim()];
            sizes.extend(x.sizes());
            let padded = ops::pad(&ops::view(&x, &sizes)?, &[n_fft / 2, n_fft / 2], pad_mode, None)?;
            let length = padded.size(2)?;
            x = match x.dim() {
                1 => ops::view(&padded, &[length])?,
                _ => ops::view(&padded, &[sizes[1], length])?,
            };
        }
    }
    ops::stft(&x, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window)
}

/// The inverse of `stft`: the windows' inverse transforms added up, over the sum of their squared weights.
#[allow(clippy::too_many_arguments)]
pub fn istft(
    self_: &Tensor,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    normalized: bool,
    onesided: Option<bool>,
    length: Option<i64>,
    return_complex: bool,
) -> Result<Tensor> {
    let frames = Frames::new(n_fft, hop_length, win_length);
    let Frames { hop, win, .. } = frames;
    let at = || {
        format!(
            "{}, center={}, normalized={}, onesided={}, length={}, return_complex={})",
            call("istft", self_, &frames, window),
            i64::from(center),
            i64::from(normalized),
            shown(onesided),
            shown(length),
            i64::from(return_complex)
        )
    };
    check_type!(
        self_.is_complex(),
        "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
    );
    let ndim = self_.dim();
    check_index!(
        ndim >= 2,
        "Dimension out of range (expected to be in range of [{}, {ndim}], but got {})",
        -(ndim as i64) - 1,
        -(ndim as i64) - 2
    );
    check!(self_.numel() > 0, "{} : input tensor cannot be empty.", at());
    check!(ndim <= 3, "{} : expected a tensor with 3 or 4 dimensions, but got {}", at(), ndim + 1);
    let given = self_.size(-2)?;
    let onesided_input = onesided.unwrap_or(given != n_fft);
    let expected = if onesided_input { n_fft / 2 + 1 } else { n_fft };
    check!(
        given == expected,
        "{} : expected the frequency dimension (3rd to the last) of the input tensor to match {}, but got {given}",
        at(),
        if onesided_input { "n_fft / 2 + 1 when onesided=True" } else { "n_fft when onesided=False" }
    );
    check!(0 < hop && hop <= win, "{} : expected 0 < hop_length <= win_length", at());
    check!(0 < win && win <= n_fft, "{} : expected 0 < win_length <= n_fft", at());
    check!(
        window.is_none_or(|window| window.sizes() == [win]),
        "{} : Invalid window shape. window has to be 1D and length of `win_length`",
        at()
    );
    if return_complex {
        check!(!onesided_input, "Cannot have onesided output if window or input is complex");
    } else {
        check!(!window.is_some_and(Tensor::is_complex), "Complex windows are incompatible with return_complex=False");
    }
    let is_one = ndim == 2;
    let x = if is_one { ops::unsqueeze(self_, 0)? } else { self_.clone() };
    let spectra = ops::transpose_int(&x, 1, 2)?;
    let norm = if normalized { 1 } else { 2 };
    let slices = if return_complex {
        ops::_fft_c2c(&spectra, &[2], norm, false)?
    } else {
        let half = if onesided_input { spectra } else { ops::slice(&spectra, 2, None, Some(n_fft / 2 + 1), 1)? };
        ops::_fft_c2r(&half, &[2], norm, n_fft)?
    };
    let window = match frames.window(window, &slices)? {
        Some(window) => window,
        None => ops::ones(&[n_fft], Some(slices.dtype()), None, Some(slices.device()), None)?,
    };
    let count = slices.size(1)?;
    let full = n_fft + hop * (count - 1);
    let sum_of = |slices: &Tensor, batch: i64| ops::unfold_backward(slices, &[batch, full], 1, n_fft, hop);
    let signal = sum_of(&ops::mul(&slices, &window)?, slices.size(0)?)?;
    let squares = ops::expand(&ops::mul(&window, &window)?, &[1, count, n_fft], false)?;
    let weights = sum_of(&squares, 1)?;

    let start = if center { n_fft / 2 } else { 0 };
    let end = match length {
        Some(length) => start.saturating_add(length),
        None if center => full - n_fft / 2,
        None => full,
    };
    let (signal, weights) =
        (ops::slice(&signal, 1, Some(start), Some(end), 1)?, ops::slice(&weights, 1, Some(start), Some(end), 1)?);
    if !weights.is_meta() {
        let least = ops::item(&ops::min(&ops::abs(&weights)?)?)?.to_f64();
        check!(least > 1e-11, "{} window overlap add min: 1\n[ CPUBoolType{{}} ]", at());
    }
    let mut signal = ops::div(&signal, &weights)?;
    if is_one {
        signal = ops::squeeze_dim(&signal, 0)?;
    }
    let missing = length.map_or(Ok(0), |length| signal.size(-1).map(|size| length.saturating_sub(size)))?;
    if missing > 0 { ops::constant_pad_nd(&signal, &[0, missing], 0) } else { Ok(signal) }
}
