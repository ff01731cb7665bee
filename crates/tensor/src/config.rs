//! How this library was built and what it runs on (`torch.__config__`).

use std::fmt::Write as _;

use tensor_backends_cpu::{isa, parallel};

/// A text for people: version, target, instruction set, threads, matrix products (`torch.__config__.show()`).
pub fn show() -> String {
    let mut text = String::new();
    let _ = writeln!(text, "tensor {} built with:", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "  - target: {}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let _ = writeln!(text, "  - CPU capability usage: {}", isa::level().name());
    let _ = writeln!(text, "  - threads: {}", parallel::get_num_threads());
    let products = if cfg!(feature = "blas") { "cblas (system BLAS)" } else { "the gemm crate" };
    let _ = writeln!(text, "  - matrix products: {products}");
    let _ = writeln!(text, "  - backends: cpu, meta");
    text
}

/// How many threads an operator may use, the caller included (`torch.get_num_threads`).
pub fn get_num_threads() -> usize {
    parallel::get_num_threads()
}

/// Sets how many threads an operator may use, the caller included (`torch.set_num_threads`).
pub fn set_num_threads(n: usize) {
    parallel::set_num_threads(n);
}

/// Bytes that tensors of the host use and that its allocator keeps (`torch.cuda.memory_stats` for the host).
pub fn memory_stats() -> tensor_core::allocator::MemoryStats {
    tensor_core::allocator::Allocator::stats(&tensor_core::allocator::CPU)
}

/// Gives the memory that the host's allocator keeps back to the system (`torch.cuda.empty_cache` for the host).
pub fn empty_cache() {
    tensor_core::allocator::Allocator::empty_cache(&tensor_core::allocator::CPU);
}
