//! Random tensors: PyTorch's own numbers from the same seed. Elements are drawn in the order that they lie in memory.

use tensor_core::stream::Streamed;
use tensor_core::strides::{self, Dims};
use tensor_core::{
    DType, Device, Generator, Layout, MemoryFormat, Result, Scalar, check, check_not_implemented, generator,
};

use crate::kernels::{Columns, RandomKernel, RandomKernels};
use crate::{Tensor, kernels, ops};

/// The generator of a call: the given one, or the process's own.
pub(super) fn stream<'a>(x: &Tensor, generator: Option<&'a Generator>) -> Result<&'a Generator> {
    let generator = generator.unwrap_or_else(|| generator::default_cpu());
    check!(
        generator.device().kind() == x.device().kind(),
        "Expected a '{}' device type for generator but found '{}'",
        x.device().kind().name(),
        generator.device().kind().name()
    );
    Ok(generator)
}

/// Which kernel of the table a distribution is.
type Pick = fn(&RandomKernels) -> &Columns<RandomKernel>;

/// Fills a tensor by a kernel, which sees its memory as one row.
fn fill(x: &Tensor, generator: Option<&Generator>, name: &str, pick: Pick, numbers: [Scalar; 2]) -> Result<()> {
    fill_by(x, generator, || pick(kernels::random(x.device())?).get(x.dtype(), name), numbers)
}

/// Fills a tensor by a kernel of any family, which sees its memory as one row.
pub(super) fn fill_by(
    x: &Tensor,
    generator: Option<&Generator>,
    kernel: impl Fn() -> Result<RandomKernel>,
    numbers: [Scalar; 2],
) -> Result<()> {
    tensor_core::overlap::assert_no_internal_overlap(x.as_impl())?;
    if !x.is_meta() {
        let kernel = kernel()?;
        let generator = stream(x, generator)?;
        if x.numel() > 0 {
            if x.is_non_overlapping_and_dense() {
                kernel(&row(x)?, generator, numbers)?;
            } else {
                let order = strides::dense_like(x.sizes(), x.strides());
                let dense = Tensor::new_strided(Dims::from_slice(x.sizes()), order, x.dtype(), x.device())?;
                kernel(&row(&dense)?, generator, numbers)?;
                return ops::copy_(x, &dense, false).map(drop);
            }
        }
    }
    x.as_impl().bump_version();
    Ok(())
}

/// The elements of a dense tensor in the order of memory.
pub(super) fn row(x: &Tensor) -> Result<Tensor> {
    x.view_of_storage(&[x.numel()], &[1], x.storage_offset())
}

/// Uniform numbers of [from, to), in place.
pub fn uniform_(self_: &Tensor, from: f64, to: f64, generator: Option<&Generator>) -> Result<()> {
    if self_.is_complex() {
        return uniform_(&super::complex::view_as_real(self_)?, from, to, generator);
    }
    let dtype = self_.dtype();
    check_not_implemented!(
        dtype.is_floating_point(),
        "\"check_uniform_bounds\" not implemented for '{}'",
        dtype.cpp_name()
    );
    let most = tensor_core::scalar::greatest(dtype);
    for (name, bound) in [("from", from), ("to", to)] {
        check!((-most..=most).contains(&bound), "{name} is out of bounds for {}", dtype.c_name());
    }
    let (low, high) = (Streamed(from), Streamed(to));
    check!(from <= to, "uniform_ expects to return a [from, to) range, but found from={low} > to={high}");
    check!(
        to - from <= most,
        "uniform_ expects to-from <= std::numeric_limits<{}>::max(), but found to={high} and from={low} which result in \
         to-from to exceed the limit",
        dtype.cpp_name()
    );
    fill(self_, generator, "check_uniform_bounds", |k| &k.uniform, [from.into(), to.into()])
}

/// Uniform numbers of [from, to) in the image of a tensor.
pub fn uniform(self_: &Tensor, from: f64, to: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, None)?;
    ops::uniform_(&result, from, to, generator)?;
    Ok(result)
}

/// Exponential numbers in the image of a tensor.
pub fn exponential(self_: &Tensor, lambd: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, None)?;
    ops::exponential_(&result, lambd, generator)?;
    Ok(result)
}

/// Whole numbers in the image of a tensor.
pub fn random(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, None)?;
    ops::random_(&result, generator)?;
    Ok(result)
}

/// Normal numbers, in place.
pub fn normal_(self_: &Tensor, mean: f64, std: f64, generator: Option<&Generator>) -> Result<()> {
    check!(std >= 0.0, "normal expects std >= 0.0, but found std {}", Streamed(std));
    if self_.is_complex() {
        // Half of the variance in each part.
        let parts = super::complex::view_as_real(self_)?;
        normal_(&parts, 0.0, std / std::f64::consts::SQRT_2, generator)?;
        if mean != 0.0 {
            ops::add_scalar_(self_, mean, 1)?;
        }
        return Ok(());
    }
    // Only contiguous tensors are drawn in blocks.
    let pick: Pick = if self_.is_contiguous() { |k| &k.normal } else { |k| &k.normal_serial };
    fill(self_, generator, "normal_kernel_cpu", pick, [mean.into(), std.into()])
}

/// Exponential numbers of a rate, in place.
pub fn exponential_(self_: &Tensor, lambd: f64, generator: Option<&Generator>) -> Result<()> {
    check!(lambd > 0.0, "exponential_ expects lambda > 0.0, but found lambda={}", Streamed(lambd));
    fill(self_, generator, "exponential_default", |k| &k.exponential, [lambd.into(), 0.into()])
}

/// 1 with probability p, else 0, in place.
pub fn bernoulli_float_(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<()> {
    check!((0.0..=1.0).contains(&p), "bernoulli_ expects p to be in [0, 1], but got p={}", Streamed(p));
    fill(self_, generator, "bernoulli_scalar_cpu_", |k| &k.bernoulli, [p.into(), 0.into()])
}

/// 1 with the probabilities of a tensor, else 0, in place.
pub fn bernoulli_(self_: &Tensor, p: &Tensor, generator: Option<&Generator>) -> Result<()> {
    if self_.is_meta() || self_.numel() == 0 {
        return Ok(());
    }
    let kernel = kernels::random(self_.device())?.bernoulli_each.get(self_.dtype(), "bernoulli_tensor_cpu_self_")?;
    check_not_implemented!(
        p.dtype().is_floating_point(),
        "\"bernoulli_tensor_cpu_p_\" not implemented for '{}'",
        p.dtype().cpp_name()
    );
    let within = ops::logical_and(&ops::ge_scalar(p, 0)?, &ops::le_scalar(p, 1)?)?;
    check!(
        p.numel() == 0 || ops::item(&ops::all(&within)?)?.to_bool(),
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, please \
         report an enhancement request to PyTorch.)"
    );
    let p = ops::contiguous(&ops::expand(p, self_.sizes(), false)?, MemoryFormat::Contiguous)?;
    let wide = if p.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let p = ops::to_dtype(&p, DType::F64, false, false, None)?;
    let drawn = Tensor::new_dense(self_.sizes(), self_.dtype(), self_.device())?;
    kernel(&row(&drawn)?, &row(&p)?, stream(self_, generator)?, wide == DType::F64)?;
    ops::copy_(self_, &drawn, false)?;
    Ok(())
}

/// 1 with the probabilities of the tensor itself, else 0.
pub fn bernoulli(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    ops::bernoulli_(&result, self_, generator)?;
    Ok(result)
}

/// 1 with probability p, else 0, in the image of a tensor.
pub fn bernoulli_p(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    ops::bernoulli_float_(&result, p, generator)?;
    Ok(result)
}

/// Whole numbers of [from, to), in place; up to the dtype's largest where `to` is absent.
pub fn random_from_(self_: &Tensor, from: i64, to: Option<i64>, generator: Option<&Generator>) -> Result<()> {
    check!(!self_.is_complex(), "check_random_bounds handles only integral, floating-point and boolean types");
    let most = largest(self_.dtype());
    let to = to.map_or(most as i128 + 1, i128::from);
    check!((from as i128) < to, "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}");
    let (low, high) =
        if self_.dtype().is_floating_point() { (-(most as i128), most as i128) } else { bounds(self_.dtype()) };
    check!((from as i128) >= low && (from as i128) <= high, "from is out of bounds for {}", short_name(self_.dtype()));
    check!(to > low && to - 1 <= high, "to - 1 is out of bounds for {}", short_name(self_.dtype()));
    // The range as an unsigned number: 2^64 is 0.
    let range = (to - from as i128) as u64 as i64;
    fill(self_, generator, "random_from_to_cpu", |k| &k.random_from_to, [range.into(), from.into()])
}

/// Whole numbers of [0, to), in place.
pub fn random_to_(self_: &Tensor, to: i64, generator: Option<&Generator>) -> Result<()> {
    random_from_(self_, 0, Some(to), generator)
}

/// Whole numbers that the dtype counts one by one, in place.
pub fn random_(self_: &Tensor, generator: Option<&Generator>) -> Result<()> {
    fill(self_, generator, "random_cpu", |k| &k.random, [Scalar::Int(0); 2])
}

/// The largest number up to which a dtype counts one by one.
fn largest(dtype: DType) -> i64 {
    match dtype {
        DType::F16 => 1 << 11,
        DType::BF16 => 1 << 8,
        DType::F32 => 1 << 24,
        DType::F64 => 1 << 53,
        other => bounds(other).1 as i64,
    }
}

fn bounds(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.itemsize() as u32;
    match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, u8::MAX as i128),
        _ => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
    }
}

/// The dtype as the bounds' errors name it.
fn short_name(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I64 => "long int",
        other => other.c_name(),
    }
}

macro_rules! factories {
    ($($(#[$doc:meta])* $name:ident, $with:ident($($arg:ident: $ty:ty),*) [$dtype:expr] => |$result:ident, $generator:ident| $fill:expr;)*) => { $(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        pub fn $name(
            $($arg: $ty,)*
            size: &[i64],
            dtype: Option<DType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            $with($($arg,)* size, None, dtype, layout, device, pin_memory)
        }

        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        pub fn $with(
            $($arg: $ty,)*
            size: &[i64],
            $generator: Option<&Generator>,
            dtype: Option<DType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            let $result = ops::empty_memory_format(size, dtype.or($dtype), layout, device, pin_memory, None)?;
            $fill?;
            Ok($result)
        }
    )* };
}

factories! {
    /// Uniform numbers of [0, 1).
    rand, rand_generator() [None] => |result, generator| ops::uniform_(&result, 0.0, 1.0, generator);
    /// Normal numbers of mean 0 and deviation 1.
    randn, randn_generator() [None] => |result, generator| ops::normal_(&result, 0.0, 1.0, generator);
    /// Whole numbers of [0, high).
    randint, randint_generator(high: i64) [Some(DType::I64)] => |result, generator| ops::random_from_(&result, 0, Some(high), generator);
    /// Whole numbers of [low, high).
    randint_low, randint_low_generator(low: i64, high: i64) [Some(DType::I64)] => |result, generator| ops::random_from_(&result, low, Some(high), generator);
}

/// The numbers 0 .. n in random order.
pub fn randperm(
    n: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randperm_generator(n, None, dtype, layout, device, pin_memory)
}

/// `randperm` by a given generator.
pub fn randperm_generator(
    n: i64,
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or(DType::I64);
    check_not_implemented!(
        dtype.is_integral(false) || dtype.is_floating_point(),
        "\"randperm\" not implemented for '{}'",
        dtype.cpp_name()
    );
    if dtype.is_floating_point() {
        check!(n <= largest(dtype) + 1, "n cannot be greater than {}", largest(dtype) + 1);
    } else {
        check!(
            n as i128 - 1 <= bounds(dtype).1,
            "n is too large for result tensor type: 'CPU{}Type'",
            dtype.cpp_name()
        );
    }
    let result = ops::empty_memory_format(&[n], Some(dtype), layout, device, pin_memory, None)?;
    fill(&result, generator, "randperm", |k| &k.permutation, [Scalar::Int(0); 2])?;
    Ok(result)
}

/// Uniform numbers of [0, 1) in the image of a tensor.
pub fn rand_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let result = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    ops::uniform_(&result, 0.0, 1.0, None)?;
    Ok(result)
}

/// Whole numbers of [0, high) in the image of a tensor.
pub fn randint_like(
    self_: &Tensor,
    high: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    randint_like_low_dtype(self_, 0, high, dtype, layout, device, pin_memory, memory_format)
}

/// Whole numbers of [low, high) in the image of a tensor.
#[allow(clippy::too_many_arguments)]
pub fn randint_like_low_dtype(
    self_: &Tensor,
    low: i64,
    high: i64,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let result = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    ops::random_from_(&result, low, Some(high), None)?;
    Ok(result)
}

/// Normal numbers in the image of a tensor, of a mean and deviation.
pub fn normal_functional(self_: &Tensor, mean: f64, std: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let result = ops::empty_like(self_, None, None, None, None, None)?;
    ops::normal_(&result, mean, std, generator)?;
    Ok(result)
}

/// Normal numbers in the image of a tensor.
pub fn randn_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let result = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    ops::normal_(&result, 0.0, 1.0, None)?;
    Ok(result)
}

fn check_std(std: &Tensor) -> Result<()> {
    check!(!std.is_complex(), "normal expects standard deviation to be non-complex");
    if std.numel() > 0 && !std.is_meta() {
        let least = ops::item(&ops::min(std)?)?;
        check!(least.to_f64() >= 0.0 || least.to_f64().is_nan(), "normal expects all elements of std >= 0.0");
    }
    Ok(())
}

/// Normal numbers about the elements of a tensor.
pub fn normal_tensor_float(mean: &Tensor, std: f64, generator: Option<&Generator>) -> Result<Tensor> {
    check!(std >= 0.0, "normal expects std >= 0.0, but found std {}", Streamed(std));
    let result = ops::empty_like(mean, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    ops::normal_(&result, 0.0, std, generator)?;
    ops::add_(&result, mean, 1)?;
    Ok(result)
}

/// Normal numbers with the deviations of a tensor.
pub fn normal_float_tensor(mean: f64, std: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    check_std(std)?;
    let result = ops::empty_like(std, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    ops::normal_(&result, 0.0, 1.0, generator)?;
    ops::mul_(&result, std)?;
    ops::add_scalar_(&result, mean, 1)?;
    Ok(result)
}

/// Normal numbers about the elements of one tensor with the deviations of another.
pub fn normal_tensor_tensor(mean: &Tensor, std: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    check_std(std)?;
    let shape = strides::broadcast(mean.sizes(), std.sizes())?;
    let result = ops::empty_memory_format(&shape, Some(mean.dtype()), None, Some(mean.device()), None, None)?;
    ops::normal_(&result, 0.0, 1.0, generator)?;
    ops::mul_(&result, std)?;
    ops::add_(&result, mean, 1)?;
    Ok(result)
}

/// Normal numbers of a mean and deviation.
#[allow(clippy::too_many_arguments)]
pub fn normal_float_float(
    mean: f64,
    std: f64,
    size: &[i64],
    generator: Option<&Generator>,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    check!(std >= 0.0, "normal expects std >= 0.0, but found std {}", Streamed(std));
    let result = ops::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
    ops::normal_(&result, mean, std, generator)?;
    Ok(result)
}
