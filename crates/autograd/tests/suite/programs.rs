//! Random programs of products, views and writes in place: their gradients are those of central differences, or an error
//! says that a tensor which backward needs was written.

use tensor_aten::{Tensor, ops};
use tensor_autograd::{GradCheck, gradcheck, gradgradcheck};
use tensor_core::Result;

use crate::plain;

/// A small generator, so that each program has a number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }
}

/// One step over the tensors so far. Steps that do not fit fail before they write, and are left out.
fn step(dice: &mut Dice, known: &mut Vec<Tensor>) {
    let (a, b) = (known[dice.roll(known.len())].clone(), known[dice.roll(known.len())].clone());
    let (i, j) = (dice.roll(2) as i64, dice.roll(3) as i64);
    let made: Result<Vec<Tensor>> = match dice.roll(13) {
        0 => ops::mul(&a, &b).map(|y| vec![y]),
        1 => ops::add(&a, &b, 2).map(|y| vec![y]),
        2 => ops::sin(&a).map(|y| vec![y]),
        3 => ops::select_int(&a, 0, i).map(|y| vec![y]),
        4 => ops::slice(&a, 0, Some(i), Some(i + 2), 1 + i).map(|y| vec![y]),
        5 => ops::transpose_int(&a, 0, 1).map(|y| vec![y]),
        6 => ops::unbind_int(&a, 0),
        7 => ops::mul_(&a, &b).map(|_| Vec::new()),
        8 => ops::add_(&a, &b, 3).map(|_| Vec::new()),
        9 => ops::exp_(&a).map(|_| Vec::new()),
        10 => ops::copy_(&a, &b, false).map(|_| Vec::new()),
        11 => ops::fill_scalar_(&a, j).map(|_| Vec::new()),
        // Of a view, `as_strided` shows elements that the view does not, and their gradient is lost (in PyTorch too).
        _ if a.is_view() => Ok(Vec::new()),
        _ => ops::as_strided(&a, &[2, 2], &[2, 1], None).map(|y| vec![y]),
    };
    known.extend(made.into_iter().flatten());
}

fn program(number: u64) -> impl Fn(&[Tensor]) -> Result<Vec<Tensor>> {
    move |inputs| {
        let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // What is written must not be an input.
        let start = ops::mul(&inputs[0], &inputs[1])?;
        let mut known = vec![start, inputs[0].clone(), inputs[1].clone()];
        for _ in 0..12 {
            step(&mut dice, &mut known);
        }
        let mut total = ops::sum(&known[0], None)?;
        for tensor in &known[1..] {
            // A view that may not be used any more is an error when it is used.
            if let Ok(part) = ops::sum(&ops::mul(tensor, tensor)?, None) {
                total = ops::add(&total, &part, 1)?;
            }
        }
        Ok(vec![total])
    }
}

/// Errors that PyTorch gives as well.
const REFUSALS: [&str; 3] = [
    "modified by an inplace operation",
    "is a view and its base or another view of its base",
    "more than one element of the written-to tensor refers to a single memory location",
];

const PROGRAMS: u64 = if cfg!(debug_assertions) { 40 } else { 400 };

#[test]
fn random_programs_have_right_gradients() -> Result<()> {
    let options = GradCheck { eps: 1e-6, atol: 1e-4, rtol: 1e-4 };
    let (mut right, mut refused) = (0u64, 0u64);
    for number in 0..PROGRAMS {
        let x = ops::view(&plain(&[0.1, -0.2, 0.3, 0.4, -0.5, 0.6])?, &[2, 3])?;
        let w = ops::view(&plain(&[0.7, 0.2, -0.4, 0.3, 0.1, -0.6])?, &[2, 3])?;
        let inputs = [ops::detach(&x)?, ops::detach(&w)?];
        for input in &inputs {
            input.requires_grad_(true)?;
        }
        let f = program(number);
        let checks = gradcheck(&f, &inputs, options).and_then(|()| gradgradcheck(&f, &inputs, options));
        match checks {
            Ok(()) => right += 1,
            Err(error) if REFUSALS.iter().any(|text| error.message().contains(text)) => refused += 1,
            Err(error) => return Err(tensor_core::Error::runtime(format!("program {number}: {}", error.message()))),
        }
    }
    assert!(right > PROGRAMS / 4 && refused > 0, "{right} right, {refused} refused");
    Ok(())
}
