//! Parameter groups, the state of each parameter, and the [`Optimizer`] that a rule makes of them.

use tensor_aten::Tensor;
use tensor_autograd::no_grad;
use tensor_core::{Result, check_value};

/// Parameters that share settings.
#[derive(Clone)]
pub struct Group<O> {
    /// the parameters
    pub params: Vec<Tensor>,
    /// their settings
    pub options: O,
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

/// A group in a state dict: its settings by PyTorch's names, and its parameters by number.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupState {
    /// settings by name
    pub options: Vec<(String, Setting)>,
    /// numbers of the parameters, counted through all groups
    pub params: Vec<usize>,
}

/// What an optimizer remembers (`Optimizer.state_dict()`).
#[derive(Clone, Default)]
pub struct StateDict {
    /// for each parameter that has taken a step: its number and its tensors by name
    pub state: Vec<(usize, Vec<(String, Tensor)>)>,
    /// the groups
    pub param_groups: Vec<GroupState>,
}

/// The settings of a rule.
pub trait Options: Clone {
    /// By PyTorch's names.
    fn to_settings(&self) -> Vec<(String, Setting)>;

    /// Takes over a setting of PyTorch's name; unknown ones are let pass.
    fn set(&mut self, name: &str, value: Setting);
}

/// What a rule remembers of one parameter.
pub trait State: Default {
    /// The tensors by PyTorch's names; none before the first step.
    fn to_tensors(&self) -> Vec<(String, Tensor)>;

    /// The state of these tensors.
    ///
    /// # Errors
    /// When one is missing or has no number in it.
    fn from_tensors(tensors: &[(String, Tensor)]) -> Result<Self>;
}

/// How a rule changes one parameter.
pub trait Rule {
    /// Its settings.
    type Options: Options;
    /// What it remembers.
    type State: State;

    /// One step of one parameter.
    ///
    /// # Errors
    /// When an operator fails.
    fn update(param: &Tensor, grad: &Tensor, state: &mut Self::State, options: &Self::Options) -> Result<()>;
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
    /// `ValueError` for no parameters, or one that stands in two groups or is no leaf.
    pub fn new(groups: Vec<Group<R::Options>>) -> Result<Self> {
        check_value!(!groups.is_empty(), "optimizer got an empty parameter list");
        let mut seen: Vec<&Tensor> = Vec::new();
        for param in groups.iter().flat_map(|group| &group.params) {
            check_value!(param.is_leaf(), "can't optimize a non-leaf Tensor");
            check_value!(
                !seen.iter().any(|other| other.is_same(param)),
                "some parameters appear in more than one parameter group"
            );
            seen.push(param);
        }
        let states = groups.iter().map(|group| group.params.iter().map(|_| R::State::default()).collect()).collect();
        Ok(Self { groups, states })
    }

    /// The groups.
    pub fn groups(&self) -> &[Group<R::Options>] {
        &self.groups
    }

    /// The groups, to change their settings.
    pub fn groups_mut(&mut self) -> &mut [Group<R::Options>] {
        &mut self.groups
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
    /// When autograd is not linked.
    fn zero_grad(&self) -> Result<()>;

    /// The learning rate of each group.
    fn lr(&self) -> Vec<f64>;

    /// Sets the learning rate of all groups.
    fn set_lr(&mut self, lr: f64);

    /// Settings and states, sharing memory with the optimizer.
    fn state_dict(&self) -> StateDict;

    /// Takes over settings and states.
    ///
    /// # Errors
    /// `ValueError` when the groups do not match.
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()>;
}

impl<R: Rule> Optimizer for Groups<R> {
    fn step(&mut self) -> Result<()> {
        let _no_grad = no_grad();
        for (group, states) in self.groups.iter().zip(&mut self.states) {
            for (param, state) in group.params.iter().zip(states) {
                if let Some(grad) = param.grad() {
                    R::update(param, &grad, state, &group.options)?;
                }
            }
        }
        Ok(())
    }

    fn zero_grad(&self) -> Result<()> {
        self.groups.iter().flat_map(|group| &group.params).try_for_each(|param| param.set_grad(None))
    }

    fn lr(&self) -> Vec<f64> {
        let of = |options: &R::Options| options.to_settings().into_iter().find(|(name, _)| name == "lr");
        let value = |setting| match setting {
            Some((_, Setting::Float(lr))) => lr,
            _ => f64::NAN,
        };
        self.groups.iter().map(|group| value(of(&group.options))).collect()
    }

    fn set_lr(&mut self, lr: f64) {
        for group in &mut self.groups {
            group.options.set("lr", Setting::Float(lr));
        }
    }

    fn state_dict(&self) -> StateDict {
        let mut dict = StateDict::default();
        let mut number = 0;
        for (group, states) in self.groups.iter().zip(&self.states) {
            let params = (number..number + group.params.len()).collect();
            for state in states {
                let tensors = state.to_tensors();
                if !tensors.is_empty() {
                    dict.state.push((number, tensors));
                }
                number += 1;
            }
            dict.param_groups.push(GroupState { options: group.options.to_settings(), params });
        }
        dict
    }

    fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        check_value!(
            state.param_groups.len() == self.groups.len(),
            "loaded state dict has a different number of parameter groups"
        );
        let fits = self.groups.iter().zip(&state.param_groups).all(|(own, new)| own.params.len() == new.params.len());
        check_value!(fits, "loaded state dict contains a parameter group that doesn't match the size of optimizer's group");
        let mut fresh: Vec<Vec<R::State>> = Vec::new();
        for group in &state.param_groups {
            let of = |number: &usize| match state.state.iter().find(|(n, _)| n == number) {
                Some((_, tensors)) => R::State::from_tensors(tensors),
                None => Ok(R::State::default()),
            };
            fresh.push(group.params.iter().map(of).collect::<Result<_>>()?);
        }
        self.states = fresh;
        for (own, new) in self.groups.iter_mut().zip(&state.param_groups) {
            for (name, value) in &new.options {
                own.options.set(name, *value);
            }
        }
        Ok(())
    }
}

/// A tensor of a state dict by name.
///
/// # Errors
/// `ValueError` when it is missing.
pub(crate) fn tensor(tensors: &[(String, Tensor)], name: &str) -> Result<Tensor> {
    match tensors.iter().find(|(known, _)| known == name) {
        Some((_, tensor)) => Ok(tensor.clone()),
        None => tensor_core::bail!(Value, "the loaded optimizer state has no '{name}'"),
    }
}

/// Makes an optimizer type of a rule: a named struct around [`Groups`] that is an [`Optimizer`].
macro_rules! optimizer {
    ($(#[$doc:meta])* $name:ident, $rule:ty, $options:ty) => {
        $(#[$doc])*
        pub struct $name($crate::groups::Groups<$rule>);

        impl $name {
            /// An optimizer of parameters that share settings.
            ///
            /// # Errors
            /// `ValueError` for no parameters, ones that are no leaves, or settings out of range.
            pub fn new<P: AsRef<::tensor_aten::Tensor>>(params: impl IntoIterator<Item = P>, options: $options) -> ::tensor_core::Result<Self> {
                let params = params.into_iter().map(|p| p.as_ref().clone()).collect();
                Self::with_groups(vec![$crate::groups::Group { params, options }])
            }

            /// An optimizer of several groups.
            ///
            /// # Errors
            /// As `new`.
            pub fn with_groups(groups: Vec<$crate::groups::Group<$options>>) -> ::tensor_core::Result<Self> {
                for group in &groups {
                    group.options.check()?;
                }
                $crate::groups::Groups::new(groups).map(Self)
            }

            /// The groups, to change their settings.
            pub fn param_groups(&mut self) -> &mut [$crate::groups::Group<$options>] {
                self.0.groups_mut()
            }
        }

        impl $crate::groups::Optimizer for $name {
            fn step(&mut self) -> ::tensor_core::Result<()> {
                self.0.step()
            }
            fn zero_grad(&self) -> ::tensor_core::Result<()> {
                self.0.zero_grad()
            }
            fn lr(&self) -> Vec<f64> {
                self.0.lr()
            }
            fn set_lr(&mut self, lr: f64) {
                self.0.set_lr(lr)
            }
            fn state_dict(&self) -> $crate::groups::StateDict {
                self.0.state_dict()
            }
            fn load_state_dict(&mut self, state: &$crate::groups::StateDict) -> ::tensor_core::Result<()> {
                self.0.load_state_dict(state)
            }
        }
    };
}
pub(crate) use optimizer;
