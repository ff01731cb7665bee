//! What a derivative entry amounts to: its edges, its lowered formulas, its saved fields and who needs them.

use crate::formula::{self, Kind, Lowered, Operators, Scope, Shape, Source, Use, What};
use crate::model::{Derivatives, Entry};
use crate::names;
use crate::schema::{Arg, Schema};
use crate::yaml::Error;

/// An input with edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its place in the schema.
    pub arg: usize,
    /// One tensor or several.
    pub list: bool,
    /// Whether it, or its items, may be absent.
    pub optional: bool,
}

/// A formula, lowered.
pub struct Step {
    /// The inputs that it serves, as numbers of [`Plan::inputs`].
    pub inputs: Vec<usize>,
    /// Its statements.
    pub lowered: Lowered,
    /// Its text, for the node's documentation.
    pub text: String,
}

/// A saved field, with the inputs whose formulas name it.
pub struct Field {
    /// What it holds.
    pub saved: Use,
    /// Numbers of [`Plan::inputs`].
    pub inputs: Vec<usize>,
}

/// Everything that a node and its wrappers are written from.
pub struct Plan<'a> {
    /// The entry's own schema.
    pub schema: &'a Schema,
    /// The node's struct.
    pub node: String,
    /// The node's name.
    pub grad_fn: &'a str,
    /// The line of the entry.
    pub line: usize,
    /// For each return, whether a gradient flows through it.
    pub differentiable: Vec<bool>,
    /// The inputs with edges, in schema order.
    pub inputs: Vec<Input>,
    /// The formulas.
    pub steps: Vec<Step>,
    /// What is saved.
    pub fields: Vec<Field>,
    /// True if an in-place form changes what the tensor shows (`t_`), not its elements: other names of them keep their history.
    pub in_place_view: bool,
}

impl<'a> Plan<'a> {
    /// Lowers all formulas of an entry.
    pub fn new(entry: &'a Entry, derivatives: &'a Derivatives, operators: &Operators) -> Result<Self, Error> {
        let schema = &entry.schema;
        let fail = |message: String| Error::new(entry.line, message);
        let differentiable = match &derivatives.output_differentiability {
            Some(flags) => flags.clone(),
            None => schema.returns.iter().map(|ret| ret.ty.is_tensor_like()).collect(),
        };
        let has_edge = |name: &str| {
            derivatives.formulas.iter().any(|formula| formula.inputs.iter().any(|input| input == name))
                || derivatives.not_implemented.iter().any(|input| input == name)
        };
        let inputs: Vec<Input> = schema
            .args
            .iter()
            .enumerate()
            .filter(|(_, arg)| has_edge(&arg.name))
            .map(|(i, arg)| Input {
                arg: i,
                list: arg.ty.list.is_some(),
                optional: arg.ty.optional || arg.ty.optional_items,
            })
            .collect();
        if inputs.iter().filter(|input| input.list).count() > 1 {
            return Err(fail(format!("{}: only one list of inputs can have a gradient", schema.full_name())));
        }
        let mut plan = Self {
            schema,
            node: derivatives.grad_fn.rsplit("::").next().unwrap_or_default().replace("_copy", "Copy"),
            grad_fn: &derivatives.grad_fn,
            line: entry.line,
            differentiable,
            inputs,
            steps: Vec::new(),
            fields: Vec::new(),
            in_place_view: entry.tags.iter().any(|tag| tag == "inplace_view"),
        };
        let missing = derivatives.not_implemented.iter().map(|name| crate::model::Formula {
            inputs: vec![name.clone()],
            text: format!("not_implemented({name:?})"),
            line: entry.line,
        });
        for formula in derivatives.formulas.iter().cloned().chain(missing) {
            plan.lower(&formula, operators)?;
        }
        Ok(plan)
    }

    fn lower(&mut self, formula: &crate::model::Formula, operators: &Operators) -> Result<(), Error> {
        let number = |name: &String| self.inputs.iter().position(|input| self.schema.args[input.arg].name == *name);
        let inputs: Vec<usize> = formula.inputs.iter().filter_map(number).collect();
        let mask: Vec<String> = inputs.iter().map(|&input| self.need(input)).collect();
        let scope = Scope { schema: self.schema, differentiable: &self.differentiable, operators, mask: &mask };
        let lowered = formula::lower(&scope, &formula.text, inputs.len()).map_err(|message| {
            Error::new(formula.line, format!("derivative of {}: {message}", formula.inputs.join(", ")))
        })?;
        for used in &lowered.uses {
            match self.fields.iter_mut().find(|field| field.saved == *used) {
                Some(field) => field.inputs.extend(&inputs),
                None => self.fields.push(Field { saved: used.clone(), inputs: inputs.clone() }),
            }
        }
        self.steps.push(Step { inputs, lowered, text: formula.text.clone() });
        Ok(())
    }

    /// The argument of an input.
    pub fn arg(&self, input: usize) -> &Arg {
        &self.schema.args[self.inputs[input].arg]
    }

    /// The first edge of an input, where a list has as many edges as `count` says of it; `end` is the number of all edges.
    /// Behind a list, edges are counted from the end.
    fn first_edge(&self, input: usize, end: &str) -> String {
        if self.inputs[..input].iter().any(|before| before.list) {
            format!("{end} - {}", self.inputs.len() - input)
        } else {
            input.to_string()
        }
    }

    /// In `apply`: the first edge of an input.
    pub fn edge(&self, input: usize) -> String {
        self.first_edge(input, "need.len()")
    }

    /// The edges of an input, one or a range.
    fn place(&self, input: usize, end: &str) -> String {
        let first = self.first_edge(input, end);
        if !self.inputs[input].list {
            return first;
        }
        match self.inputs.len() - input - 1 {
            0 => format!("{first}..{end}"),
            after => format!("{first}..{end} - {after}"),
        }
    }

    /// In `apply`: whether an input needs its gradient.
    pub fn need(&self, input: usize) -> String {
        let place = self.place(input, "need.len()");
        if self.inputs[input].list { format!("need[{place}].contains(&true)") } else { format!("need[{place}]") }
    }

    /// In a wrapper: whether one of some inputs has an edge.
    pub fn condition(&self, inputs: &[usize]) -> String {
        let mut inputs = inputs.to_vec();
        inputs.sort_unstable();
        inputs.dedup();
        // The wrapper got here because some input needs a gradient.
        if inputs.len() == self.inputs.len() {
            return "true".into();
        }
        let one = |&input: &usize| {
            let place = self.place(input, "edges.len()");
            if self.inputs[input].list { format!("edges.any({place})") } else { format!("edges.needs({place})") }
        };
        inputs.iter().map(one).collect::<Vec<_>>().join(" || ")
    }

    /// The number of a return among the differentiable ones.
    pub fn output_number(&self, ret: usize) -> usize {
        self.differentiable[..ret].iter().filter(|on| **on).count()
    }

    /// The field that holds the only result, if something may give it another node: an in-place form, or a list operator.
    pub fn saved_result(&self) -> Option<&Use> {
        let whole = |field: &&Field| {
            let saved = &field.saved;
            saved.source == Source::Result(0)
                && saved.what == What::Whole
                && (saved.kind, saved.shape) == (Kind::Tensor, Shape::One)
        };
        self.fields.iter().find(whole).map(|field| &field.saved)
    }
}

/// An argument's name in a wrapper, apart from the wrapper's own names.
pub fn local(arg: &Arg) -> String {
    let name = names::arg_name(arg);
    let taken = ["keys", "needed", "result", "edges", "function", "call"].contains(&name.as_str());
    if taken { format!("{name}_") } else { names::ident(&name).to_string() }
}
