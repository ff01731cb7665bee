//! Times of kernels at each level: `cargo bench -p tensor-backends-cpu [-- FILTER]`. Operators against peers are timed by
//! `cargo xtask bench`; this shows a kernel alone, and whether its level pays.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tensor_backends_cpu::gemm::{dot, gemm};
use tensor_backends_cpu::isa::{Baseline, Level, V3, V4, level};
use tensor_backends_cpu::loops::{MatMut, MatRef};
use tensor_backends_cpu::pointwise::*;
use tensor_core::iter::{IterConfig, TensorIter};
use tensor_core::strides::{self, Dims};
use tensor_core::{DType, Device, Result, Scalar, Storage, TensorImpl, TensorRef, bf16, f16};

type Kernel = fn(&TensorIter) -> Result<()>;

/// Elements of a timed tensor: they fit the second cache.
const N: i64 = 1 << 15;

/// The least time of a call, in nanoseconds.
fn time(mut f: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    let mut calls = 1u32;
    for _ in 0..8 {
        let start = Instant::now();
        (0..calls).for_each(|_| f());
        let taken = start.elapsed();
        least = least.min(taken.as_secs_f64() / calls as f64);
        if taken < Duration::from_millis(2) {
            calls = ((0.003 / least) as u32).clamp(1, 10_000_000);
        }
    }
    least * 1e9
}

fn tensor(dtype: DType) -> Result<TensorRef> {
    let sizes = Dims::from_slice(&[N]);
    let strides = strides::contiguous(&sizes);
    if dtype == DType::F32 {
        let values: Vec<f32> = (0..N).map(|i| (i % 97) as f32 * 0.02 + 0.1).collect();
        return TensorImpl::new(Storage::from_vec(values), dtype, &sizes, &strides, 0);
    }
    TensorImpl::empty(sizes, strides, dtype, Device::CPU)
}

fn row(name: &str, dtype: DType, inputs: usize, kernels: [Kernel; 3]) -> Result<()> {
    if std::env::args().skip(1).any(|filter| !filter.starts_with('-') && !name.contains(&filter)) {
        return Ok(());
    }
    let (a, b, out) = (tensor(dtype)?, tensor(dtype)?, tensor(dtype)?);
    let mut iter = match inputs {
        1 => IterConfig::unary_op(Some(&out), &a).build()?,
        _ => IterConfig::binary_op(Some(&out), &a, &b).build()?,
    };
    iter.set_params(&[Scalar::Float(2.0)]);
    print!("{name:14} {:9}", dtype.name());
    for (kernel, level) in kernels.into_iter().zip(Level::ALL).filter(|&(_, l)| l <= level()) {
        let taken = time(|| {
            let _ = black_box(kernel(&iter));
        });
        print!("  {} {:7.3} ns/element", level.name(), taken / N as f64);
    }
    println!();
    Ok(())
}

macro_rules! rows {
    ($inputs:literal: $($name:ident $t:ty;)*) => { $(
        row(
            stringify!($name),
            <$t as tensor_core::Element>::DTYPE,
            $inputs,
            [$name::<Baseline, $t>, $name::<V3, $t>, $name::<V4, $t>],
        )?;
    )* };
}

fn products(m: usize, n: usize, k: usize) -> Result<()> {
    let (a, b, mut c) = (vec![1f32; m * k], vec![1f32; k * n], vec![0f32; m * n]);
    let (a, b) = (MatRef::row_major(&a, m, k)?, MatRef::row_major(&b, k, n)?);
    let taken = time(|| {
        let c = MatMut::row_major(&mut c, m, n);
        let _ = black_box(c.and_then(|c| tensor_backends_cpu::with_level!(I => gemm::<I, f32>(1.0, a, b, 0.0, c))));
    });
    println!(
        "gemm           {m:5} {n:5} {k:5}  {:9.2} us {:7.1} GFLOP/s",
        taken / 1e3,
        2.0 * (m * n * k) as f64 / taken
    );
    Ok(())
}

fn main() -> Result<()> {
    tensor_backends_cpu::parallel::set_num_threads(1);
    rows! { 2: add f32; add f64; add bf16; add f16; add i32; add i64; add u8; mul f32; div f32; maximum f32; pow f32; pow f64; }
    rows! { 2: div_floor f32; remainder f64; gelu_backward f32; atan2 f32; }
    rows! { 1: relu f32; sqrt f32; exp f32; exp f64; exp bf16; log f32; log f64; sin f32; sin f64; tanh f32; tanh f64; }
    rows! { 1: sigmoid f32; erf f32; erf f64; gelu f32; silu f32; expm1 f32; log1p f32; tan f32; atan f32; round f32; }
    for n in [4, 16, 32, 64, 128, 256, 512] {
        products(n, n, n)?;
    }
    products(1, 1024, 1024)?;
    products(1024, 1, 1024)?;
    let x = vec![1f32; 1 << 15];
    let taken = time(|| {
        black_box(tensor_backends_cpu::with_level!(I => dot::<I, f32>(&x, &x)));
    });
    println!("dot            32768  {taken:9.1} ns");
    Ok(())
}
