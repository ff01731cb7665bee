//! Parameter groups, the state of each parameter, and the [`Optimizer`] that a [`Rule`] makes of them.

use std::fmt;

use tensor_aten::{Tensor, ops};
use tensor_autograd::no_grad;
use tensor_core::strides::show;
use tensor_core::{Result, bail, check_value};

/// Parameters that share settings.
#[derive(Clone, Debug)]
pub struct Group<O> {
    /// the parameters
    pub params: Vec<Tensor>,
    /// their settings
    pub options: O,
}

impl<O> Group<O> {
    /// Parameters with their settings.
    pub fn new<P: AsRef<Tensor>>(params: impl IntoIterator<Item = P>, options: O) -> Self {
        Self { params: params.into_iter().map(|param| param.as_ref().clone()).collect(), options }
    }
}

/// A setting of a group, as a state dict keeps it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setting {
    /// a number
    Float(f64),
    /// two numbers
    Pair(f64, f64),
    /// a switch
    Bool(bool),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Pair(a, b) => write!(f, "({a:?}, {b:?})"),
            Self::Bool(value) => f.write_str(if *value { "True" } else { "False" }),
        }
    }
}

/// Types of settings.
macro_rules! setting_types {
    ($($ty:ty: $pattern:pat => $value:expr, $back:expr;)*) => { $(
        impl From<$ty> for Setting {
            fn from($pattern: $ty) -> Self {
                $value
            }
        }
        impl TryFrom<Setting> for $ty {
            type Error = Setting;
            fn try_from(setting: Setting) -> Result<Self, Setting> {
                let back: fn(Setting) -> Option<$ty> = $back;
                back(setting).ok_or(setting)
            }
        }
    )* };
}
setting_types! {
    f64: value => Self::Float(value), |s| if let Setting::Float(value) = s { Some(value) } else { None };
    (f64, f64): (a, b) => Self::Pair(a, b), |s| if let Setting::Pair(a, b) = s { Some((a, b)) } else { None };
    bool: value => Self::Bool(value), |s| if let Setting::Bool(value) = s { Some(value) } else { None };
}

/// A group in a state dict: its settings by PyTorch's names, and its parameters by number.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupState {
    /// settings by name
    pub options: Vec<(String, Setting)>,
    /// numbers of the parameters, counted through all groups
    pub params: Vec<usize>,
}

/// What an optimizer remembers (`Optimizer.state_dict()`).
#[derive(Clone, Debug, Default)]
pub struct StateDict {
    /// for each parameter that has taken a step: its number and its tensors by name
    pub state: Vec<(usize, Vec<(String, Tensor)>)>,
    /// the groups
    pub param_groups: Vec<GroupState>,
}

/// The settings of a rule.
pub trait Options: Clone {
    /// By PyTorch's names, in order.
    fn to_settings(&self) -> Vec<(&'static str, Setting)>;

    /// Takes over a setting of PyTorch's name; unknown ones, and ones of another kind, are let pass.
    fn set(&mut self, name: &str, value: Setting);

    /// Whether the settings are in range.
    ///
    /// # Errors
    /// `ValueError` for the first that is not.
    fn check(&self) -> Result<()>;
}

/// `to_settings` and `set` of [`Options`] over fields of PyTorch's names.
macro_rules! settings {
    ($($field:ident)*) => {
        fn to_settings(&self) -> Vec<(&'static str, Setting)> {
            vec![$((stringify!($field), self.$field.into())),*]
        }

        fn set(&mut self, name: &str, value: Setting) {
            match name {
                $(stringify!($field) => self.$field = value.try_into().unwrap_or(self.$field),)*
                _ => {}
            }
        }
    };
}
pub(crate) use settings;

/// What a rule remembers of one parameter.
pub trait State: Default {
    /// The tensors by PyTorch's names; none before the first step.
    ///
    /// # Errors
    /// When one cannot be allocated.
    fn to_tensors(&self) -> Result<Vec<(String, Tensor)>>;

    /// The state of a parameter from copies of these tensors.
    ///
    /// # Errors
    /// `ValueError` when one is missing or has another shape than the parameter.
    fn from_tensors(param: &Tensor, tensors: &[(String, Tensor)]) -> Result<Self>;
}

/// A parameter that takes a step.
pub struct Slot<'a, S> {
    /// the parameter
    pub param: &'a Tensor,
    /// its gradient
    pub grad: Tensor,
    /// what is remembered of it
    pub state: &'a mut S,
}

impl<S> Slot<'_, S> {
    /// True if a fused operator can take the parameter: real floating numbers of the host, with a gradient like it.
    pub(crate) fn can_fuse(&self) -> bool {
        let Slot { param, grad, .. } = self;
        param.device().is_cpu()
            && param.dtype().is_differentiable()
            && !param.is_complex()
            && grad.dtype() == param.dtype()
            && grad.device() == param.device()
            && grad.layout() == param.layout()
    }
}

/// How parameters change by their gradients.
///
/// [`Rule::update`] is the rule itself, composed of operators. [`Rule::update_group`] may call an operator that does all in
/// one pass, for the parameters that it can take; `update` stays for others, and what it is tested against.
pub trait Rule {
    /// Its settings.
    type Options: Options;
    /// What it remembers.
    type State: State;

    /// One step of one parameter. Not recorded.
    ///
    /// # Errors
    /// When an operator fails.
    fn update(param: &Tensor, grad: &Tensor, state: &mut Self::State, options: &Self::Options) -> Result<()>;

    /// One step of the parameters of a group that have gradients.
    ///
    /// # Errors
    /// When an operator fails.
    fn update_group(slots: Vec<Slot<'_, Self::State>>, options: &Self::Options) -> Result<()> {
        slots.into_iter().try_for_each(|slot| Self::update(slot.param, &slot.grad, slot.state, options))
    }
}

/// Groups of parameters with the state of a rule.
pub struct Groups<R: Rule> {
    groups: Vec<Group<R::Options>>,
    states: Vec<Vec<R::State>>,
}

impl<R: Rule> Groups<R> {
    /// Groups with fresh states.
    ///
    /// # Errors
    /// `ValueError` for no parameters, settings out of range, and a parameter that stands in two groups or is no leaf.
    pub fn new(groups: Vec<Group<R::Options>>) -> Result<Self> {
        check_value!(groups.iter().any(|group| !group.params.is_empty()), "optimizer got an empty parameter list");
        let mut all = Self { groups: Vec::new(), states: Vec::new() };
        groups.into_iter().try_for_each(|group| all.add(group))?;
        Ok(all)
    }

    /// Adds a group with fresh states.
    ///
    /// # Errors
    /// As [`Groups::new`]. Nothing is added then.
    pub fn add(&mut self, group: Group<R::Options>) -> Result<()> {
        group.options.check()?;
        let known = self.groups.iter().flat_map(|group| &group.params);
        let mut seen: Vec<&Tensor> = known.collect();
        for param in &group.params {
            check_value!(param.is_leaf() || param.retains_grad(), "can't optimize a non-leaf Tensor");
            check_value!(
                !seen.iter().any(|other| other.is_same(param)),
                "some parameters appear in more than one parameter group"
            );
            seen.push(param);
        }
        self.states.push(group.params.iter().map(|_| R::State::default()).collect());
        self.groups.push(group);
        Ok(())
    }

    /// The groups.
    pub fn groups(&self) -> &[Group<R::Options>] {
        &self.groups
    }

    /// The settings of the groups, to change them.
    pub fn options_mut(&mut self) -> impl Iterator<Item = &mut R::Options> {
        self.groups.iter_mut().map(|group| &mut group.options)
    }

    /// The text that PyTorch prints.
    pub(crate) fn write(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{name} (")?;
        for (i, group) in self.groups.iter().enumerate() {
            writeln!(f, "Parameter Group {i}")?;
            let mut settings = group.options.to_settings();
            settings.sort_by_key(|(name, _)| *name);
            for (name, value) in settings {
                writeln!(f, "    {name}: {value}")?;
            }
        }
        f.write_str(")")
    }
}

/// A rule at work on parameters (`torch.optim.Optimizer`).
pub trait Optimizer {
    /// Changes every parameter that has a gradient.
    ///
    /// # Errors
    /// When an operator fails.
    fn step(&mut self) -> Result<()>;

    /// Drops the gradients of all parameters.
    ///
    /// # Errors
    /// When no autograd engine is linked.
    fn zero_grad(&self) -> Result<()>;

    /// The learning rate of each group.
    fn lrs(&self) -> Vec<f64>;

    /// Sets the learning rate of each group; groups beyond the list keep theirs.
    fn set_lrs(&mut self, lrs: &[f64]);

    /// Sets the learning rate of all groups.
    fn set_lr(&mut self, lr: f64) {
        self.set_lrs(&vec![lr; self.lrs().len()]);
    }

    /// Settings and states. The tensors share memory with the optimizer.
    ///
    /// # Errors
    /// When a tensor cannot be allocated.
    fn state_dict(&self) -> Result<StateDict>;

    /// Takes over settings and copies of states.
    ///
    /// # Errors
    /// `ValueError` when the groups or shapes do not match, or settings are out of range; nothing has changed then.
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()>;
}

impl<R: Rule> Optimizer for Groups<R> {
    fn step(&mut self) -> Result<()> {
        no_grad(|| {
            for (group, states) in self.groups.iter().zip(&mut self.states) {
                let params = group.params.iter().zip(states);
                let slots = params.filter_map(|(param, state)| Some(Slot { param, grad: param.grad()?, state }));
                R::update_group(slots.collect(), &group.options)?;
            }
            Ok(())
        })
    }

    fn zero_grad(&self) -> Result<()> {
        self.groups.iter().flat_map(|group| &group.params).try_for_each(|param| param.set_grad(None))
    }

    fn lrs(&self) -> Vec<f64> {
        let lr =
            |group: &Group<R::Options>| match group.options.to_settings().into_iter().find(|(name, _)| *name == "lr") {
                Some((_, Setting::Float(lr))) => lr,
                _ => f64::NAN,
            };
        self.groups.iter().map(lr).collect()
    }

    fn set_lrs(&mut self, lrs: &[f64]) {
        for (options, lr) in self.options_mut().zip(lrs) {
            options.set("lr", Setting::Float(*lr));
        }
    }

    fn state_dict(&self) -> Result<StateDict> {
        let mut dict = StateDict::default();
        let mut number = 0;
        for (group, states) in self.groups.iter().zip(&self.states) {
            let params = (number..number + group.params.len()).collect();
            for state in states {
                let tensors = state.to_tensors()?;
                if !tensors.is_empty() {
                    dict.state.push((number, tensors));
                }
                number += 1;
            }
            let options = group.options.to_settings();
            let options = options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            dict.param_groups.push(GroupState { options, params });
        }
        Ok(dict)
    }

    fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        check_value!(
            state.param_groups.len() == self.groups.len(),
            "loaded state dict has a different number of parameter groups"
        );
        let fits = self.groups.iter().zip(&state.param_groups).all(|(own, new)| own.params.len() == new.params.len());
        check_value!(
            fits,
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        );
        let (mut options, mut states) = (Vec::new(), Vec::new());
        for (own, new) in self.groups.iter().zip(&state.param_groups) {
            let mut settings = own.options.clone();
            for (name, value) in &new.options {
                settings.set(name, *value);
            }
            settings.check()?;
            options.push(settings);
            let of = |(param, number): (&Tensor, &usize)| match state.state.iter().find(|(n, _)| n == number) {
                Some((_, tensors)) => R::State::from_tensors(param, tensors),
                None => Ok(R::State::default()),
            };
            states.push(own.params.iter().zip(&new.params).map(of).collect::<Result<_>>()?);
        }
        self.states = states;
        for (own, new) in self.options_mut().zip(options) {
            *own = new;
        }
        Ok(())
    }
}

/// A tensor of a state dict by name.
///
/// # Errors
/// `ValueError` when it is missing.
pub(crate) fn find<'a>(tensors: &'a [(String, Tensor)], name: &str) -> Result<&'a Tensor> {
    match tensors.iter().find(|(known, _)| known == name) {
        Some((_, tensor)) => Ok(tensor),
        None => bail!(Value, "the loaded optimizer state has no '{name}'"),
    }
}

/// A copy of a state tensor, with the dtype and device of its parameter.
///
/// # Errors
/// `ValueError` when it is missing or has another shape than the parameter.
pub(crate) fn like(param: &Tensor, tensors: &[(String, Tensor)], name: &str) -> Result<Tensor> {
    let tensor = find(tensors, name)?;
    check_value!(
        tensor.sizes() == param.sizes(),
        "the loaded optimizer state has '{name}' of shape {} for a parameter of shape {}",
        show(tensor.sizes()),
        show(param.sizes())
    );
    let copy = param.empty_like()?;
    no_grad(|| ops::copy_(&copy, tensor, false).map(drop))?;
    Ok(copy)
}

/// [`like`] for a tensor that may be missing.
pub(crate) fn like_opt(param: &Tensor, tensors: &[(String, Tensor)], name: &str) -> Result<Option<Tensor>> {
    if find(tensors, name).is_ok() { like(param, tensors, name).map(Some) } else { Ok(None) }
}

/// Makes an optimizer of a rule: a named struct around [`Groups`] that is an [`Optimizer`].
macro_rules! optimizer {
    ($(#[$doc:meta])* $name:ident, $rule:ty) => {
        $(#[$doc])*
        pub struct $name($crate::groups::Groups<$rule>);

        impl $name {
            /// An optimizer of parameters that share settings: `new(net.parameters(), options)`.
            ///
            /// # Errors
            /// `ValueError` for no parameters, ones that are no leaves, or settings out of range.
            pub fn new<P: AsRef<::tensor_aten::Tensor>>(
                params: impl IntoIterator<Item = P>,
                options: <$rule as $crate::groups::Rule>::Options,
            ) -> ::tensor_core::Result<Self> {
                Self::with_groups(vec![$crate::groups::Group::new(params, options)])
            }

            /// An optimizer of several groups.
            ///
            /// # Errors
            /// As `new`, and for a parameter that stands in two groups.
            pub fn with_groups(
                groups: Vec<$crate::groups::Group<<$rule as $crate::groups::Rule>::Options>>,
            ) -> ::tensor_core::Result<Self> {
                $crate::groups::Groups::new(groups).map(Self)
            }

            /// Adds a group (`add_param_group`).
            ///
            /// # Errors
            /// As `with_groups`. Nothing is added then.
            pub fn add_param_group(
                &mut self,
                group: $crate::groups::Group<<$rule as $crate::groups::Rule>::Options>,
            ) -> ::tensor_core::Result<()> {
                self.0.add(group)
            }

            /// The groups.
            pub fn param_groups(&self) -> &[$crate::groups::Group<<$rule as $crate::groups::Rule>::Options>] {
                self.0.groups()
            }

            /// The settings of the groups, to change them.
            pub fn options_mut(&mut self) -> impl Iterator<Item = &mut <$rule as $crate::groups::Rule>::Options> {
                self.0.options_mut()
            }
        }

        impl $crate::groups::Optimizer for $name {
            fn step(&mut self) -> ::tensor_core::Result<()> {
                self.0.step()
            }
            fn zero_grad(&self) -> ::tensor_core::Result<()> {
                self.0.zero_grad()
            }
            fn lrs(&self) -> Vec<f64> {
                self.0.lrs()
            }
            fn set_lrs(&mut self, lrs: &[f64]) {
                self.0.set_lrs(lrs)
            }
            fn state_dict(&self) -> ::tensor_core::Result<$crate::groups::StateDict> {
                self.0.state_dict()
            }
            fn load_state_dict(&mut self, state: &$crate::groups::StateDict) -> ::tensor_core::Result<()> {
                self.0.load_state_dict(state)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.write(stringify!($name), f)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.write(stringify!($name), f)
            }
        }
    };
}
pub(crate) use optimizer;
