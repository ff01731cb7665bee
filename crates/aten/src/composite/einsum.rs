//! Einstein sums, and products that are made of them.

mod chains;

use tensor_core::strides::{Dims, wrap_dim};
use tensor_core::{Result, bail, check};

use crate::{Tensor, ops};

pub use chains::*;

/// `sum over dims (left * right)` of two tensors with the same number of dimensions that broadcast; the summed dimensions
/// stay as size 1. Dimensions of both are a batch, the others rows and columns of one matrix product.
fn product_sum(left: &Tensor, right: &Tensor, dims: &[i64]) -> Result<Tensor> {
    if dims.is_empty() {
        return ops::mul(left, right);
    }
    let (mut left, mut right) = (left.clone(), right.clone());
    let [mut batch, mut rows, mut columns] = [Dims::new(), Dims::new(), Dims::new()];
    for d in 0..left.dim() as i64 {
        let (a, b) = (left.size(d)?, right.size(d)?);
        match (dims.contains(&d), a != 1, b != 1) {
            (true, true, true) => check!(a == b, "non-broadcast dimensions must match"),
            (true, true, false) => left = ops::sum_dim_int_list(&left, Some(&[d]), true, None)?,
            (true, false, true) => right = ops::sum_dim_int_list(&right, Some(&[d]), true, None)?,
            (true, false, false) => {}
            (false, true, true) => batch.push(d),
            (false, true, false) => rows.push(d),
            (false, false, _) => columns.push(d),
        }
    }
    let count = |x: &Tensor, dims: &[i64]| dims.iter().map(|&d| x.sizes()[d as usize]).product::<i64>();
    let order = |parts: [&[i64]; 4]| -> Dims { parts.into_iter().flatten().copied().collect() };
    let (n, p, s, q) = (count(&left, &batch), count(&left, &rows), count(&left, dims), count(&right, &columns));
    let a = ops::reshape(&ops::permute(&left, &order([&batch, &rows, dims, &columns]))?, &[n, p, s])?;
    let b = ops::reshape(&ops::permute(&right, &order([&batch, dims, &columns, &rows]))?, &[n, s, q])?;
    let product = ops::bmm(&a, &b)?;
    let places = order([&batch, &rows, dims, &columns]);
    let size = |d: i64| match (left.sizes()[d as usize], right.sizes()[d as usize]) {
        _ if dims.contains(&d) => 1,
        (1, b) => b,
        (a, _) => a,
    };
    let sizes: Dims = places.iter().map(|&d| size(d)).collect();
    let mut back = Dims::from_elem(0, places.len());
    for (i, &d) in places.iter().enumerate() {
        back[d as usize] = i as i64;
    }
    ops::permute(&ops::view(&product, &sizes)?, &back)
}

/// A subscript: a letter, or the dimensions that have none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Letter(usize),
    Ellipsis,
}

/// Upper-case letters come before lower-case ones.
const LETTERS: usize = 52;

fn letter(c: char) -> Option<usize> {
    match c {
        'A'..='Z' => Some(c as usize - 'A' as usize),
        'a'..='z' => Some(c as usize - 'a' as usize + 26),
        _ => None,
    }
}

fn name(letter: usize) -> char {
    char::from(if letter < 26 { b'A' + letter as u8 } else { b'a' + (letter - 26) as u8 })
}

/// The subscripts of one side's term. `what` names it in messages, `offset` is its place in the equation.
fn parse(term: &str, what: &str, offset: usize) -> Result<Vec<Label>> {
    let chars: Vec<char> = term.chars().collect();
    let mut labels = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        match chars[i] {
            ' ' => {}
            '.' => {
                check!(
                    !labels.contains(&Label::Ellipsis),
                    "einsum(): found '.' for {what} for which an ellipsis was already found"
                );
                check!(
                    chars[i..].starts_with(&['.', '.', '.']),
                    "einsum(): found '.' for {what} that is not part of any ellipsis"
                );
                labels.push(Label::Ellipsis);
                i += 2;
            }
            c => match letter(c) {
                Some(letter) => labels.push(Label::Letter(letter)),
                None => bail!(
                    Runtime,
                    "einsum(): invalid subscript given at index {} in the equation string, subscripts must be in [a-zA-Z]",
                    offset + i
                ),
            },
        }
        i += 1;
    }
    Ok(labels)
}

/// Where the dimensions of all operands go: those of the result first, then those that are summed.
struct Plan {
    terms: Vec<Vec<Label>>,
    /// the place of each letter
    places: [Option<usize>; LETTERS],
    /// the first place of the ellipsis, and how many dimensions it stands for
    ellipsis: (usize, usize),
    /// how many dimensions the result has
    kept: usize,
    /// how many there are
    all: usize,
}

impl Plan {
    fn new(equation: &str, operands: &[&Tensor]) -> Result<Self> {
        let (left, right) = match equation.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (equation, None),
        };
        let mut terms = Vec::new();
        let mut offset = 0;
        for (i, term) in left.split(',').enumerate() {
            check!(i < operands.len(), "einsum(): fewer operands were provided than specified in the equation");
            terms.push(parse(term, &format!("operand {i}"), offset)?);
            offset += term.chars().count() + 1;
        }
        check!(terms.len() == operands.len(), "einsum(): more operands were provided than specified in the equation");
        let mut counts = [0; LETTERS];
        let mut free = 0;
        for (i, (term, operand)) in terms.iter().zip(operands).enumerate() {
            let letters = term.iter().filter(|label| **label != Label::Ellipsis).count();
            let (open, n) = (letters < term.len(), operand.dim());
            check!(
                !open || letters <= n,
                "einsum(): the number of subscripts in the equation ({letters}) is more than the number of dimensions \
                 ({n}) for operand {i}"
            );
            check!(
                open || letters == n,
                "einsum(): the number of subscripts in the equation ({letters}) does not match the number of dimensions \
                 ({n}) for operand {i} and no ellipsis was given"
            );
            if open {
                free = free.max(n - letters);
            }
            for label in term {
                if let Label::Letter(letter) = label {
                    counts[*letter] += 1;
                }
            }
        }
        let mut plan = Self { terms, places: [None; LETTERS], ellipsis: (0, free), kept: 0, all: 0 };
        plan.place_result(right, offset + 1, &counts)?;
        for letter in (0..LETTERS).filter(|&letter| counts[letter] > 0) {
            if plan.places[letter].is_none() {
                plan.places[letter] = Some(plan.all);
                plan.all += 1;
            }
        }
        Ok(plan)
    }

    fn place_result(&mut self, right: Option<&str>, offset: usize, counts: &[usize; LETTERS]) -> Result<()> {
        let labels = match right {
            Some(right) => parse(right, "output", offset)?,
            None => {
                let once = (0..LETTERS).filter(|&letter| counts[letter] == 1);
                [Label::Ellipsis].into_iter().chain(once.map(Label::Letter)).collect()
            }
        };
        let mut next = 0;
        for label in &labels {
            match *label {
                Label::Ellipsis => {
                    self.ellipsis.0 = next;
                    next += self.ellipsis.1;
                }
                Label::Letter(letter) => {
                    check!(
                        self.places[letter].is_none(),
                        "einsum(): output subscript {} appears more than once in the output",
                        name(letter)
                    );
                    check!(
                        counts[letter] > 0,
                        "einsum(): output subscript {} does not appear in the equation for any input operand",
                        name(letter)
                    );
                    self.places[letter] = Some(next);
                    next += 1;
                }
            }
        }
        self.kept = next;
        if !labels.contains(&Label::Ellipsis) {
            self.ellipsis.0 = next;
            next += self.ellipsis.1;
        }
        self.all = next;
        Ok(())
    }

    /// An operand with its dimensions at their places; diagonals for repeated letters, size 1 for those that it lacks.
    fn align(&self, i: usize, operand: &Tensor, sizes: &mut [i64], users: &mut [usize]) -> Result<Tensor> {
        let mut x = operand.clone();
        let mut order: Vec<Option<i64>> = vec![None; self.all];
        let mut d = 0i64;
        let mut meet = |place: usize, size: i64, error: &dyn Fn(i64) -> String| -> Result<()> {
            if size != 1 {
                let seen = sizes[place];
                if seen != 1 && seen != size {
                    bail!(Runtime, "{}", error(seen));
                }
                sizes[place] = size;
                users[place] += 1;
            }
            Ok(())
        };
        for label in &self.terms[i] {
            match *label {
                Label::Ellipsis => {
                    let (first, free) = self.ellipsis;
                    let own = operand.dim() + 1 - self.terms[i].len();
                    for j in free - own..free {
                        let size = x.size(d)?;
                        meet(first + j, size, &|seen| {
                            format!(
                                "einsum(): dimension {d} covered by ellipsis in operand {i}has size {size} which does not \
                                 broadcast with previously seen ellipsis with size {seen} for the respective dimension"
                            )
                        })?;
                        order[first + j] = Some(d);
                        d += 1;
                    }
                }
                Label::Letter(letter) => {
                    let Some(place) = self.places[letter] else { continue };
                    let size = x.size(d)?;
                    if let Some(before) = order[place] {
                        check!(
                            size == x.size(before)?,
                            "einsum(): subscript {} is repeated for operand {i} but the sizes don't match, {size} != {}",
                            name(letter),
                            x.size(before)?
                        );
                        x = ops::movedim_int(&ops::diagonal(&x, 0, before, d)?, -1, before)?;
                        continue;
                    }
                    meet(place, size, &|seen| {
                        format!(
                            "einsum(): subscript {} has size {size} for operand {i} which does not broadcast with \
                             previously seen size {seen}",
                            name(letter)
                        )
                    })?;
                    order[place] = Some(d);
                    d += 1;
                }
            }
        }
        let mut dims = Dims::new();
        for place in order {
            dims.push(match place {
                Some(d) => d,
                None => {
                    x = ops::unsqueeze(&x, d)?;
                    d += 1;
                    d - 1
                }
            });
        }
        ops::permute(&x, &dims)
    }
}

/// The sum over the subscripts that the right side of the equation lacks of the products of all operands.
pub fn einsum(equation: &str, tensors: &[&Tensor], path: Option<&[i64]>) -> Result<Tensor> {
    check!(!tensors.is_empty(), "einsum(): must provide at least one operand");
    if let Some(path) = path {
        let wanted = if tensors.len() == 1 { 1 } else { (tensors.len() - 1) * 2 };
        check!(
            path.len() == wanted,
            "einsum(): expected contraction path given in path parameter to have size {wanted} but got {}",
            path.len()
        );
    }
    let plan = Plan::new(equation, tensors)?;
    let (mut sizes, mut users) = (vec![1; plan.all], vec![0; plan.all]);
    let mut operands = Vec::with_capacity(tensors.len());
    for (i, operand) in tensors.iter().enumerate() {
        operands.push(plan.align(i, operand, &mut sizes, &mut users)?);
    }
    let mut steps = path.unwrap_or_default().chunks_exact(2);
    while operands.len() > 1 {
        let (mut i, mut j) = (0, 1);
        if let Some(&[a, b]) = steps.next() {
            let (low, high) = (a.min(b), a.max(b));
            check!(low != high, "einsum(): invalid contraction ({low}, {high}) cannot contract an operand with itself");
            check!(
                low >= 0 && high < operands.len() as i64,
                "einsum(): invalid contraction ({low}, {high}) operand index is out of bounds"
            );
            (i, j) = (low as usize, high as usize);
        }
        let b = operands.remove(j);
        let a = operands.remove(i);
        let product = contract(&plan, &mut users, a, b)?;
        if path.is_some() { operands.push(product) } else { operands.insert(0, product) }
    }
    let Some(result) = operands.pop() else { bail!(Runtime, "einsum(): must provide at least one operand") };
    if plan.all == plan.kept {
        return Ok(result);
    }
    if tensors.len() > 1 {
        return ops::view(&result, &result.sizes()[..plan.kept]);
    }
    let dims: Dims = (plan.kept as i64..plan.all as i64).collect();
    ops::sum_dim_int_list(&result, Some(&dims), false, None)
}

/// The product of two operands, summed over what no other one needs.
fn contract(plan: &Plan, users: &mut [usize], mut a: Tensor, mut b: Tensor) -> Result<Tensor> {
    let (mut both, mut only_a, mut only_b) = (Dims::new(), Dims::new(), Dims::new());
    for (d, users) in users.iter_mut().enumerate().take(plan.all).skip(plan.kept) {
        let (in_a, in_b) = (a.sizes()[d] != 1, b.sizes()[d] != 1);
        if in_a && in_b {
            *users -= 1;
        }
        if *users == 1 && (in_a || in_b) {
            *users = 0;
            let dims = match (in_a, in_b) {
                (true, true) => &mut both,
                (true, false) => &mut only_a,
                _ => &mut only_b,
            };
            dims.push(d as i64);
        }
    }
    if !only_a.is_empty() {
        a = ops::sum_dim_int_list(&a, Some(&only_a), true, None)?;
    }
    if !only_b.is_empty() {
        b = ops::sum_dim_int_list(&b, Some(&only_b), true, None)?;
    }
    product_sum(&a, &b, &both)
}

/// `sum over dims (i1 * i2 * i3)`, each with dimensions of size 1 put in where `expand` says.
pub fn _trilinear(
    i1: &Tensor,
    i2: &Tensor,
    i3: &Tensor,
    expand1: &[i64],
    expand2: &[i64],
    expand3: &[i64],
    sumdim: &[i64],
    _unroll_dim: i64,
) -> Result<Tensor> {
    let total = i1.dim() + expand1.len();
    let widened = |x: &Tensor, expand: &[i64]| -> Result<Tensor> {
        let mut x = x.clone();
        for d in 0..total as i64 {
            if expand.contains(&d) {
                x = ops::unsqueeze(&x, d)?;
            }
        }
        Ok(x)
    };
    let (a, b, c) = (widened(i1, expand1)?, widened(i2, expand2)?, widened(i3, expand3)?);
    let sums = sumdim.iter().map(|&d| Ok(wrap_dim(d, total)? as i64)).collect::<Result<Dims>>()?;
    // What the third operand does not have is summed in the first product.
    let (early, late): (Dims, Dims) = sums.iter().copied().partition(|d| expand3.contains(d));
    let product = product_sum(&product_sum(&a, &b, &early)?, &c, &late)?;
    if sums.is_empty() { Ok(product) } else { ops::squeeze_dims(&product, &sums) }
}

/// `input1 @ weight[o] @ input2 + bias[o]` for each output `o`.
pub fn bilinear(input1: &Tensor, input2: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let (n1, n2) = (input1.dim(), input2.dim());
    check!(n1 == n2, "bilinear(): input dimensions do not match: got {n1} and {n2}");
    for d in 0..n1.saturating_sub(1) {
        check!(
            input1.sizes()[d] == input2.sizes()[d],
            "bilinear(): input batch dimensions do not match at dim {d}: got {} and {}",
            input1.sizes()[d],
            input2.sizes()[d]
        );
    }
    check!(weight.dim() == 3, "bilinear(): weight must be 3-D, got {}-D", weight.dim());
    for (i, (x, d)) in [(input1, 1), (input2, 2)].into_iter().enumerate() {
        let size = x.size(-1)?;
        check!(
            size == weight.sizes()[d],
            "bilinear(): input{} size does not match weight size: got {size} but expected {}",
            i + 1,
            weight.sizes()[d]
        );
    }
    if let Some(bias) = bias {
        check!(
            bias.numel() == weight.sizes()[0],
            "bilinear(): bias size does not match weight size: got {} but expected {}",
            bias.numel(),
            weight.sizes()[0]
        );
    }
    let lead = &input1.sizes()[..n1.saturating_sub(1)];
    let count: i64 = lead.iter().product();
    let shape: Dims = lead.iter().copied().chain([weight.sizes()[0]]).collect();
    let flat = |x: &Tensor| ops::reshape(x, &[count, x.size(-1)?]);
    let product = ops::_trilinear(&flat(input1)?, weight, &flat(input2)?, &[1, 3], &[0], &[1, 2], &[2, 3], 1)?;
    let result = ops::reshape(&product, &shape)?;
    match bias {
        Some(bias) => ops::add(&result, bias, 1),
        None => Ok(result),
    }
}

/// The sums of products along a dimension, with the conjugate of the first operand.
pub fn linalg_vecdot(x: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    check!(
        x.dtype().is_differentiable(),
        "linalg.vecdot: Expected a floating point or complex tensor as input. Got {}",
        x.dtype().cpp_name()
    );
    check!(
        x.dtype() == y.dtype(),
        "linalg.vecdot: Expected vectors x and y to have the same dtype, but found {} and {}",
        x.dtype().cpp_name(),
        y.dtype().cpp_name()
    );
    if x.dim() == 1 && y.dim() == 1 {
        return ops::vdot(x, y);
    }
    let conjugate = if x.is_complex() { ops::conj(x)? } else { x.clone() };
    ops::sum_dim_int_list(&ops::mul(&conjugate, y)?, Some(&[dim]), false, None)
}
