//! [`Device`]: where a tensor's memory lies.

use std::fmt;
use std::str::FromStr;

use crate::{DispatchKey, Error, Result, bail};

/// A kind of device. Each is a backend of the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum DeviceType {
    /// the host
    Cpu = 0,
    /// NVIDIA GPUs
    Cuda = 1,
    /// AMD GPUs
    Hip = 2,
    /// no memory: shapes and dtypes alone
    Meta = 3,
    /// a backend from outside the library
    PrivateUse1 = 4,
}

impl DeviceType {
    /// Every kind, in the order of their numbers.
    pub const ALL: [DeviceType; 5] = [Self::Cpu, Self::Cuda, Self::Hip, Self::Meta, Self::PrivateUse1];

    /// The name in a device string: `"cpu"`.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Hip => "hip",
            Self::Meta => "meta",
            Self::PrivateUse1 => "privateuseone",
        }
    }

    /// The dispatch key of dense tensors on this kind of device.
    #[inline]
    pub const fn dense_key(self) -> DispatchKey {
        match self {
            Self::Cpu => DispatchKey::Cpu,
            Self::Cuda => DispatchKey::Cuda,
            Self::Hip => DispatchKey::Hip,
            Self::Meta => DispatchKey::Meta,
            Self::PrivateUse1 => DispatchKey::PrivateUse1,
        }
    }
}

/// A device: its kind and its number (0 where there is only one).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    kind: DeviceType,
    index: u8,
}

impl Device {
    /// The host.
    pub const CPU: Device = Device { kind: DeviceType::Cpu, index: 0 };
    /// The device without memory.
    pub const META: Device = Device { kind: DeviceType::Meta, index: 0 };

    /// A device by kind and number.
    #[inline]
    pub const fn new(kind: DeviceType, index: u8) -> Self {
        Self { kind, index }
    }

    /// The NVIDIA GPU of that number.
    #[inline]
    pub const fn cuda(index: u8) -> Self {
        Self::new(DeviceType::Cuda, index)
    }

    /// The AMD GPU of that number.
    #[inline]
    pub const fn hip(index: u8) -> Self {
        Self::new(DeviceType::Hip, index)
    }

    /// The kind of the device.
    #[inline]
    pub const fn kind(self) -> DeviceType {
        self.kind
    }

    /// The number of the device among those of its kind.
    #[inline]
    pub const fn index(self) -> u8 {
        self.index
    }

    /// True on the host.
    #[inline]
    pub const fn is_cpu(self) -> bool {
        matches!(self.kind, DeviceType::Cpu)
    }

    /// True on the device without memory.
    #[inline]
    pub const fn is_meta(self) -> bool {
        matches!(self.kind, DeviceType::Meta)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DeviceType::Cpu | DeviceType::Meta => f.write_str(self.kind.name()),
            _ => write!(f, "{}:{}", self.kind.name(), self.index),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Device {
    type Err = Error;

    /// Reads `"cpu"`, `"cuda"`, `"cuda:1"`, `"hip:0"`, `"meta"`.
    fn from_str(text: &str) -> Result<Self> {
        let (name, index) = text.split_once(':').map_or((text, None), |(n, i)| (n, Some(i)));
        let Some(kind) = DeviceType::ALL.into_iter().find(|k| k.name() == name) else {
            bail!(
                Runtime,
                "Expected one of cpu, cuda, hip, meta, privateuseone device type at start of device string: {name}"
            );
        };
        match index.map(str::parse) {
            None => Ok(Self::new(kind, 0)),
            Some(Ok(index)) => Ok(Self::new(kind, index)),
            Some(Err(_)) => bail!(Runtime, "Invalid device string: '{text}'"),
        }
    }
}
