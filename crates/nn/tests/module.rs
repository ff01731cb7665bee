//! Modules as trees: names, order, modes, text, state.

use tensor_aten::{Tensor, tensor};
use tensor_backends_cpu as _;
use tensor_core::Result;
use tensor_nn::{
    self as nn, BatchNorm1d, Buffer, Conv1d, Conv1dOptions, Conv2d, Conv2dOptions, ConvTranspose2d,
    ConvTranspose2dOptions, Dropout, Embedding, EmbeddingOptions, Forward, Linear, Member, Module, Padding, Parameter,
    ReLU, Sequential, StateDict, Training, Visitor,
};

#[derive(Module)]
#[module(crate = "tensor_nn", repr)]
struct Net {
    blocks: Vec<Sequential>,
    #[module(rename = "head.out")]
    out: Linear,
    absent: Option<Linear>,
    scale: Parameter,
    steps: Buffer,
    width: i64,
    #[module(skip)]
    _note: std::marker::PhantomData<fn()>,
}

impl Net {
    fn new() -> Result<Self> {
        let block = || -> Result<Sequential> { Ok(nn::sequential![Linear::new(2, 2)?, Dropout::new(0.5)?]) };
        Ok(Self {
            blocks: vec![block()?, block()?],
            out: Linear::new(2, 1)?,
            absent: None,
            scale: Parameter::new(tensor!([1.0])?)?,
            steps: Buffer::new(tensor!(0)?),
            width: 2,
            _note: std::marker::PhantomData,
        })
    }

    fn extra_repr(&self) -> String {
        format!("width={}", self.width)
    }
}

#[test]
fn names_are_paths_in_pytorchs_order() {
    let net = Net::new().unwrap();
    let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "scale",
            "blocks.0.0.weight",
            "blocks.0.0.bias",
            "blocks.1.0.weight",
            "blocks.1.0.bias",
            "head.out.weight",
            "head.out.bias"
        ]
    );
    assert_eq!(net.named_buffers().len(), 1);
    assert_eq!(net.state_dict().unwrap().names().nth(1), Some("steps"));
    assert_eq!(net.num_parameters(), 1 + 2 * 6 + 3);
    let modules: Vec<String> = net.named_modules().into_iter().map(|(path, _)| path).collect();
    assert_eq!(
        modules,
        ["blocks", "blocks.0", "blocks.0.0", "blocks.0.1", "blocks.1", "blocks.1.0", "blocks.1.1", "head.out"]
    );
}

#[test]
fn modules_print_as_pytorchs() {
    let text = "Net(
  width=2
  (blocks): ModuleList(
    (0-1): 2 x Sequential(
      (0): Linear(in_features=2, out_features=2, bias=True)
      (1): Dropout(p=0.5, inplace=False)
    )
  )
  (head.out): Linear(in_features=2, out_features=1, bias=True)
)";
    let net = Net::new().unwrap();
    assert_eq!(net.to_string(), text);
    let (_, first) = &net.named_children()[0];
    assert!(first.to_string().starts_with("ModuleList("));
    assert_eq!(net.scale.to_string(), "Parameter containing:\ntensor([1.], requires_grad=True)");
    assert_eq!(
        (nn::sequential![].to_string(), Vec::<Linear>::new().repr()),
        ("Sequential()".into(), "ModuleList()".into())
    );
}

#[test]
fn modes_and_gradients_reach_the_whole_tree() {
    struct Modes(Vec<bool>);
    impl<'a> Visitor<'a> for Modes {
        fn module(&mut self, _: &str, module: &'a dyn Module) {
            module.visit(self);
        }
        fn training(&mut self, training: &'a Training) {
            self.0.push(training.get());
        }
    }
    let net = Net::new().unwrap();
    let modes = || {
        let mut modes = Modes(Vec::new());
        net.visit(&mut modes);
        modes.0
    };
    assert_eq!(modes(), [true, true]);
    net.eval();
    assert_eq!(modes(), [false, false]);
    net.train();
    assert_eq!(modes(), [true, true]);
    net.requires_grad_(false).unwrap();
    assert!(net.parameters().iter().all(|parameter| !parameter.requires_grad()));
    net.requires_grad_(true).unwrap();
    net.scale.sum().unwrap().backward().unwrap();
    assert!(net.scale.grad().is_some());
    net.zero_grad().unwrap();
    assert!(net.scale.grad().is_none());
}

#[test]
fn shared_parameters_are_named_once_and_saved_under_every_name() {
    let first = Linear::new(2, 2).unwrap();
    let tied = nn::sequential![first.clone(), ReLU, first];
    assert_eq!(tied.named_parameters().len(), 2);
    assert_eq!(tied.state_dict().unwrap().len(), 4);
    assert_eq!(tied.num_parameters(), 6);
}

#[test]
fn states_load_by_name() {
    let (net, other) = (Net::new().unwrap(), Net::new().unwrap());
    let state = net.state_dict().unwrap();
    assert!(state.iter().all(|(_, tensor)| !tensor.requires_grad()));
    other.load_state_dict(&state).unwrap();
    let values = |net: &Net| net.out.weight.to_vec::<f32>().unwrap();
    assert_eq!(values(&net), values(&other));
    // The state shares memory with its module, a deep copy does not.
    let copy = state.deep_clone().unwrap();
    nn::init::zeros_(&net.out.weight).unwrap();
    assert_eq!(state.get("head.out.weight").unwrap().to_vec::<f32>().unwrap(), [0.0, 0.0]);
    assert_eq!(copy.get("head.out.weight").unwrap().to_vec::<f32>().unwrap(), values(&other));
    // Loading keeps the parameters trainable.
    assert!(other.out.weight.requires_grad() && other.out.weight.is_leaf());
}

#[test]
fn states_that_do_not_fit_are_refused_with_pytorchs_list() {
    let net = Linear::new(3, 2).unwrap();
    let before = net.weight.to_vec::<f32>().unwrap();
    let mut state = StateDict::new();
    state.insert("weight", Tensor::zeros(&[3, 3], ()).unwrap());
    state.insert("x", Tensor::zeros(&[1], ()).unwrap());
    let error = net.load_state_dict(&state).unwrap_err();
    assert_eq!(
        error.message(),
        "Error(s) in loading state_dict for Linear:\n\tMissing key(s) in state_dict: \"bias\". \n\tUnexpected key(s) in \
         state_dict: \"x\". \n\tsize mismatch for weight: copying a param with shape torch.Size([3, 3]) from checkpoint, the \
         shape in current model is torch.Size([2, 3])."
    );
    assert!(net.load_state_dict_opt(&state, false).is_err());
    assert_eq!(net.weight.to_vec::<f32>().unwrap(), before);
    state.insert("weight", Tensor::zeros(&[2, 3], ()).unwrap());
    let keys = net.load_state_dict_opt(&state, false).unwrap();
    assert_eq!((keys.missing, keys.unexpected), (vec!["bias".to_owned()], vec!["x".to_owned()]));
    assert_eq!(net.weight.to_vec::<f32>().unwrap(), [0.0; 6]);
}

#[test]
fn modules_can_be_boxed_and_written_by_hand() {
    struct Twice(Box<dyn nn::Layer>);
    impl Module for Twice {
        fn name(&self) -> &'static str {
            "Twice"
        }
        fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
            self.0.accept("inner", visitor);
        }
    }
    impl Forward for Twice {
        fn forward(&self, input: &Tensor) -> Result<Tensor> {
            self.0.forward(&self.0.forward(input)?)
        }
    }
    let net = nn::sequential![Twice(Box::new(Linear::new(2, 2).unwrap()))];
    assert_eq!(net.named_parameters()[0].0, "0.inner.weight");
    assert_eq!(net.forward(&tensor!([[1.0, 2.0]]).unwrap()).unwrap().sizes(), [1, 2]);
    let modules: Vec<Box<dyn Module>> = vec![Box::new(ReLU), Box::new(Dropout::new(0.1).unwrap())];
    assert_eq!(modules.repr(), "ModuleList(\n  (0): ReLU()\n  (1): Dropout(p=0.1, inplace=False)\n)");
}

#[test]
fn settings_out_of_range_are_errors() {
    let message = |error: tensor_core::Error| error.message().to_owned();
    assert_eq!(message(Dropout::new(1.5).unwrap_err()), "dropout probability has to be between 0 and 1, but got 1.5");
    let conv = |options| Conv2d::new_opt(4, 6, 3, options).map(drop);
    assert_eq!(message(conv(Conv2dOptions::new().groups(3)).unwrap_err()), "in_channels must be divisible by groups");
    let strided = Conv2dOptions::new().padding(Padding::Same).stride(2);
    assert_eq!(message(conv(strided).unwrap_err()), "padding='same' is not supported for strided convolutions");
    assert!(Embedding::new_opt(3, 2, EmbeddingOptions::new().padding_idx(3)).is_err());
    assert!(Linear::new(-1, 2).is_err());
    let norm = BatchNorm1d::new(3).unwrap();
    let one = Tensor::zeros(&[1, 3], ()).unwrap();
    assert_eq!(
        message(norm.forward(&one).unwrap_err()),
        "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])"
    );
    assert_eq!(message(norm.forward(&tensor!([1.0]).unwrap()).unwrap_err()), "expected 2D or 3D input (got 1D input)");
    norm.eval();
    assert!(norm.forward(&one).is_ok());
}

#[test]
fn convolutions_of_other_kinds_print_and_run_as_pytorchs() {
    let line = Conv1d::new_opt(4, 6, 5, Conv1dOptions::new().stride(2).padding(1).dilation(3).groups(2).bias(false));
    let line = line.unwrap();
    assert_eq!(
        line.repr(),
        "Conv1d(4, 6, kernel_size=(5,), stride=(2,), padding=(1,), dilation=(3,), groups=2, bias=False)"
    );
    assert_eq!(line.weight.sizes(), [6, 2, 5]);
    assert_eq!(line.forward(&Tensor::zeros(&[1, 4, 20], ()).unwrap()).unwrap().sizes(), [1, 6, 5]);
    let same = Conv1d::new_opt(3, 4, 3, Conv1dOptions::new().padding(Padding::Same)).unwrap();
    assert_eq!(same.repr(), "Conv1d(3, 4, kernel_size=(3,), stride=(1,), padding=same)");
    let options = ConvTranspose2dOptions::new().stride(2).padding(1).output_padding(1).groups(2).dilation(2);
    let up = ConvTranspose2d::new_opt(4, 6, (3, 2), options).unwrap();
    assert_eq!(
        up.repr(),
        "ConvTranspose2d(4, 6, kernel_size=(3, 2), stride=(2, 2), padding=(1, 1), dilation=(2, 2), \
         output_padding=(1, 1), groups=2)"
    );
    assert_eq!((up.weight.sizes(), up.bias.as_ref().unwrap().sizes()), (&[4, 3, 3, 2][..], &[6][..]));
    assert_eq!(up.forward(&Tensor::zeros(&[1, 4, 3, 3], ()).unwrap()).unwrap().sizes(), [1, 6, 8, 6]);
    assert!(ConvTranspose2d::new_opt(4, 6, 3, ConvTranspose2dOptions::new().groups(4)).is_err());
}
