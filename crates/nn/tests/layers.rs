//! Layers of one or two inputs, against their definitions.

use tensor_aten::{Tensor, ops, tensor};
use tensor_backends_cpu as _;
use tensor_core::Result;
use tensor_nn::{
    Bilinear, CellOptions, Embedding, EmbeddingBag, Forward, GRU, GRUCell, LSTMCell, Linear, LinearOptions, Module,
    PReLU, PReLUOptions, Parameter, RNNCell, StateDict, init,
};

fn numbers(sizes: &[i64]) -> Result<Tensor> {
    let n = sizes.iter().product::<i64>();
    Tensor::from_vec((0..n).map(|i| (i as f32 * 0.7).sin()).collect(), sizes)
}

fn close(a: &Tensor, b: &Tensor) -> Result<bool> {
    Ok(a.sizes() == b.sizes() && ops::allclose(a, b, 1e-5, 1e-6, false)?)
}

#[test]
fn bilinear_is_a_matrix_for_each_output() -> Result<()> {
    let layer = Bilinear::new_opt(3, 4, 2, LinearOptions::new().bias(false))?;
    let (x, z) = (numbers(&[5, 3])?, numbers(&[5, 4])?);
    let output = layer.forward(&x, &z)?;
    for i in 0..2 {
        let products = ops::mul(&ops::mm(&x, &ops::select_int(&layer.weight, 0, i)?)?, &z)?;
        let expected = ops::sum_dim_int_list(&products, Some(&[1]), false, None)?;
        assert!(close(&ops::select_int(&output, 1, i)?, &expected)?);
    }
    assert_eq!(layer.repr(), "Bilinear(in1_features=3, in2_features=4, out_features=2, bias=False)");
    assert!(Bilinear::new(0, 4, 2).is_err());
    Ok(())
}

#[test]
fn prelu_has_a_slope_for_each_channel() -> Result<()> {
    let layer = PReLU::new_opt(PReLUOptions::new().num_parameters(2).init(0.5))?;
    let output = layer.forward(&tensor!([[-2.0, -4.0], [3.0, -1.0]])?)?;
    assert_eq!(output.to_vec::<f32>()?, [-1.0, -2.0, 3.0, -0.5]);
    assert_eq!(layer.repr(), "PReLU(num_parameters=2)");
    Ok(())
}

#[test]
fn cells_step_as_layers_do() -> Result<()> {
    let (cell, layer) = (GRUCell::new(4, 3)?, GRU::new(4, 3)?);
    let state: StateDict =
        cell.state_dict()?.into_iter().map(|(name, tensor)| (format!("{name}_l0"), tensor)).collect();
    layer.load_state_dict(&state)?;
    let x = numbers(&[2, 5, 4])?;
    let (output, _) = layer.forward(&x, None)?;
    let first = cell.forward(&ops::select_int(&x, 0, 0)?, None)?;
    let second = cell.forward(&ops::select_int(&x, 0, 1)?, Some(&first))?;
    assert!(close(&second, &ops::select_int(&output, 0, 1)?)?);
    let relu = RNNCell::relu(4, 3, CellOptions::new().bias(false))?;
    init::constant_(&relu.weight_ih, 1.0)?;
    let unbatched = relu.forward(&tensor!([1.0, -3.0, 1.0, 0.5])?, None)?;
    assert_eq!(unbatched.to_vec::<f32>()?, [0.0; 3]);
    assert_eq!(relu.repr(), "RNNCell(4, 3, bias=False, nonlinearity=relu)");
    Ok(())
}

#[test]
fn modules_print_with_whatever_parameters_a_caller_gives_them() -> Result<()> {
    let number = || Parameter::new(tensor!(1.0)?);
    let (mut linear, mut table, mut cell) = (Linear::new(3, 2)?, Embedding::new(4, 3)?, LSTMCell::new(3, 2)?);
    (linear.weight, table.weight, cell.weight_hh) = (number()?, number()?, number()?);
    assert_eq!(linear.repr(), "Linear(in_features=0, out_features=0, bias=True)");
    assert_eq!(table.repr(), "Embedding(0, 0)");
    assert_eq!(cell.repr(), "LSTMCell(3, 0)");
    let (mut bilinear, mut bag) = (Bilinear::new(3, 4, 2)?, EmbeddingBag::new(4, 3)?);
    (bilinear.weight, bag.weight) = (number()?, number()?);
    assert_eq!(bilinear.repr(), "Bilinear(in1_features=0, in2_features=0, out_features=0, bias=True)");
    assert_eq!(bag.repr(), "EmbeddingBag(0, 0, mode='mean')");
    assert!(cell.forward(&numbers(&[1, 3])?, None).is_err());
    Ok(())
}
