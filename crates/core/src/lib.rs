//! The c10 layer of the library: what a tensor *is*, without any operator.
//!
//! Dtypes and their promotion, scalars, devices, layouts, storages and their allocators, strides, [`TensorImpl`],
//! dispatch keys, the random generator, the iterator planner and the error type live here. Operators, the dispatcher
//! and autograd do not: this crate knows nothing of them (`TensorImpl` holds one opaque autograd slot).
//!
//! Unsafe code lives in [`refcount`], [`storage`], [`tensor_impl`] and the driver of [`iter`] alone.
#![deny(unsafe_code)]

pub mod allocator;
pub mod device;
pub mod dispatch_key;
pub mod dtype;
pub mod element;
pub mod error;
pub mod generator;
pub mod iter;
pub mod layout;
pub mod overlap;
pub mod promotion;
pub mod read;
pub mod refcount;
pub mod scalar;
pub mod storage;
pub mod stream;
pub mod strides;
pub mod tensor_impl;
pub mod tls;

pub use device::{Device, DeviceType};
pub use dispatch_key::{DispatchKey, DispatchKeySet};
pub use dtype::DType;
pub use element::{Bool, Element};
pub use error::{Error, ErrorKind, Result};
pub use generator::Generator;
pub use layout::{Layout, MemoryFormat};
pub use num_complex::{Complex, Complex32, Complex64};

/// The elements of [`DType::C32`].
pub type ComplexHalf = Complex<f16>;
/// The elements of [`DType::BC32`].
pub type BComplex32 = Complex<bf16>;

pub use refcount::Ref;
pub use scalar::Scalar;
pub use storage::Storage;
pub use tensor_impl::{TensorImpl, TensorRef};

pub use half::{bf16, f16};
