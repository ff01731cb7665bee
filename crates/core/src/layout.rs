//! [`Layout`] and [`MemoryFormat`].

use std::fmt;

/// How a tensor's elements are arranged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// a storage with strides
    #[default]
    Strided,
    /// coordinates and values
    SparseCoo,
    /// compressed rows
    SparseCsr,
    /// compressed columns
    SparseCsc,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Strided => "torch.strided",
            Self::SparseCoo => "torch.sparse_coo",
            Self::SparseCsr => "torch.sparse_csr",
            Self::SparseCsc => "torch.sparse_csc",
        })
    }
}

/// The order of dimensions in memory that an operator is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryFormat {
    /// row-major
    #[default]
    Contiguous,
    /// the input's own order
    Preserve,
    /// NHWC in memory, NCHW in name
    ChannelsLast,
    /// NDHWC in memory, NCDHW in name
    ChannelsLast3d,
}

impl fmt::Display for MemoryFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Contiguous => "torch.contiguous_format",
            Self::Preserve => "torch.preserve_format",
            Self::ChannelsLast => "torch.channels_last",
            Self::ChannelsLast3d => "torch.channels_last_3d",
        })
    }
}
