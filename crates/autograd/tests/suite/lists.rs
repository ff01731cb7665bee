//! Operators over lists: one node with an output a tensor.

use tensor_aten::ops;
use tensor_autograd::grad;
use tensor_core::{Result, Scalar};

use crate::{grad_of, leaf, message, node_name, plain, values};

#[test]
fn a_list_has_one_node() -> Result<()> {
    let (x, y, w) = (leaf(&[1.0, 2.0])?, plain(&[3.0])?, leaf(&[5.0])?);
    let out = ops::_foreach_mul_list(&[&x, &y, &w], &[&x, &y, &y])?;
    assert!(out.iter().all(|out| node_name(out) == "ForeachMulBackward0List"));
    // Two edges a recorded product; the second product needs none.
    let node = out[1].grad_fn()?.map_or(0, |node| node.next_functions().len());
    assert_eq!(node, 4);
    ops::add(&ops::sum(&out[0], None)?, &ops::sum(&out[2], None)?, 1)?.backward()?;
    assert_eq!((grad_of(&x), grad_of(&w)), (vec![2.0, 4.0], vec![3.0]));
    assert!(
        message(ops::sum(&out[0], None)?.backward()).starts_with("Trying to backward through the graph a second time")
    );
    Ok(())
}

#[test]
fn a_saved_result_is_the_tensor_that_the_caller_holds() -> Result<()> {
    let (x, y) = (leaf(&[0.0])?, leaf(&[1.0])?);
    let out = ops::_foreach_exp(&[&x, &y])?;
    let first = grad(&[&ops::sum(&out[1], None)?], &[&y], None, Some(true), true, false)?;
    let Some(slope) = first[0].as_ref() else { panic!("exp has a gradient") };
    // The gradient of exp is its result: 1 with respect to that, and exp with respect to the input.
    let second = grad(&[slope], &[&out[1], &y], None, Some(true), false, false)?;
    let second: Vec<f64> = second.iter().flatten().flat_map(values).collect();
    assert_eq!(second, [1.0, values(slope)[0]]);
    Ok(())
}

#[test]
fn lists_written_in_place_keep_a_node_a_tensor() -> Result<()> {
    let x = leaf(&[2.0])?;
    let (a, b) = (ops::clone(&x, None)?, plain(&[1.0])?);
    ops::_foreach_mul_scalar_(&[&a, &b], Scalar::Float(3.0))?;
    assert_eq!((node_name(&a), node_name(&b)), ("MulBackward1".into(), "None".into()));
    a.backward()?;
    assert_eq!(grad_of(&x), [3.0]);
    Ok(())
}
