//! Settings of modules: [`options!`] makes the structs of those that have defaults, [`Single`] and [`Pair`] are settings of one
//! and of two sides.

/// A setting of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single(pub [i64; 1]);

impl From<i64> for Single {
    fn from(one: i64) -> Self {
        Self([one])
    }
}

/// A setting of two dimensions, height and width: one number for both, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair(pub [i64; 2]);

impl From<i64> for Pair {
    fn from(both: i64) -> Self {
        Self([both; 2])
    }
}

impl From<[i64; 2]> for Pair {
    fn from(pair: [i64; 2]) -> Self {
        Self(pair)
    }
}

impl From<(i64, i64)> for Pair {
    fn from((height, width): (i64, i64)) -> Self {
        Self([height, width])
    }
}

impl Pair {
    /// `(3, 3)`, as convolutions print it.
    pub(crate) fn repr(self) -> String {
        crate::python::tuple(&self.0)
    }

    /// `3` if both sides are 3, as it was most likely given.
    pub(crate) fn short(self) -> String {
        let Self([height, width]) = self;
        if height == width { height.to_string() } else { self.repr() }
    }
}

/// A struct of settings with defaults, and a method of each setting's name that sets it. `=> Some(T)` after a default says
/// that the method takes a `T` for an optional setting.
macro_rules! options {
    ($(#[$doc:meta])* $name:ident { $(
        $(#[$about:meta])* $field:ident: $ty:ty = $default:expr $(=> Some($some:ty))?,
    )* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$about])* pub $field: $ty,)*
        }

        impl $name {
            /// Every default.
            pub fn new() -> Self {
                Self { $($field: $default,)* }
            }

            $($crate::options::options!(@setter [$(#[$about])*] $field $ty $(=> $some)?);)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl $crate::Member for $name {
            fn accept<'a>(&'a self, _: &str, _: &mut dyn $crate::Visitor<'a>) {}
        }
    };
    (@setter [$(#[$about:meta])*] $field:ident $ty:ty) => {
        $(#[$about])*
        pub fn $field(self, $field: impl Into<$ty>) -> Self {
            Self { $field: $field.into(), ..self }
        }
    };
    (@setter [$(#[$about:meta])*] $field:ident $ty:ty => $some:ty) => {
        $(#[$about])*
        pub fn $field(self, $field: impl Into<$some>) -> Self {
            Self { $field: Some($field.into()), ..self }
        }
    };
}
pub(crate) use options;
