//! Attention modules: the fused and the weighted way agree, masks leave out what they say, PyTorch's numbers and errors.

use tensor_aten::{Tensor, ops, tensor};
use tensor_backends_cpu as _;
use tensor_core::{DType, Result};
use tensor_nn::{
    AttentionArgs, Forward, LSTMCell, Module, MultiheadAttention, MultiheadAttentionOptions, TransformerActivation,
    TransformerEncoderLayer, TransformerEncoderLayerOptions,
};

/// Numbers between -1 and 1 that repeat at no short distance.
fn numbers(sizes: &[i64]) -> Result<Tensor> {
    let n = sizes.iter().product::<i64>();
    Tensor::from_vec((0..n).map(|i| (i as f32 * 0.7).sin()).collect(), sizes)
}

fn close(a: &Tensor, b: &Tensor) -> Result<bool> {
    Ok(a.sizes() == b.sizes() && ops::allclose(a, b, 1e-5, 1e-6, false)?)
}

/// The mask (n, n) of what is later.
fn later(n: i64) -> Result<Tensor> {
    let ones = ops::ones(&[n, n], Some(DType::Bool), None, None, None)?;
    ops::triu(&ones, 1)
}

/// Gives every parameter half of [`numbers`].
fn fill(module: &impl Module) -> Result<()> {
    tensor_autograd::no_grad(|| {
        module.parameters().iter().try_for_each(|parameter| {
            ops::copy_(parameter, &ops::mul_scalar(&numbers(parameter.sizes())?, 0.5)?, false).map(drop)
        })
    })
}

/// The first numbers of a tensor.
fn first(tensor: &Tensor) -> Result<Tensor> {
    ops::narrow(&ops::reshape(tensor, &[-1])?, 0, 0, 8)
}

#[test]
fn values_are_pytorchs() -> Result<()> {
    let attention = MultiheadAttention::new_opt(4, 2, MultiheadAttentionOptions::new().add_bias_kv(true))?;
    fill(&attention)?;
    let x = numbers(&[3, 2, 4])?;
    let padding = tensor!([[false, false, true], [false, false, false]])?;
    let args = AttentionArgs { key_padding_mask: Some(&padding), ..AttentionArgs::default() };
    let (output, weights) = attention.forward_opt(&x, &x, &x, args)?;
    let expected = tensor!([0.614427, -0.3638, 1.170856, -0.160387, 0.316232, -0.033828, 0.847235, 0.119486])?;
    assert!(ops::allclose(&first(&output)?, &expected, 1e-5, 1e-5, false)?, "{output}");
    let expected = tensor!([0.20825, 0.408609, 0.0, 0.383141, 0.206872, 0.397771, 0.0, 0.395357])?;
    assert!(ops::allclose(&first(&weights.unwrap())?, &expected, 1e-5, 1e-5, false)?);
    let options = TransformerEncoderLayerOptions::new().dim_feedforward(6).dropout(0.0);
    let layer = TransformerEncoderLayer::new_opt(4, 2, options.activation(TransformerActivation::GELU))?;
    fill(&layer)?;
    let expected = tensor!([0.0, -0.088092, 1.165278, 0.629991, 0.0, -0.005489, 1.224339, 0.576873])?;
    let output = layer.forward(&x)?;
    assert!(ops::allclose(&first(&output)?, &expected, 1e-5, 1e-5, false)?, "{output}");
    Ok(())
}

#[test]
fn both_ways_agree_for_every_mask_and_setting() -> Result<()> {
    let options = MultiheadAttentionOptions::new;
    let x = numbers(&[5, 2, 8])?;
    let padding = tensor!([[false, false, false, true, true], [false, false, false, false, true]])?;
    let causal = later(5)?;
    let heads = ops::repeat(&ops::unsqueeze(&causal, 0)?, &[4, 1, 1])?;
    for options in [options(), options().bias(false), options().add_bias_kv(true), options().add_zero_attn(true)] {
        let attention = MultiheadAttention::new_opt(8, 2, options)?;
        for attn_mask in [None, Some(&causal), Some(&heads)] {
            for key_padding_mask in [None, Some(&padding)] {
                let args = AttentionArgs { attn_mask, key_padding_mask, ..AttentionArgs::default() };
                let (weighted, weights) = attention.forward_opt(&x, &x, &x, args)?;
                let fused = attention.forward_opt(&x, &x, &x, AttentionArgs { need_weights: false, ..args })?;
                assert!(close(&weighted, &fused.0)? && fused.1.is_none());
                let sums = ops::sum_dim_int_list(&weights.unwrap(), Some(&[-1]), false, None)?;
                assert!(close(&sums, &ops::ones(&[2, 5], None, None, None, None)?)?);
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_masked_has_no_weight() -> Result<()> {
    let attention = MultiheadAttention::new(8, 2)?;
    let x = numbers(&[3, 8])?;
    let mask = later(3)?;
    let args = AttentionArgs { attn_mask: Some(&mask), average_attn_weights: false, ..AttentionArgs::default() };
    let (output, weights) = attention.forward_opt(&x, &x, &x, args)?;
    let weights = weights.unwrap();
    assert_eq!((output.sizes(), weights.sizes()), (&[3, 8][..], &[2, 3, 3][..]));
    let zero = ops::eq_scalar(&weights, 0)?;
    assert!(ops::equal(&zero, &ops::expand(&mask, &[2, 3, 3], false)?)?);
    // The hint alone gives the fused kernel's own mask.
    let hint = AttentionArgs { need_weights: false, is_causal: true, ..args };
    assert!(close(&attention.forward_opt(&x, &x, &x, hint)?.0, &output)?);
    Ok(())
}

#[test]
fn keys_and_values_may_have_other_features_and_the_batch_may_come_first() -> Result<()> {
    let options = MultiheadAttentionOptions::new().kdim(5).vdim(6).batch_first(true);
    let attention = MultiheadAttention::new_opt(8, 2, options)?;
    let (q, k, v) = (numbers(&[2, 3, 8])?, numbers(&[2, 4, 5])?, numbers(&[2, 4, 6])?);
    let (output, weights) = attention.forward(&q, &k, &v)?;
    assert_eq!((output.sizes(), weights.unwrap().sizes()), (&[2, 3, 8][..], &[2, 3, 4][..]));
    // An element of the batch by itself.
    let second = |t: &Tensor| ops::select_int(t, 0, 1);
    let (alone, _) = attention.forward(&second(&q)?, &second(&k)?, &second(&v)?)?;
    assert!(close(&alone, &second(&output)?)?);
    let names: Vec<String> = attention.named_parameters().into_iter().map(|(name, _)| name).collect();
    let expected =
        ["q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"];
    assert_eq!(names, expected);
    Ok(())
}

#[test]
fn bad_inputs_are_errors() -> Result<()> {
    let message = |result: Result<(Tensor, Option<Tensor>)>| result.unwrap_err().to_string();
    assert!(MultiheadAttention::new(7, 2).is_err_and(|e| e.to_string().contains("divisible by num_heads")));
    let attention = MultiheadAttention::new(8, 2)?;
    let (x, short) = (numbers(&[3, 2, 8])?, numbers(&[2, 2, 8])?);
    assert!(message(attention.forward(&x, &x, &short)).contains("does not match value shape"));
    assert!(
        message(attention.forward(&numbers(&[3, 2, 4])?, &x, &x)).contains("was expecting embedding dimension of 8")
    );
    let mask = later(4)?;
    let args = AttentionArgs { attn_mask: Some(&mask), ..AttentionArgs::default() };
    let wrong = message(attention.forward_opt(&x, &x, &x, args));
    assert!(wrong.contains("The shape of the 2D attn_mask is torch.Size([4, 4]), but should be (3, 3)."), "{wrong}");
    let padding = ops::zeros(&[2, 4], Some(DType::Bool), None, None, None)?;
    let args = AttentionArgs { key_padding_mask: Some(&padding), ..AttentionArgs::default() };
    let wrong = message(attention.forward_opt(&x, &x, &x, args));
    assert!(wrong.contains("Expected key_padded_mask.shape[1] to be 3, but got 4"), "{wrong}");
    let args = AttentionArgs { is_causal: true, ..AttentionArgs::default() };
    assert!(message(attention.forward_opt(&x, &x, &x, args)).contains("Need attn_mask"));
    Ok(())
}

#[test]
fn encoder_layers_train() -> Result<()> {
    for norm_first in [false, true] {
        let options = TransformerEncoderLayerOptions::new().dim_feedforward(16).norm_first(norm_first);
        let layer = TransformerEncoderLayer::new_opt(8, 2, options)?;
        let x = numbers(&[5, 2, 8])?;
        let output = layer.forward(&x)?;
        assert_eq!(output.sizes(), x.sizes());
        ops::mean(&ops::mul(&output, &numbers(&[5, 2, 8])?)?, None)?.backward()?;
        assert!(layer.parameters().iter().all(|parameter| parameter.grad().is_some()));
        // Without dropout, a causal mask keeps later steps from earlier ones.
        layer.eval();
        let mask = later(5)?;
        let all = layer.forward_opt(&x, Some(&mask), None, true)?;
        let (start, mask) = (ops::narrow(&x, 0, 0, 3)?, later(3)?);
        let some = layer.forward_opt(&start, Some(&mask), None, true)?;
        assert!(close(&some, &ops::narrow(&all, 0, 0, 3)?)?);
    }
    Ok(())
}

#[test]
fn a_cell_is_a_step_of_its_layer() -> Result<()> {
    let (cell, layer) = (LSTMCell::new(4, 3)?, tensor_nn::LSTM::new(4, 3)?);
    let state = cell.state_dict()?;
    let renamed = state.into_iter().map(|(name, tensor)| (format!("{name}_l0"), tensor)).collect();
    layer.load_state_dict(&renamed)?;
    let x = numbers(&[2, 5, 4])?;
    let (output, _) = layer.forward(&x, None)?;
    let (mut h, mut c) = cell.forward(&ops::select_int(&x, 0, 0)?, None)?;
    assert!(close(&h, &ops::select_int(&output, 0, 0)?)?);
    (h, c) = cell.forward(&ops::select_int(&x, 0, 1)?, Some((&h, &c)))?;
    assert!(close(&h, &ops::select_int(&output, 0, 1)?)?);
    assert_eq!((c.sizes(), cell.repr().as_str()), (&[5, 3][..], "LSTMCell(4, 3)"));
    assert!(cell.forward(&x, None).is_err());
    Ok(())
}
