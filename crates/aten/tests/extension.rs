//! Operators of another crate: called, called by name, dispatched, checked, and never without a word about gradients.

use tensor_aten::{IValue, Tensor, define_op, dispatch};
use tensor_core::{DType, Device, ErrorKind, Result, Scalar};

fn scaled_add_cpu(self_: &Tensor, other: &Tensor, scale: f64) -> Result<Tensor> {
    let (a, b) = (self_.to_vec::<f32>()?, other.to_vec::<f32>()?);
    Tensor::from_vec(a.iter().zip(&b).map(|(a, b)| a + scale as f32 * b).collect(), self_.sizes())
}

fn scaled_add_meta(self_: &Tensor, _: &Tensor, _: f64) -> Result<Tensor> {
    Tensor::new_dense(self_.sizes(), self_.dtype(), self_.device())
}

define_op! {
    /// `self + scale * other` for float32 tensors of one shape.
    pub fn scaled_add(self_: &Tensor, other: &Tensor, scale: f64) -> Tensor;
    static SCALED_ADD;
    schema: "test::scaled_add(Tensor self, Tensor other, *, float scale=1.0) -> Tensor";
    kernels: { Cpu: scaled_add_cpu, Meta: scaled_add_meta };
}

fn fill_cpu(self_: &Tensor, value: Scalar) -> Result<()> {
    self_.with_mut_slice::<f32, _>(|all| all.fill(value.to_f64() as f32))
}

define_op! {
    /// Writes a number over a float32 tensor.
    fn fill_all_(self_: &Tensor, value: Scalar) -> ();
    static FILL_ALL_;
    schema: "test::fill_all_(Tensor(a!) self, Scalar value) -> ()";
    kernels: { Cpu: fill_cpu };
}

fn parts(list: &[&Tensor], sizes: &[i64], first: Option<&Tensor>, name: &str) -> Result<(Tensor, Tensor)> {
    let text = format!("{name}{}{}", list.len(), first.is_some());
    let facts = Tensor::from_slice(&[text.len() as i64], &[])?;
    Ok((Tensor::new_dense(sizes, DType::F32, Device::CPU)?, facts))
}

define_op! {
    /// Takes one of everything.
    fn everything(list: &[&Tensor], sizes: &[i64], first: Option<&Tensor>, name: &str) -> (Tensor, Tensor);
    static EVERYTHING;
    schema: "test::everything(Tensor[] list, SymInt[2] sizes, Tensor? first=None, str name=\"x, y\") -> (Tensor a, Tensor b)";
    kernels: { CompositeExplicitAutograd: parts };
}

fn vector(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len() as i64]).unwrap()
}

#[test]
fn calls_reach_the_kernel_of_the_device() {
    let (x, y) = (vector(&[1.0, 2.0]), vector(&[10.0, 20.0]));
    assert_eq!(scaled_add(&x, &y, 0.5).unwrap().to_vec::<f32>().unwrap(), [6.0, 12.0]);
    let meta = Tensor::new_dense(&[3], DType::F32, Device::META).unwrap();
    assert!(scaled_add(&meta, &meta, 1.0).unwrap().is_meta());
}

#[test]
fn calls_by_name_take_and_give_the_stack() {
    let (x, y) = (vector(&[1.0]), vector(&[2.0]));
    let results = dispatch::invoke("test::scaled_add", [(&x).into(), (&y).into(), 3i64.into()]).unwrap();
    match results.as_slice() {
        [IValue::Tensor(z)] => assert_eq!(z.to_vec::<f32>().unwrap(), [7.0]),
        _ => panic!("one tensor was expected"),
    }
    let error = dispatch::invoke("test::scaled_add", [(&x).into(), IValue::None, 3i64.into()]).err().unwrap();
    assert!(error.message().contains("Expected a value of type 'Tensor' for argument 1"), "{error}");
    let args = [vec![x.clone(), y].into(), 2i64.into(), IValue::None, "ab".into()];
    let results = dispatch::invoke("test::everything", args).unwrap();
    match results.as_slice() {
        [IValue::Tensor(_), IValue::Tensor(facts)] => assert_eq!(facts.to_vec::<i64>().unwrap(), [8]),
        _ => panic!("two tensors were expected"),
    }
    assert_eq!(dispatch::find("test::scaled_add").unwrap().schema, SCALED_ADD.info().schema);
    assert!(dispatch::dump_registered("test::scaled_add").unwrap().contains("extension.rs"));
}

#[test]
fn writes_count_as_versions() {
    let x = vector(&[1.0, 2.0]);
    let before = x.version().unwrap();
    fill_all_(&x, Scalar::Int(3)).unwrap();
    assert!(x.version().unwrap() > before);
    assert_eq!(x.to_vec::<f32>().unwrap(), [3.0, 3.0]);
}

#[test]
fn gradients_are_refused_where_no_derivative_is_known() {
    let (x, y) = (vector(&[1.0]), vector(&[2.0]));
    x.as_impl().set_requires_grad(true);
    // No engine is linked into this test, so there is no node that could be the error later: the call is.
    for error in [scaled_add(&x, &y, 1.0).err(), fill_all_(&x, Scalar::Int(1)).err()] {
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::NotImplemented);
        assert!(error.message().starts_with("derivative for test::"), "{error}");
    }
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0]);
    let _no_grad = tensor_core::tls::grad_mode(false);
    assert!(scaled_add(&x, &y, 1.0).is_ok());
}
